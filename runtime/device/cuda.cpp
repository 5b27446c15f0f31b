// The cuda device: the driver's primary context, cuLibrary loading (cuModule before CUDA 12), launches with
// clusters.
#include <fmt/format.h>

#include <array>
#include <mutex>
#include <vector>

#include "runtime/device/cuda_api.hpp"
#include "runtime/device/device.hpp"

namespace kiln {
namespace {

using cuda::check;

/// Makes a context current for a scope; the caller's own comes back after it. Mostly it is current already.
class Current {
 public:
  Current(const cuda::Api& api, cuda::Context context) : api_(api) {
    cuda::check_process();
    cuda::Context own = nullptr;
    pushed_ = api.get_current == nullptr || api.get_current(&own) != cuda::kSuccess || own != context;
    if (pushed_) check(api.push(context), "cuCtxPushCurrent");
  }
  ~Current() {
    cuda::Context popped = nullptr;
    if (pushed_) api_.pop(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const cuda::Api& api_;
  bool pushed_ = true;
};

cuda::Stream stream_of(std::uint64_t stream) {
  return reinterpret_cast<cuda::Stream>(stream);
}

int attribute(const cuda::Api& api, cuda::DeviceId device, cuda::DeviceAttribute which) {
  int value = 0;
  check(api.device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

/// Plain number of a target and whether it is bound to one architecture: "sm_90a" is (90, true).
struct Architecture {
  int number = 0;
  bool exact = false;
};
Architecture architecture_of(const std::string& target) {
  Architecture result;
  for (char c : target) {
    if (c >= '0' && c <= '9') result.number = result.number * 10 + (c - '0');
  }
  result.exact = !target.empty() && target.back() == 'a';
  return result;
}

DeviceInfo describe_device(const cuda::Api& api, int ordinal, cuda::DeviceId id) {
  DeviceInfo info;
  info.selector = fmt::format("cuda:{}", ordinal);
  char name[256] = {};
  check(api.device_name(name, sizeof name, id), "cuDeviceGetName");
  info.name = name;
  const int major = attribute(api, id, cuda::kComputeMajor), minor = attribute(api, id, cuda::kComputeMinor);
  info.target = fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
  info.num_sms = attribute(api, id, cuda::kMultiprocessorCount);
  std::size_t memory = 0;
  check(api.device_memory(&memory, id), "cuDeviceTotalMem");
  info.memory_bytes = memory;
  return info;
}

/// A loaded library or module. It is returned to the device, which unloads when nothing can be capturing.
struct Retired {
  cuda::Library library = nullptr;
  cuda::Module module = nullptr;
};

class CudaDevice;
class CudaFunction final : public DeviceFunction {
 public:
  CudaFunction(CudaDevice& device, Retired code) : device_(device), code_(code) {}
  ~CudaFunction() override;
  cuda::Function function = nullptr;

 private:
  CudaDevice& device_;
  Retired code_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) : api_(cuda::init_driver()) {
    int count = 0;
    check(api_.device_count(&count), "cuDeviceGetCount");
    if (ordinal < 0 || ordinal >= count) {
      throw Error(ErrorCode::environment,
                  fmt::format("there is no device cuda:{}; the driver shows {}", ordinal, count));
    }
    check(api_.device_get(&id_, ordinal), "cuDeviceGet");
    info_ = describe_device(api_, ordinal, id_);
    check(api_.primary_retain(&context_, id_), "cuDevicePrimaryCtxRetain");
  }
  ~CudaDevice() override {
    unload_retired();
    if (!cuda::forked()) api_.primary_release(id_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }

  std::string compile_target(const std::string& target) const override {
    const Architecture wanted = architecture_of(target), own = architecture_of(info_.target);
    if (!target.starts_with("sm_") || (wanted.exact ? target != info_.target : wanted.number > own.number)) {
      throw Error(ErrorCode::environment,
                  fmt::format("{} ({}, {}) cannot run a kernel for {}; choose a config for this "
                              "device, or --device emulated",
                              info_.selector, info_.name, info_.target, target));
    }
    return wanted.exact ? target : fmt::format("sm_{}", own.number);
  }

  bool runs_images(std::string_view) const override { return true; }

  std::uint64_t allocate(std::size_t bytes, const std::string& name) override {
    const Current current(api_, context_);
    cuda::Address address = 0;
    check(api_.allocate(&address, std::max<std::size_t>(bytes, 1)),
          fmt::format("allocating {} bytes for {}", bytes, name.empty() ? "a buffer" : name).c_str());
    return address;
  }
  void release(std::uint64_t address) noexcept override {
    if (cuda::forked()) return;
    cuda::Context popped = nullptr;
    const bool current =
        api_.push(context_) == cuda::kSuccess;  // else the process is going down, or about to
    api_.free(address);
    if (current) api_.pop(&popped);
  }
  void write(std::uint64_t address, std::span<const std::byte> data) override {
    const Current current(api_, context_);
    check(api_.to_device(address, data.data(), data.size()), "copying to the device");
  }
  void read(std::uint64_t address, std::span<std::byte> data) override {
    const Current current(api_, context_);
    check(api_.to_host(data.data(), address, data.size()), "copying from the device");
  }
  void fill(std::uint64_t address, std::byte value, std::size_t bytes) override {
    const Current current(api_, context_);
    check(api_.fill8(address, static_cast<unsigned char>(value), bytes), "filling device memory");
    check(api_.context_synchronize(), "filling device memory");
  }
  void synchronize() override {
    {
      const Current current(api_, context_);
      check(api_.context_synchronize(), "waiting for the device");
    }
    unload_retired();
  }

  TensorMapBytes encode(const TensorMapRequest& request) override;
  std::unique_ptr<DeviceFunction> load(const Binary& binary, const Manifest& manifest) override;
  std::shared_ptr<const EmulationReport> launch(DeviceFunction& function, const LaunchGeometry& geometry,
                                                const ParamView& params,
                                                const LaunchOptions& options) override;
  double time_us(std::uint64_t stream, const std::function<void()>& work) override;

  void retire(Retired code) {
    std::lock_guard lock(mutex_);
    retired_.push_back(code);
  }

 private:
  void unload_retired() {
    std::vector<Retired> codes;
    {
      std::lock_guard lock(mutex_);
      codes.swap(retired_);
    }
    if (codes.empty() || cuda::forked()) return;
    cuda::Context popped = nullptr;
    const bool current = api_.push(context_) == cuda::kSuccess;
    for (const Retired& code : codes) {
      if (code.library != nullptr) api_.library_unload(code.library);
      if (code.module != nullptr) api_.module_unload(code.module);
    }
    if (current) api_.pop(&popped);
  }

  const cuda::Api& api_;
  DeviceInfo info_;
  cuda::DeviceId id_ = 0;
  cuda::Context context_ = nullptr;
  std::mutex mutex_;
  std::vector<Retired> retired_;
};

CudaFunction::~CudaFunction() {
  device_.retire(code_);
}

TensorMapBytes CudaDevice::encode(const TensorMapRequest& request) {
  if (api_.encode_tiled == nullptr) throw Error(ErrorCode::environment, "tensor maps need a CUDA 12 driver");
  const auto type = [&] {
    switch (request.dtype) {
      case DType::bf16:
        return cuda::TensorMapType::bf16;
      case DType::fp16:
        return cuda::TensorMapType::f16;
      case DType::f32:
        return cuda::TensorMapType::f32;
      case DType::i32:
        return cuda::TensorMapType::i32;
      default:
        return cuda::TensorMapType::u8;
    }
  }();
  const auto level = [](int bytes) { return bytes == 0 ? 0 : bytes <= 32 ? 1 : bytes == 64 ? 2 : 3; };
  const int promotion = request.l2_promotion_bytes == 0 ? 0 : request.l2_promotion_bytes / 128 + 1;
  const std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1, 1};
  const Current current(api_, context_);  // the driver refuses to encode without a context
  cuda::TensorMap map{};
  const cuda::Result result = api_.encode_tiled(
      &map, type, static_cast<unsigned>(request.rank), reinterpret_cast<void*>(request.address),
      request.extents.data(), request.strides.data(), request.box.data(), element_strides.data(), 0,
      level(request.swizzle_bytes), promotion, 0);
  check(result, "cuTensorMapEncodeTiled");
  TensorMapBytes bytes;
  std::copy(std::begin(map.bytes), std::end(map.bytes), bytes.begin());
  return bytes;
}

std::unique_ptr<DeviceFunction> CudaDevice::load(const Binary& binary, const Manifest& manifest) {
  const Architecture wanted = architecture_of(binary.target), own = architecture_of(info_.target);
  // A cubin runs on its own major version only; older plain targets come as PTX and are compiled by the
  // driver.
  const bool as_ptx = !wanted.exact && wanted.number / 10 != own.number / 10;
  const std::string& code = as_ptx ? binary.ptx : binary.image;
  if (wanted.exact && binary.target != info_.target) compile_target(binary.target);  // throws, saying why

  const Current current(api_, context_);
  const std::string what = fmt::format("loading {} ({})", manifest.name, binary.target);
  Retired owner;
  cuda::Function function = nullptr;
  if (api_.library_load != nullptr && api_.library_kernel != nullptr && api_.kernel_function != nullptr) {
    check(api_.library_load(&owner.library, code.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          what.c_str());
  } else {
    check(api_.module_load(&owner.module, code.c_str()), what.c_str());
  }
  auto loaded = std::make_unique<CudaFunction>(*this, owner);
  if (owner.library != nullptr) {
    cuda::LibraryKernel kernel = nullptr;
    check(api_.library_kernel(&kernel, owner.library, manifest.entry.c_str()), what.c_str());
    check(api_.kernel_function(&function, kernel), what.c_str());
  } else {
    check(api_.module_function(&function, owner.module, manifest.entry.c_str()), what.c_str());
  }
  // Asking for an attribute completes a lazy load, so that the first launch may be inside a graph capture.
  int registers = 0;
  check(api_.function_get(&registers, cuda::kNumRegs, function), what.c_str());
  const int limit = attribute(api_, id_, cuda::kMaxSmemPerBlockOptin);
  if (manifest.smem_bytes + binary.static_smem_bytes > limit) {
    throw Error(ErrorCode::environment,
                fmt::format("{} needs {} bytes of shared memory, {} has {}", manifest.name,
                            manifest.smem_bytes + binary.static_smem_bytes, info_.name, limit));
  }
  check(api_.function_set(function, cuda::kMaxDynamicSmem, manifest.smem_bytes), what.c_str());
  // Launches that overlap share multiprocessors: a carve-out for one of them would keep the next one's blocks
  // out until the multiprocessor is empty.
  if (manifest.target == "sm_90a") check(api_.function_set(function, cuda::kSmemCarveout, 100), what.c_str());
  if (manifest.cluster[0] * manifest.cluster[1] * manifest.cluster[2] > 8) {
    check(api_.function_set(function, cuda::kNonPortableCluster, 1), what.c_str());
  }
  loaded->function = function;
  return loaded;
}

std::shared_ptr<const EmulationReport> CudaDevice::launch(DeviceFunction& function,
                                                          const LaunchGeometry& geometry,
                                                          const ParamView& params,
                                                          const LaunchOptions& options) {
  const Current current(api_, context_);
  const cuda::Function handle = static_cast<CudaFunction&>(function).function;
  void** addresses = const_cast<void**>(params.addresses.data());
  const auto &grid = geometry.grid, &block = geometry.block, &cluster = geometry.cluster;
  const std::uint32_t smem_bytes = geometry.smem_bytes;
  const bool clustered = cluster[0] * cluster[1] * cluster[2] > 1;
  if (api_.launch_ex == nullptr) {
    if (clustered) throw Error(ErrorCode::environment, "clusters need a CUDA 11.8 driver");
    check(api_.launch(handle, grid[0], grid[1], grid[2], block[0], block[1], block[2], smem_bytes,
                      stream_of(options.stream), addresses, nullptr),
          "launch");
    return nullptr;
  }
  std::array<cuda::LaunchAttribute, 2> attributes;
  unsigned count = 0;
  if (clustered) {
    attributes[count].id = cuda::kClusterDimension;
    attributes[count++].value.cluster = {cluster[0], cluster[1], cluster[2]};
  }
  if (geometry.programmatic && api_.version >= cuda::kProgrammaticVersion) {
    attributes[count].id = cuda::kProgrammaticSerialization;
    attributes[count++].value.programmatic = 1;
  }
  const cuda::LaunchConfig config{grid[0],           grid[1],  grid[2],    block[0],
                                  block[1],          block[2], smem_bytes, stream_of(options.stream),
                                  attributes.data(), count};
  check(api_.launch_ex(&config, handle, addresses, nullptr), "launch");
  return nullptr;
}

double CudaDevice::time_us(std::uint64_t stream, const std::function<void()>& work) {
  struct Pair {
    const cuda::Api& api;
    cuda::Event start = nullptr, stop = nullptr;
    ~Pair() {
      if (start != nullptr) api.event_destroy(start);
      if (stop != nullptr) api.event_destroy(stop);
    }
  };
  const Current current(api_, context_);
  Pair events{api_};
  check(api_.event_create(&events.start, 0), "cuEventCreate");
  check(api_.event_create(&events.stop, 0), "cuEventCreate");
  check(api_.event_record(events.start, stream_of(stream)), "cuEventRecord");
  work();
  check(api_.event_record(events.stop, stream_of(stream)), "cuEventRecord");
  check(api_.event_synchronize(events.stop), "waiting for the kernel");
  float milliseconds = 0;
  check(api_.event_elapsed(&milliseconds, events.start, events.stop), "cuEventElapsedTime");
  return static_cast<double>(milliseconds) * 1000;
}

}  // namespace

std::vector<DeviceInfo> list_cuda_devices() {
  std::vector<DeviceInfo> devices;
  try {
    const cuda::Api& api = cuda::init_driver();
    int count = 0;
    check(api.device_count(&count), "cuDeviceGetCount");
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      cuda::DeviceId id = 0;
      check(api.device_get(&id, ordinal), "cuDeviceGet");
      devices.push_back(describe_device(api, ordinal, id));
    }
  } catch (const Error&) {
    // No driver, or one that does not start: probe_cuda_driver() says which.
  }
  return devices;
}

std::shared_ptr<Device> open_cuda_device(int ordinal) {
  return std::make_shared<CudaDevice>(ordinal);
}

DoctorReport::Driver probe_cuda_driver() {
  DoctorReport::Driver report;
  report.kind = "cuda";
  const cuda::Api& api = cuda::api();
  report.problem = api.problem;
  if (!api.usable()) return report;
  report.found = true;
  report.path = api.path;
  report.version = fmt::format("{}.{}", api.version / 1000, api.version % 1000 / 10);
  try {
    cuda::init_driver();
  } catch (const Error& error) {
    report.problem = error.what();
  }
  return report;
}

int cuda_driver_major() {
  return cuda::api().usable() ? cuda::api().version / 1000 : 0;
}

}  // namespace kiln
