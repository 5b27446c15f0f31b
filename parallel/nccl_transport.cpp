// Ranks as devices: messages are sends and receives of NCCL on a stream of their own, so that they run beside the
// kernels. The communicator does not block: the host looks at its state until a deadline, and aborts it then.
#include <kiln/error.hpp>
#include <kiln/transport.hpp>

#include <array>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "parallel/nccl_api.hpp"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

/// What the driver has besides runtime/device/cuda_api.hpp.
struct StreamApi {
  cuda::Result (*create)(cuda::Stream*, unsigned, int) = nullptr;
  cuda::Result (*destroy)(cuda::Stream) = nullptr;
  cuda::Result (*wait_event)(cuda::Stream, cuda::Event, unsigned) = nullptr;
  cuda::Result (*query)(cuda::Event) = nullptr;
  cuda::Result (*priorities)(int*, int*) = nullptr;
};
constexpr unsigned kNonBlocking = 1, kNoTiming = 2;
constexpr cuda::Result kNotReady = 600;

StreamApi stream_api() {
  StreamApi api;
  const DynamicLibrary& library = cuda::init_driver().library;
  const bool found = library.resolve(api.create, "cuStreamCreateWithPriority") &&
                     library.resolve(api.destroy, "cuStreamDestroy_v2") &&
                     library.resolve(api.wait_event, "cuStreamWaitEvent") &&
                     library.resolve(api.query, "cuEventQuery") &&
                     library.resolve(api.priorities, "cuCtxGetStreamPriorityRange");
  if (!found) throw Error(ErrorCode::environment, "the CUDA driver is too old for streams with priorities");
  return api;
}

/// Makes a context current for a scope; the caller's own comes back after it.
class Current {
 public:
  Current(const cuda::Api& api, cuda::Context context) : api_(api), result_(api.push(context)) {}
  ~Current() {
    cuda::Context ignored = nullptr;
    if (result_ == cuda::kSuccess) api_.pop(&ignored);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  cuda::Result result() const { return result_; }

 private:
  const cuda::Api& api_;
  cuda::Result result_;
};

constexpr std::size_t kMostExchanges = 4;
struct Exchange {
  cuda::Event before = nullptr, after = nullptr;
};

/// What a transport has of the driver. Released also when only a part of it could be made.
struct Resources {
  explicit Resources(int ordinal) : cuda(cuda::init_driver()), streams(stream_api()) {
    cuda::DeviceId found = 0;
    cuda::check(cuda.device_get(&found, ordinal), "cuDeviceGet");
    cuda::check(cuda.primary_retain(&context, found), "cuDevicePrimaryCtxRetain");
    device = found;
  }
  ~Resources() {
    {
      const Current current(cuda, context);
      for (const Exchange& exchange : exchanges) destroy(exchange.before), destroy(exchange.after);
      for (cuda::Event event : {done, forked, joined}) destroy(event);
      for (cuda::Stream one : {stream, side})
        if (one != nullptr) streams.destroy(one);
    }
    cuda.primary_release(device);
  }
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  /// The streams and the events; the context is current.
  void make() {
    int least = 0, greatest = 0;
    cuda::check(streams.priorities(&least, &greatest), "cuCtxGetStreamPriorityRange");
    for (cuda::Stream* one : {&stream, &side})
      cuda::check(streams.create(one, kNonBlocking, greatest), "cuStreamCreateWithPriority");
    for (Exchange& exchange : exchanges) {
      cuda::check(cuda.event_create(&exchange.before, kNoTiming), "cuEventCreate");
      cuda::check(cuda.event_create(&exchange.after, kNoTiming), "cuEventCreate");
    }
    for (cuda::Event* event : {&done, &forked, &joined})
      cuda::check(cuda.event_create(event, kNoTiming), "cuEventCreate");
  }
  void destroy(cuda::Event event) const {
    if (event != nullptr) cuda.event_destroy(event);
  }

