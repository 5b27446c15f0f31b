#include "runtime/device/hip_api.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>

#include <string_view>
#include <vector>

#include <kiln/error.hpp>

#include "base/ascii.hpp"
#include "runtime/support/environment.hpp"

namespace kiln::hip {
namespace {

std::vector<std::string> candidates() {
  if (std::string chosen = environment("KILN_HIP"); !chosen.empty()) return {chosen};
  std::vector<std::string> names;
  for (const char* soname : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) {
    names.emplace_back(soname);
    if (const std::string rocm = environment("ROCM_PATH"); !rocm.empty())
      names.push_back(rocm + "/lib/" + soname);
    names.push_back(std::string("/opt/rocm/lib/") + soname);
  }
  return names;
}

bool find_device(const DynamicLibrary& lib, Api& api) {
  return lib.resolve(api.init, "hipInit") && lib.resolve(api.runtime_version, "hipRuntimeGetVersion") &&
         lib.resolve(api.error_name, "hipGetErrorName") &&
         lib.resolve(api.error_string, "hipGetErrorString") &&
         lib.resolve(api.device_count, "hipGetDeviceCount") && lib.resolve(api.get_device, "hipGetDevice") &&
         lib.resolve(api.set_device, "hipSetDevice") && lib.resolve(api.device_name, "hipDeviceGetName") &&
         lib.resolve(api.device_attribute, "hipDeviceGetAttribute") &&
         lib.resolve(api.device_memory, "hipDeviceTotalMem") &&
         // ROCm 6 has a longer structure under another name, and keeps the old name for old programs.
         (lib.resolve(api.device_properties, "hipGetDevicePropertiesR0600") ||
          lib.resolve(api.device_properties, "hipGetDeviceProperties"));
}

bool find_memory(const DynamicLibrary& lib, Api& api) {
  return lib.resolve(api.synchronize, "hipDeviceSynchronize") && lib.resolve(api.allocate, "hipMalloc") &&
         lib.resolve(api.free, "hipFree") && lib.resolve(api.copy, "hipMemcpy") &&
         lib.resolve(api.fill, "hipMemset");
}

bool find_events(const DynamicLibrary& lib, Api& api) {
  return lib.resolve(api.event_create, "hipEventCreate") && lib.resolve(api.event_record, "hipEventRecord") &&
         lib.resolve(api.event_synchronize, "hipEventSynchronize") &&
         lib.resolve(api.event_elapsed, "hipEventElapsedTime") &&
         lib.resolve(api.event_destroy, "hipEventDestroy");
}

bool find_modules(const DynamicLibrary& lib, Api& api) {
  return lib.resolve(api.module_load, "hipModuleLoadData") &&
         lib.resolve(api.module_function, "hipModuleGetFunction") &&
         lib.resolve(api.module_unload, "hipModuleUnload") &&
         lib.resolve(api.function_attribute, "hipFuncGetAttribute") &&
         lib.resolve(api.launch, "hipModuleLaunchKernel");
}

Api open_library() {
  Api api{};
  std::string first_problem;
  for (const std::string& name : candidates()) {
    std::string problem;
    api.library = DynamicLibrary::open(name, &problem);
    if (api.library) break;
    if (first_problem.empty()) first_problem = problem;
  }
  if (!api.library) {
    api.problem = "no AMD driver (" + first_problem + ")";
    return api;
  }
  api.path = api.library.path();
  if (!find_device(api.library, api) || !find_memory(api.library, api) || !find_events(api.library, api) ||
      !find_modules(api.library, api))
    api.problem = api.path + " lacks functions kiln needs";
  return api;
}

std::atomic<bool> in_forked_child{false};

std::string describe(const Api& api, Result result) {
  const char* name = api.error_name(result);
  const char* text = api.error_string(result);
  const std::string known = name == nullptr ? "HIP error " + std::to_string(result) : name;
  // Old drivers explain an error by its name.
  return text == nullptr || known == text ? known : fmt::format("{} ({})", known, text);
}

}  // namespace

const Api& api() {
  // A process-wide thing that is never unloaded; nothing here is state of a Runtime.
  static const Api instance = open_library();
  return instance;
}

const Api& init_runtime() {
  const Api& runtime = api();
  const std::string help = "; install ROCm and its driver, or use --device emulated";
  if (!runtime.usable()) throw Error(ErrorCode::environment, runtime.problem + help);
  // Only success is for good.
  static std::atomic<bool> started{false};
  if (started) return runtime;
  const Result result = runtime.init(0);
  if (result != kSuccess)
    throw Error(ErrorCode::environment, "the AMD driver does not start: " + describe(runtime, result) + help);
  if (!started.exchange(true)) pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
  return runtime;
}

void check_process() {
  if (in_forked_child) {
    throw Error(ErrorCode::device,
                "this process was forked after the AMD driver had been started, which does not work in the "
                "child; fork before "
                "the first use of a device");
  }
}
bool forked() {
  return in_forked_child;
}

void check(Result result, const char* what) {
  if (result != kSuccess) throw Error(ErrorCode::device, std::string(what) + ": " + describe(api(), result));
}

std::string architecture_of(const Api& api, int device) {
  // The only place that tells the architecture is a structure whose layout changes between releases. Its one
  // field that reads "gfx" and a number is looked for instead, in far more room than any release fills.
  std::vector<char> room(65536, '\0');
  if (api.device_properties(room.data(), device) != kSuccess) return {};
  const std::string_view text(room.data(), room.size());
  for (std::size_t at = text.find("gfx"); at != std::string_view::npos; at = text.find("gfx", at + 1)) {
    std::size_t end = at + 3;
    while (end < text.size() && is_ascii_alnum(text[end])) ++end;
    if (end >= at + 6) return std::string(text.substr(at, end - at));
  }
  return {};
}

}  // namespace kiln::hip
