// How ranks of a group exchange memory: NCCL between devices, or a loopback for ranks that are threads. Everything that
// context parallel attention sends is a set of messages between pairs of ranks (context_parallel.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <kiln/runtime.hpp>

namespace kiln {

/// Bytes of device memory to or from a rank, which may be the own one.
struct Message {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  int peer = 0;
};

/// One rank's side of a group. Used by one thread at a time. All ranks make the same calls in the same order; the i-th
/// message that a rank sends to a peer is the i-th that the peer receives from it, and has as many bytes. Messages of
/// no bytes are left out on both sides.
///
/// Errors: every call throws Error (device) once an exchange failed or did not end within the timeout; the group is of
/// no use then, on any rank, and the other ranks get an error within their timeouts.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins an exchange, after the work on `stream` so far; it runs beside later work.
  virtual void start(std::span<const Message> sends, std::span<const Message> receives,
                     std::uint64_t stream) = 0;
  /// Later work on `stream` comes after the oldest exchange that has begun and was not waited for.
  virtual void finish(std::uint64_t stream) = 0;
  /// `size()` blocks of `bytes` at `blocks`, of which the own rank's is there: the others come, before later work on
  /// `stream`. As an exchange, but for what a transport has of its own for it.
  virtual void collect(std::uint64_t blocks, std::size_t bytes, std::uint64_t stream);
  /// A stream for work beside later work on `stream`, after what is there so far. Its blocks go before those of streams
  /// of ordinary priority. At most one at a time, until join(). By default `stream` itself: one after the other.
  virtual std::uint64_t fork(std::uint64_t stream) { return stream; }
  /// Later work on `stream` comes after what is on the stream that fork() gave.
  virtual void join(std::uint64_t stream) { static_cast<void>(stream); }
  /// Waits on the host until the work on `stream` is complete, at most the timeout.
  virtual void synchronize(std::uint64_t stream) = 0;
  /// Ends the group for all ranks: exchanges under way stop.
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// Names a group: made on one rank, given to the others by whatever means they have.
using NcclId = std::array<char, 128>;
/// Throws Error (environment) without libnccl.so.2.
NcclId make_nccl_id(const std::string& library = "");

struct NcclOptions {
  int rank = 0, size = 1;
  int device = 0;  ///< ordinal of the CUDA device
  NcclId id{};
  /// A ncclComm_t of the caller, which stays the caller's: after an error the caller aborts it, too. Null: one is
  /// made from `id`.
  void* communicator = nullptr;
  double timeout_seconds = 30;
  /// Most blocks that NCCL's kernels take from the multiprocessors; 0: NCCL's choice.
  int max_blocks = 0;
  std::string library;  ///< path of libnccl; empty: libnccl.so.2, or the one that the process has loaded
};
/// Collective over the group where a communicator is made. Throws Error: environment (no libnccl, no driver), device
/// (NCCL's error, or some rank did not come within the timeout).
std::unique_ptr<Transport> make_nccl_transport(const NcclOptions& options);

/// A group of threads, each with a runtime of its own or all with one, on devices whose memory the host copies: for
/// the emulated device.
class LoopbackGroup {
 public:
  explicit LoopbackGroup(int size, double timeout_seconds = 30);
  ~LoopbackGroup();
  /// The side of `rank`; `runtime` outlives it.
  std::unique_ptr<Transport> join(int rank, Runtime& runtime);

  struct Mailboxes;  ///< its own business

 private:
  std::shared_ptr<Mailboxes> mailboxes_;
};

}  // namespace kiln
