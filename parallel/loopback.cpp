// Ranks as threads: messages are copied through the host, from where they are posted to where they are taken.
#include <kiln/error.hpp>
#include <kiln/part_kernels.hpp>
#include <kiln/transport.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "runtime/launch/kernel.hpp"

namespace kiln {

struct LoopbackGroup::Mailboxes {
  int size = 0;
  std::chrono::duration<double> timeout{};
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages;  ///< by sender and receiver
  std::string failure;                                                         ///< of any rank; then all fail
};

namespace {

[[noreturn]] void fail(int rank, const std::string& what) {
  throw Error(ErrorCode::device, fmt::format("rank {}: {}", rank, what));
}

}  // namespace

class LoopbackTransport final : public Transport {
 public:
  using Mailboxes = LoopbackGroup::Mailboxes;

  LoopbackTransport(std::shared_ptr<Mailboxes> boxes, int rank, std::shared_ptr<Kernel> any)
      : boxes_(std::move(boxes)), rank_(rank), any_(std::move(any)) {}

  int rank() const override { return rank_; }
  int size() const override { return boxes_->size; }

  void start(std::span<const Message> sends, std::span<const Message> receives, std::uint64_t) override {
    for (const Message& message : sends) {
      if (message.bytes == 0) continue;
      std::vector<std::byte> bytes(message.bytes);
      device().read(message.address, bytes);
      std::lock_guard lock(boxes_->mutex);
      if (!boxes_->failure.empty()) fail(rank_, boxes_->failure);
      boxes_->messages[{rank_, message.peer}].push_back(std::move(bytes));
      boxes_->changed.notify_all();
    }
    pending_.emplace_back(receives.begin(), receives.end());
  }

  void finish(std::uint64_t) override {
    if (pending_.empty()) fail(rank_, "no exchange was begun");
    const std::vector<Message> receives = std::move(pending_.front());
    pending_.pop_front();
    for (const Message& message : receives)
      if (message.bytes > 0) device().write(message.address, take(message));
  }

  void synchronize(std::uint64_t) override {
    std::lock_guard lock(boxes_->mutex);
    if (!boxes_->failure.empty()) fail(rank_, boxes_->failure);
  }

  void abort(const std::string& reason) noexcept override {
    std::lock_guard lock(boxes_->mutex);
    if (boxes_->failure.empty()) boxes_->failure = fmt::format("rank {} ended the group: {}", rank_, reason);
    boxes_->changed.notify_all();
  }

 private:
  Device& device() const { return static_cast<PreparingKernel&>(*any_).device(); }

  std::vector<std::byte> take(const Message& message) {
    std::unique_lock lock(boxes_->mutex);
    auto& queue = boxes_->messages[{message.peer, rank_}];
    const bool came = boxes_->changed.wait_for(lock, boxes_->timeout,
                                               [&] { return !queue.empty() || !boxes_->failure.empty(); });
    if (!boxes_->failure.empty()) fail(rank_, boxes_->failure);
    if (!came) {
      boxes_->failure =
          fmt::format("nothing came from rank {} within {} s", message.peer, boxes_->timeout.count());
      boxes_->changed.notify_all();
      fail(rank_, boxes_->failure);
    }
    std::vector<std::byte> bytes = std::move(queue.front());
    queue.pop_front();
    if (bytes.size() != message.bytes)
      fail(rank_, fmt::format("{} bytes came from rank {}, {} were expected", bytes.size(), message.peer,
                              message.bytes));
    return bytes;
  }

  std::shared_ptr<Mailboxes> boxes_;
  int rank_;
  std::shared_ptr<Kernel> any_;  ///< of the runtime: it knows the device
  std::deque<std::vector<Message>> pending_;
};

LoopbackGroup::LoopbackGroup(int size, double timeout_seconds) : mailboxes_(std::make_shared<Mailboxes>()) {
  mailboxes_->size = size;
  mailboxes_->timeout = std::chrono::duration<double>(timeout_seconds);
}

LoopbackGroup::~LoopbackGroup() = default;

std::unique_ptr<Transport> LoopbackGroup::join(int rank, Runtime& runtime) {
  if (rank < 0 || rank >= mailboxes_->size)
    throw Error(ErrorCode::bad_input, fmt::format("rank {} of a group of {}", rank, mailboxes_->size));
  Config config;
  config.target = Target::sm_80;
  config.depth = 64;
  auto any = runtime.load(make_part_merge_kernel(config, 1, false));
  return std::make_unique<LoopbackTransport>(mailboxes_, rank, std::move(any));
}

}  // namespace kiln
