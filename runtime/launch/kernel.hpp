// A kernel on a device, and the scratch memory its launches need.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "runtime/device/device.hpp"
#include "runtime/launch/launch_key.hpp"
#include "runtime/launch/pack.hpp"

namespace kiln {

/// A kernel on a device that remembers launches by their shapes. Checks, parameters and grid of a launch are
/// worked out once for a key; launches with the same key fill in addresses.
class PreparingKernel : public Kernel {
 public:
  using Kernel::launch;
  /// Kernel::launch of a problem of which `launch` has tensors and numbers of AttentionArgs; `args` gives
  /// them where the launch is a new one.
  virtual std::shared_ptr<const EmulationReport> launch(FlatLaunch& launch,
                                                        const std::function<AttentionArgs()>& args,
                                                        const LaunchOptions& options) = 0;
  virtual Device& device() const = 0;
  /// Launches that were worked out so far, for tests.
  virtual std::uint64_t prepared() const = 0;
};

/// Loads `binary` on `device`. Throws Error: bad_input (a manifest the runtime does not understand),
/// environment, device.
std::shared_ptr<PreparingKernel> load_kernel(std::shared_ptr<Device> device,
                                             std::shared_ptr<const Binary> binary, const Manifest& manifest);

/// One zeroed i32 per stream: launches of a stream are ordered, those of two streams must not share a
/// counter.
class TileCounters {
 public:
  explicit TileCounters(Device& device) : device_(device) {}
  ~TileCounters();
  TileCounters(const TileCounters&) = delete;
  TileCounters& operator=(const TileCounters&) = delete;

  /// Address of the stream's counter. Takes memory for the first stream and every 32nd after it only.
  std::uint64_t of(std::uint64_t stream);
  /// Clears a counter that a stopped launch left behind.
  void clear(std::uint64_t stream);

 private:
  static constexpr std::size_t kSlots = 32, kSlotBytes = 128;
  Device& device_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> by_stream_;
  std::vector<std::uint64_t> blocks_;
};

/// What split-KV launches of one stream share: the workspace for partial results, and a zeroed counter per
/// work item. Sized for the whole device at the first launch; counters (and the workspace of kernels that
/// split every item) grow with the largest problem seen, so a problem captured into a graph must have been
/// launched before.
class SplitScratch {
 public:
  SplitScratch(Device& device, const Manifest& manifest) : device_(device), manifest_(manifest) {}
  ~SplitScratch();
  SplitScratch(const SplitScratch&) = delete;
  SplitScratch& operator=(const SplitScratch&) = delete;

  /// Memory for the next new stream: the one that a graph is captured on is often new, and taking memory then
  /// would end the capture.
  void reserve(int num_sms);
  /// Fills in what the manifest's parameters ask for.
  void of(std::uint64_t stream, std::int64_t items, int num_sms, ScratchAddresses& out);
  /// Clears counters that a stopped launch left behind.
  void clear(std::uint64_t stream);

 private:
  struct Slot {
    std::uint64_t workspace = 0, counters = 0;
    std::int64_t workspace_bytes = 0, items = 0;
  };
  std::uint64_t take(std::size_t bytes, const char* name);
  void grow(Slot& slot, std::int64_t items, int num_sms);

  Device& device_;
  const Manifest& manifest_;
  std::mutex mutex_;
  std::map<std::uint64_t, Slot> by_stream_;
  Slot spare_;
  std::vector<std::uint64_t> memory_;  ///< also what was outgrown: launches under way may still use it
};

}  // namespace kiln
