// A kernel on a device, and the scratch memory its launches need.
#pragma once

#include <map>
#include <mutex>

#include "runtime/device/device.hpp"
#include "runtime/launch/pack.hpp"

namespace kiln {

/// Loads `binary` on `device`. Throws Error: bad_input (a manifest the runtime does not understand),
/// environment, device.
std::shared_ptr<Kernel> load_kernel(std::shared_ptr<Device> device, std::shared_ptr<const Binary> binary,
                                    const Manifest& manifest);

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

}  // namespace kiln
