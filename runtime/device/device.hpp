// What a device is to the launch code: memory, tensor maps, loaded functions, launches, time. One
// implementation per driver (cuda, hip) and one for the emulated device.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <kiln/runtime.hpp>

namespace kiln {

/// A tensor map to encode: dimensions fastest first, extents in elements, strides of dimensions 1.. in bytes.
struct TensorMapRequest {
  std::uint64_t address = 0;
  DType dtype = DType::bf16;
  int rank = 0;
  std::array<std::uint64_t, 5> extents{};
  std::array<std::uint64_t, 4> strides{};
  std::array<std::uint32_t, 5> box{};
  int swizzle_bytes = 0, l2_promotion_bytes = 0;
};
using TensorMapBytes = std::array<std::byte, 128>;

/// Lengths, page tables and positions that a launch may have.
inline constexpr std::size_t kLaunchTables = 6;
struct MemoryRange {
  std::uint64_t address = 0, bytes = 0;
};

struct LaunchGeometry {
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::uint32_t smem_bytes = 0;
  /// May begin before the launch before it on the stream has ended: the kernel waits for that itself.
  bool programmatic = false;
  /// For the emulated device, which holds the kernel to it: what it may touch before it waits.
  LaunchBefore before = LaunchBefore::any;
  std::array<MemoryRange, kLaunchTables> tables{};
};

/// Kernel parameters ready to launch: one address and size each, in order.
struct ParamView {
  std::span<void* const> addresses;
  std::span<const std::uint32_t> sizes;
};

/// A kernel on a device. Destroyed before its device.
class DeviceFunction {
 public:
  virtual ~DeviceFunction() = default;
};

/// All members are safe to call from several threads. Errors of the driver are Error (device).
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  /// The exact target to compile a source of `target` for: the device's own where the target allows it (plain
  /// sm_80 code on a newer device). Throws Error (environment) when the device cannot run the target at all.
  virtual std::string compile_target(const std::string& target) const = 0;

  /// Whether load() takes the Binary::image of a target; else it takes Binary::ptx.
  virtual bool runs_images(std::string_view target) const = 0;

  virtual std::uint64_t allocate(std::size_t bytes, const std::string& name) = 0;
  virtual void release(std::uint64_t address) noexcept = 0;
  virtual void write(std::uint64_t address, std::span<const std::byte> data) = 0;
  virtual void read(std::uint64_t address, std::span<std::byte> data) = 0;
  virtual void fill(std::uint64_t address, std::byte value, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  virtual TensorMapBytes encode(const TensorMapRequest& request) = 0;
  /// Makes `binary` launchable, down to what a driver would otherwise do lazily at the first launch.
  virtual std::unique_ptr<DeviceFunction> load(const Binary& binary, const Manifest& manifest) = 0;
  virtual std::shared_ptr<const EmulationReport> launch(DeviceFunction& function,
                                                        const LaunchGeometry& geometry,
                                                        const ParamView& params,
                                                        const LaunchOptions& options) = 0;
  /// Runs `work`, which launches on `stream`, and returns its time in microseconds when it is complete.
  virtual double time_us(std::uint64_t stream, const std::function<void()>& work) = 0;
};

/// Devices of the CUDA driver; empty when there is none.
std::vector<DeviceInfo> list_cuda_devices();
/// Throws Error (environment) when there is no driver or no such device.
std::shared_ptr<Device> open_cuda_device(int ordinal);
/// What doctor says of the CUDA driver.
DoctorReport::Driver probe_cuda_driver();
/// Newest CUDA major version the driver takes; 0 without one. Needs no device.
int cuda_driver_major();

/// The same for the HIP runtime.
std::vector<DeviceInfo> list_hip_devices();
std::shared_ptr<Device> open_hip_device(int ordinal);
DoctorReport::Driver probe_hip_driver();

/// Throws Error (environment) when its library is not there.
std::shared_ptr<Device> open_emulated_device(const EmulatorOptions& options);
/// What doctor says of that library.
DoctorReport::Driver probe_emulator();

}  // namespace kiln
