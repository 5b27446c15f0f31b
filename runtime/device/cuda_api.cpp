#include "runtime/device/cuda_api.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <deque>
#include <mutex>

#include <kiln/error.hpp>

namespace kiln::cuda {
namespace {

/// Finds entry points as the driver advises (by name and CUDA version), else by the exported symbol.
class Resolver {
 public:
  explicit Resolver(const DynamicLibrary& library, int version) : library_(library), version_(version) {
    library.resolve(get_proc_address_, "cuGetProcAddress_v2");
  }
  /// `name` without suffix; `symbol` is what the library exports (with _v2 where the first version is
  /// obsolete).
  template <class F>
  bool operator()(F*& function, const char* name, const char* symbol) const {
    void* found = nullptr;
    if (get_proc_address_ != nullptr) {
      int status = 0;
      if (get_proc_address_(name, &found, std::min(version_, 12000), 0, &status) != kSuccess) found = nullptr;
    }
    if (found == nullptr) found = library_.find(symbol);
    function = reinterpret_cast<F*>(found);
    return found != nullptr;
  }
  template <class F>
  bool operator()(F*& function, const char* name) const {
    return (*this)(function, name, name);
  }

 private:
  const DynamicLibrary& library_;
  int version_;
  Result (*get_proc_address_)(const char*, void**, int, std::uint64_t, int*) = nullptr;
};

bool find_device(const Resolver& find, Api& api) {
  return find(api.init, "cuInit") && find(api.error_name, "cuGetErrorName") &&
         find(api.error_string, "cuGetErrorString") && find(api.device_count, "cuDeviceGetCount") &&
         find(api.device_get, "cuDeviceGet") && find(api.device_name, "cuDeviceGetName") &&
         find(api.device_attribute, "cuDeviceGetAttribute") &&
         find(api.device_memory, "cuDeviceTotalMem", "cuDeviceTotalMem_v2");
}

bool find_context(const Resolver& find, Api& api) {
  return find(api.primary_retain, "cuDevicePrimaryCtxRetain") &&
         find(api.primary_release, "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2") &&
         find(api.push, "cuCtxPushCurrent", "cuCtxPushCurrent_v2") &&
         find(api.pop, "cuCtxPopCurrent", "cuCtxPopCurrent_v2") &&
         find(api.context_synchronize, "cuCtxSynchronize");
}

bool find_memory(const Resolver& find, Api& api) {
  return find(api.allocate, "cuMemAlloc", "cuMemAlloc_v2") && find(api.free, "cuMemFree", "cuMemFree_v2") &&
         find(api.to_device, "cuMemcpyHtoD", "cuMemcpyHtoD_v2") &&
         find(api.to_host, "cuMemcpyDtoH", "cuMemcpyDtoH_v2") &&
         find(api.fill8, "cuMemsetD8", "cuMemsetD8_v2");
}

bool find_events(const Resolver& find, Api& api) {
  return find(api.event_create, "cuEventCreate") && find(api.event_record, "cuEventRecord") &&
         find(api.event_synchronize, "cuEventSynchronize") && find(api.event_elapsed, "cuEventElapsedTime") &&
         find(api.event_destroy, "cuEventDestroy", "cuEventDestroy_v2");
}

bool find_modules(const Resolver& find, Api& api) {
  return find(api.module_load, "cuModuleLoadData") && find(api.module_function, "cuModuleGetFunction") &&
         find(api.module_unload, "cuModuleUnload") && find(api.function_get, "cuFuncGetAttribute") &&
         find(api.function_set, "cuFuncSetAttribute") && find(api.launch, "cuLaunchKernel");
}

/// What old drivers lack; kiln does without.
void find_optional(const Resolver& find, Api& api) {
  find(api.get_current, "cuCtxGetCurrent");
  find(api.library_load, "cuLibraryLoadData");
  find(api.library_kernel, "cuLibraryGetKernel");
  find(api.library_unload, "cuLibraryUnload");
  find(api.kernel_function, "cuKernelGetFunction");
  find(api.launch_ex, "cuLaunchKernelEx");
  find(api.encode_tiled, "cuTensorMapEncodeTiled");
}

Api open_driver() {
  Api api{};
  api.library = DynamicLibrary::open("libcuda.so.1", &api.problem);
  if (!api.library) {
    api.problem = "no NVIDIA driver (" + api.problem + ")";
    return api;
  }
  api.problem.clear();
  api.path = api.library.path();
  if (!api.library.resolve(api.driver_version, "cuDriverGetVersion") ||
      api.driver_version(&api.version) != kSuccess) {
    api.problem = api.path + " is not a working CUDA driver";
    return api;
  }
  const Resolver find(api.library, api.version);
  const bool complete = find_device(find, api) && find_context(find, api) && find_memory(find, api) &&
                        find_events(find, api) && find_modules(find, api);
  if (!complete)
    api.problem = fmt::format("{} (CUDA {}) lacks functions kiln needs", api.path, api.version / 1000);
  find_optional(find, api);
  return api;
}

std::atomic<bool> in_forked_child{false};

std::string describe(const Api& api, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  api.error_name(result, &name);
  api.error_string(result, &text);
  return fmt::format("{} ({})", name == nullptr ? "CUDA error " + std::to_string(result) : name,
                     text == nullptr ? "unknown" : text);
}

}  // namespace

const Api& api() {
  // The driver is a process-wide thing and is never unloaded; nothing here is state of a Runtime. One that is
  // there and does not work is looked at again: those who hold the answer keep it.
  static std::mutex mutex;
  static std::deque<Api> answers;
  const std::lock_guard lock(mutex);
  if (answers.empty() || (answers.back().library && !answers.back().usable() && answers.size() < 100))
    answers.push_back(open_driver());
  return answers.back();
}

void check_process() {
  if (in_forked_child) {
    throw Error(ErrorCode::device,
                "this process was forked after the CUDA driver had been started, which does not work in the "
                "child; fork "
                "before the first use of a device");
  }
}
bool forked() {
  return in_forked_child;
}

const Api& init_driver() {
  const Api& driver = api();
  const std::string help = "; install a driver, or use --device emulated";
  if (!driver.usable()) throw Error(ErrorCode::environment, driver.problem + help);
  // Only success is for good: a device may come back.
  static std::atomic<bool> started{false};
  if (started) return driver;
  const Result result = driver.init(0);
  if (result != kSuccess) {
    throw Error(ErrorCode::environment,
                "the NVIDIA driver does not start: " + describe(driver, result) + help);
  }
  if (!started.exchange(true)) pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
  return driver;
}

void check(Result result, const char* what) {
  if (result != kSuccess) throw Error(ErrorCode::device, std::string(what) + ": " + describe(api(), result));
}

}  // namespace kiln::cuda