  const cuda::Api& cuda;
  StreamApi streams;
  cuda::DeviceId device = 0;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr, side = nullptr;  ///< of exchanges; that fork() gives
  std::array<Exchange, kMostExchanges> exchanges{};
  cuda::Event done = nullptr, forked = nullptr, joined = nullptr;
};

/// Arguments are looked at before the driver is started.
const NcclOptions& checked(const NcclOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(ErrorCode::bad_input, fmt::format("rank {} of a group of {}", options.rank, options.size));
  return options;
}

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(const NcclOptions& options)
      : nccl_(nccl::api(options.library)), options_(checked(options)), own_(options.device) {
    const Current current(own_.cuda, own_.context);
    cuda::check(current.result(), "cuCtxPushCurrent");
    own_.make();
    if (options.communicator != nullptr) {
      communicator_ = static_cast<nccl::Communicator>(options.communicator);
      return;
    }
    nccl::Settings settings;
    settings.blocking = 0;
    if (options.max_blocks > 0) settings.max_ctas = options.max_blocks;
    owned_ = true;
    settle(nccl_.init_rank(&communicator_, options.size, options.id, options.rank, &settings),
           "ncclCommInitRankConfig");
  }

  ~NcclTransport() override {
    if (!owned_ || communicator_ == nullptr) return;
    const Current current(own_.cuda, own_.context);
    try {
      settle(nccl_.finalize(communicator_), "ncclCommFinalize");
      nccl_.destroy(communicator_);
    } catch (const Error&) {
      // settle() has aborted it
    }
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  void start(std::span<const Message> sends, std::span<const Message> receives,
             std::uint64_t stream) override {
    refuse_after_failure();
    const Current current(own_.cuda, own_.context);
    check(current.result(), "cuCtxPushCurrent");
    if (begun_ - finished_ == kMostExchanges) fail("more exchanges were begun than are waited for");
    const Exchange& exchange = own_.exchanges[begun_++ % kMostExchanges];
    check(own_.cuda.event_record(exchange.before, stream_of(stream)), "cuEventRecord");
    check(own_.streams.wait_event(own_.stream, exchange.before, 0), "cuStreamWaitEvent");
    settle(nccl_.group_start(), "ncclGroupStart");
    nccl::Result first = nccl::kSuccess;
    const auto remember = [&](nccl::Result result) {
      if (first == nccl::kSuccess && result != nccl::kInProgress) first = result;
    };
    for (const Message& m : sends)
      if (m.bytes > 0)
        remember(nccl_.send(reinterpret_cast<const void*>(m.address), m.bytes, nccl::kInt8, m.peer,
                            communicator_, own_.stream));
    for (const Message& m : receives)
      if (m.bytes > 0)
        remember(nccl_.receive(reinterpret_cast<void*>(m.address), m.bytes, nccl::kInt8, m.peer,
                               communicator_, own_.stream));
    const nccl::Result ended = nccl_.group_end();
    settle(first == nccl::kSuccess ? ended : first, "ncclSend and ncclRecv");
    check(own_.cuda.event_record(exchange.after, own_.stream), "cuEventRecord");
  }

  void finish(std::uint64_t stream) override {
    refuse_after_failure();
    if (begun_ == finished_) fail("no exchange was begun");
    const Current current(own_.cuda, own_.context);
    check(current.result(), "cuCtxPushCurrent");
    check(own_.streams.wait_event(stream_of(stream), own_.exchanges[finished_++ % kMostExchanges].after, 0),
          "cuStreamWaitEvent");
  }

  // On the caller's stream: later work needs it, so nothing could run beside it.
  void collect(std::uint64_t blocks, std::size_t bytes, std::uint64_t stream) override {
    refuse_after_failure();
    const Current current(own_.cuda, own_.context);
    check(current.result(), "cuCtxPushCurrent");
    const std::uint64_t own = blocks + static_cast<std::uint64_t>(options_.rank) * bytes;
    settle(nccl_.all_gather(reinterpret_cast<const void*>(own), reinterpret_cast<void*>(blocks), bytes,
                            nccl::kInt8, communicator_, stream_of(stream)),
           "ncclAllGather");
  }

  std::uint64_t fork(std::uint64_t stream) override {
    follow(own_.side, stream_of(stream), own_.forked);
    return reinterpret_cast<std::uint64_t>(own_.side);
  }

  void join(std::uint64_t stream) override { follow(stream_of(stream), own_.side, own_.joined); }

  void synchronize(std::uint64_t stream) override {
    refuse_after_failure();
    const Current current(own_.cuda, own_.context);
    check(current.result(), "cuCtxPushCurrent");
    check(own_.cuda.event_record(own_.done, stream_of(stream)), "cuEventRecord");
    const auto deadline = Clock::now() + timeout();
    for (;;) {
      const cuda::Result result = own_.streams.query(own_.done);
      if (result == cuda::kSuccess) return;
      if (result != kNotReady) check(result, "cuEventQuery");
      look_at_communicator();
      if (Clock::now() > deadline)
        fail(fmt::format("the work was not complete within {} s: a rank did not take part, or works longer",
                         options_.timeout_seconds));
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void abort(const std::string& reason) noexcept override {
    if (!failure_.empty()) return;
    failure_ = reason.empty() ? "the group was ended" : reason;
    if (!owned_ || communicator_ == nullptr) return;  // aborting frees it: the caller's is for the caller
    const Current current(own_.cuda, own_.context);
    nccl_.abort(communicator_);
    communicator_ = nullptr;
  }

 private:
  static cuda::Stream stream_of(std::uint64_t stream) { return reinterpret_cast<cuda::Stream>(stream); }
  std::chrono::duration<double> timeout() const {
    return std::chrono::duration<double>(options_.timeout_seconds);
  }

  /// Later work of `later` comes after what is on `earlier`.
  void follow(cuda::Stream later, cuda::Stream earlier, cuda::Event event) {
    refuse_after_failure();
    const Current current(own_.cuda, own_.context);
    check(current.result(), "cuCtxPushCurrent");
    check(own_.cuda.event_record(event, earlier), "cuEventRecord");
    check(own_.streams.wait_event(later, event, 0), "cuStreamWaitEvent");
  }

  void refuse_after_failure() const {
    if (!failure_.empty())
      throw Error(ErrorCode::device, fmt::format("rank {}: {}", options_.rank, failure_));
  }
  [[noreturn]] void fail(const std::string& what) {
    abort(what);
    throw Error(ErrorCode::device, fmt::format("rank {}: {}", options_.rank, what));
  }
  /// A failure of the driver ends the group as one of NCCL does: the other ranks would wait in vain.
  void check(cuda::Result result, const char* what) {
    if (result == cuda::kSuccess) return;
    try {
      cuda::check(result, what);
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  [[noreturn]] void fail(nccl::Result result, const char* what) {
    const std::string text = nccl_.error_string(result);
    const char* last = communicator_ != nullptr ? nccl_.last_error(communicator_) : "";
    fail(fmt::format("{}: {}{}{}", what, text, last != nullptr && *last != 0 ? ": " : "",
                     last != nullptr ? last : ""));
  }

  void look_at_communicator() {
    nccl::Result state = nccl::kSuccess;
    const nccl::Result asked = nccl_.async_error(communicator_, &state);
    if (asked != nccl::kSuccess) fail(asked, "ncclCommGetAsyncError");
    if (state != nccl::kSuccess && state != nccl::kInProgress) fail(state, "NCCL");
  }

  /// Until a call that does not block has done what it is for.
  void settle(nccl::Result result, const char* what) {
    if (result == nccl::kSuccess) return;
    if (result != nccl::kInProgress) fail(result, what);
    const auto deadline = Clock::now() + timeout();
    for (;;) {
      nccl::Result state = nccl::kSuccess;
      const nccl::Result asked = nccl_.async_error(communicator_, &state);
      if (asked != nccl::kSuccess) fail(asked, what);
      if (state == nccl::kSuccess) return;
      if (state != nccl::kInProgress) fail(state, what);
      if (Clock::now() > deadline)
        fail(fmt::format("{} did not end within {} s: a rank did not take part", what,
                         options_.timeout_seconds));
      std::this_thread::yield();
    }
  }

  const nccl::Api& nccl_;
  NcclOptions options_;
  Resources own_;
  std::size_t begun_ = 0, finished_ = 0;
  nccl::Communicator communicator_ = nullptr;
  bool owned_ = false;
  std::string failure_;
};

}  // namespace

NcclId make_nccl_id(const std::string& library) {
  NcclId id{};
  const nccl::Api& api = nccl::api(library);
  const nccl::Result result = api.get_unique_id(&id);
  if (result != nccl::kSuccess)
    throw Error(ErrorCode::device, std::string("ncclGetUniqueId: ") + api.error_string(result));
  return id;
}

std::unique_ptr<Transport> make_nccl_transport(const NcclOptions& options) {
  return std::make_unique<NcclTransport>(options);
}

}  // namespace kiln
