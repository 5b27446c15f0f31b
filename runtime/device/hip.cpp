// The hip device: AMD GPUs through the HIP runtime. Code objects are loaded as they are; kernels take their
// parameters by address, as on CUDA. Written against the documented interface and tested against a stand-in
// for the library (tests/fake_hip); no AMD hardware has run it.
#include <fmt/format.h>

#include <mutex>
#include <vector>

#include "runtime/device/device.hpp"
#include "runtime/device/hip_api.hpp"

namespace kiln {
namespace {

using hip::check;

/// Makes a device this thread's current one for a scope; the caller's own comes back after it.
class Current {
 public:
  Current(const hip::Api& api, int device) : api_(api) {
    hip::check_process();
    check(api_.get_device(&before_), "hipGetDevice");
    if (before_ != device) check(api_.set_device(device), "hipSetDevice");
    changed_ = before_ != device;
  }
  ~Current() {
    if (changed_) api_.set_device(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const hip::Api& api_;
  int before_ = 0;
  bool changed_ = false;
};

hip::Stream stream_of(std::uint64_t stream) {
  return reinterpret_cast<hip::Stream>(stream);
}
void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

DeviceInfo describe_device(const hip::Api& api, int ordinal) {
  DeviceInfo info;
  info.selector = fmt::format("hip:{}", ordinal);
  char name[256] = {};
  check(api.device_name(name, sizeof name - 1, ordinal), "hipDeviceGetName");
  info.name = name;
  info.target = hip::architecture_of(api, ordinal);
  check(api.device_attribute(&info.num_sms, hip::kMultiprocessorCount, ordinal), "hipDeviceGetAttribute");
  std::size_t memory = 0;
  check(api.device_memory(&memory, ordinal), "hipDeviceTotalMem");
  info.memory_bytes = memory;
  return info;
}

class HipDevice;
class HipFunction final : public DeviceFunction {
 public:
  HipFunction(HipDevice& device, hip::Module module) : device_(device), module_(module) {}
  ~HipFunction() override;
  hip::Function function = nullptr;

 private:
  HipDevice& device_;
  hip::Module module_;
};

class HipDevice final : public Device {
 public:
  explicit HipDevice(int ordinal) : api_(hip::init_runtime()), ordinal_(ordinal) {
    int count = 0;
    if (api_.device_count(&count) != hip::kSuccess) count = 0;  // no device is an error to this call
    if (ordinal < 0 || ordinal >= count) {
      throw Error(ErrorCode::environment,
                  fmt::format("there is no device hip:{}; the driver shows {}", ordinal, count));
    }
    info_ = describe_device(api_, ordinal);
  }
  ~HipDevice() override { unload_retired(); }
  HipDevice(const HipDevice&) = delete;
  HipDevice& operator=(const HipDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }

  std::string compile_target(const std::string& target) const override {
    if (target != info_.target) {
      throw Error(
          ErrorCode::environment,
          fmt::format("{} ({}, {}) cannot run a kernel for {}; choose a config for this device, or --device "
                      "emulated",
                      info_.selector, info_.name, info_.target, target));
    }
    return target;
  }
  bool runs_images(std::string_view) const override { return true; }

  std::uint64_t allocate(std::size_t bytes, const std::string& name) override {
    const Current current(api_, ordinal_);
    void* address = nullptr;
    check(api_.allocate(&address, std::max<std::size_t>(bytes, 1)),
          fmt::format("allocating {} bytes for {}", bytes, name.empty() ? "a buffer" : name).c_str());
    return reinterpret_cast<std::uint64_t>(address);
  }
  void release(std::uint64_t address) noexcept override {
    if (!hip::forked()) api_.free(pointer(address));
  }
  void write(std::uint64_t address, std::span<const std::byte> data) override {
    const Current current(api_, ordinal_);
    check(api_.copy(pointer(address), data.data(), data.size(), hip::kHostToDevice), "copying to the device");
  }
  void read(std::uint64_t address, std::span<std::byte> data) override {
    const Current current(api_, ordinal_);
    check(api_.copy(data.data(), pointer(address), data.size(), hip::kDeviceToHost),
          "copying from the device");
  }
  void fill(std::uint64_t address, std::byte value, std::size_t bytes) override {
    const Current current(api_, ordinal_);
    check(api_.fill(pointer(address), std::to_integer<int>(value), bytes), "filling device memory");
    check(api_.synchronize(), "filling device memory");
  }
  void synchronize() override {
    {
      const Current current(api_, ordinal_);
      check(api_.synchronize(), "waiting for the device");
    }
    unload_retired();
  }

  TensorMapBytes encode(const TensorMapRequest&) override {
    throw Error(ErrorCode::bad_input, "a kernel with tensor maps cannot run on an AMD device");
  }
  std::unique_ptr<DeviceFunction> load(const Binary& binary, const Manifest& manifest) override;
  std::shared_ptr<const EmulationReport> launch(DeviceFunction& function, const LaunchGeometry& geometry,
                                                const ParamView& params,
                                                const LaunchOptions& options) override;
  double time_us(std::uint64_t stream, const std::function<void()>& work) override;

  /// Unloading waits for the device, and must not happen while a stream is being captured: only synchronize()
  /// does it.
  void retire(hip::Module module) {
    std::lock_guard lock(mutex_);
    retired_.push_back(module);
  }

 private:
  void unload_retired() {
    std::vector<hip::Module> modules;
    {
      std::lock_guard lock(mutex_);
      modules.swap(retired_);
    }
    if (hip::forked()) return;
    for (hip::Module module : modules) api_.module_unload(module);
  }

  const hip::Api& api_;
  int ordinal_;
  DeviceInfo info_;
  std::mutex mutex_;
  std::vector<hip::Module> retired_;
};

HipFunction::~HipFunction() {
  device_.retire(module_);
}

std::unique_ptr<DeviceFunction> HipDevice::load(const Binary& binary, const Manifest& manifest) {
  compile_target(binary.target);  // throws for another target, saying why
  int limit = 0;
  check(api_.device_attribute(&limit, hip::kMaxSharedMemoryPerBlock, ordinal_), "hipDeviceGetAttribute");
  const int needed = manifest.smem_bytes + binary.static_smem_bytes;
  if (needed > limit) {
    throw Error(ErrorCode::environment,
                fmt::format("{} needs {} bytes of LDS, {} has {}", manifest.name, needed, info_.name, limit));
  }
  const Current current(api_, ordinal_);
  const std::string what = fmt::format("loading {} ({})", manifest.name, binary.target);
  hip::Module module = nullptr;
  check(api_.module_load(&module, binary.image.data()), what.c_str());
  auto loaded = std::make_unique<HipFunction>(*this, module);
  check(api_.module_function(&loaded->function, module, manifest.entry.c_str()), what.c_str());
  // Asking for an attribute completes a lazy load, so that the first launch may be inside a graph capture.
  int registers = 0;
  check(api_.function_attribute(&registers, hip::kNumRegs, loaded->function), what.c_str());
  return loaded;
}

std::shared_ptr<const EmulationReport> HipDevice::launch(DeviceFunction& function,
                                                         const LaunchGeometry& geometry,
                                                         const ParamView& params,
                                                         const LaunchOptions& options) {
  const Current current(api_, ordinal_);
  const auto& grid = geometry.grid;
  const auto& block = geometry.block;
  if (geometry.cluster != std::array<std::uint32_t, 3>{1, 1, 1})
    throw Error(ErrorCode::bad_input, "AMD devices have no clusters");
  void** addresses = const_cast<void**>(params.addresses.data());
  check(api_.launch(static_cast<HipFunction&>(function).function, grid[0], grid[1], grid[2], block[0],
                    block[1], block[2], geometry.smem_bytes, stream_of(options.stream), addresses, nullptr),
        "launch");
  return nullptr;
}

double HipDevice::time_us(std::uint64_t stream, const std::function<void()>& work) {
  struct Pair {
    const hip::Api& api;
    hip::Event start = nullptr, stop = nullptr;
    ~Pair() {
      if (start != nullptr) api.event_destroy(start);
      if (stop != nullptr) api.event_destroy(stop);
    }
  };
  const Current current(api_, ordinal_);
  Pair events{api_};
  check(api_.event_create(&events.start), "hipEventCreate");
  check(api_.event_create(&events.stop), "hipEventCreate");
  check(api_.event_record(events.start, stream_of(stream)), "hipEventRecord");
  work();
  check(api_.event_record(events.stop, stream_of(stream)), "hipEventRecord");
  check(api_.event_synchronize(events.stop), "waiting for the kernel");
  float milliseconds = 0;
  check(api_.event_elapsed(&milliseconds, events.start, events.stop), "hipEventElapsedTime");
  return static_cast<double>(milliseconds) * 1000;
}

}  // namespace

std::vector<DeviceInfo> list_hip_devices() {
  std::vector<DeviceInfo> devices;
  try {
    const hip::Api& api = hip::init_runtime();
    int count = 0;
    check(api.device_count(&count), "hipGetDeviceCount");
    for (int ordinal = 0; ordinal < count; ++ordinal) devices.push_back(describe_device(api, ordinal));
  } catch (const Error&) {
    // No driver, or one that does not start: probe_hip_driver() says which.
  }
  return devices;
}

std::shared_ptr<Device> open_hip_device(int ordinal) {
  return std::make_shared<HipDevice>(ordinal);
}

DoctorReport::Driver probe_hip_driver() {
  DoctorReport::Driver report;
  report.kind = "hip";
  const hip::Api& api = hip::api();
  report.problem = api.problem;
  if (!api.usable()) return report;
  report.found = true;
  report.path = api.path;
  try {
    hip::init_runtime();
    int version = 0;
    if (api.runtime_version(&version) == hip::kSuccess)
      report.version = fmt::format("{}.{}", version / 10000000, version / 100000 % 100);
  } catch (const Error& error) {
    report.problem = error.what();
  }
  return report;
}

}  // namespace kiln
