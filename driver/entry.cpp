// How programs find the entry points: by name and version, and the errors' names.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "driver/api.hpp"
#include "driver/state.hpp"

namespace kiln::driver {
namespace {

struct Result {
  int value;
  const char *name, *text;
};
constexpr Result kResults[] = {
#define X(name, value, text) {value, #name, text},
#include "driver/results.inc"
#undef X
};
const Result* result_of(CUresult value) {
  for (const Result& r : kResults)
    if (r.value == value) return &r;
  return nullptr;
}

struct Version {
  const char* symbol;
  int version;
};
constexpr Version kVersions[] = {
#define X(symbol, version) {#symbol, version},
#include "driver/versions.inc"
#undef X
};

/// What the library exports for `name` as CUDA `version` has it: "cuMemAlloc_v2".
std::string symbol_of(const std::string& name, int version) {
  constexpr int kFlagsInstead = 12000;
  if (name == "cuGraphInstantiate" && version >= kFlagsInstead) return "cuGraphInstantiateWithFlags";
  std::string best = name;
  for (const Version& v : kVersions) {
    const std::string_view symbol = v.symbol;
    if (symbol.size() == name.size() + 3 && symbol.starts_with(name) && v.version <= version && symbol > best)
      best = symbol;
  }
  return best;
}

void* self() {
  static void* const handle = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&cuInit), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

void* find(const std::string& name, int version, bool per_thread) {
  const std::string symbol = symbol_of(name, version);
  void* found = nullptr;
  if (per_thread) found = dlsym(self(), (symbol + "_ptsz").c_str());
  if (per_thread && found == nullptr) found = dlsym(self(), (symbol + "_ptds").c_str());
  if (found == nullptr) found = dlsym(self(), symbol.c_str());
  // The first forms of functions are not there: they have 32-bit addresses.
  if (found == nullptr) found = dlsym(self(), (symbol + "_v2").c_str());
  return found;
}

CUresult not_supported(const char* name) {
  return guarded([&](Driver& d) {
    d.report.unsupported(name, "not implemented by the emulated device");
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  });
}

}  // namespace
}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuGetErrorName(CUresult error, const char** out) {
  const Result* result = result_of(error);
  *out = result == nullptr ? nullptr : result->name;
  return result == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
KILN_API CUresult cuGetErrorString(CUresult error, const char** out) {
  const Result* result = result_of(error);
  *out = result == nullptr ? nullptr : result->text;
  return result == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

KILN_API CUresult cuGetProcAddress_v2(const char* name, void** out, int version, std::uint64_t flags,
                                      int* status) {
  constexpr std::uint64_t kPerThread = 2;
  constexpr int kNotFound = 1;
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool ours = std::strncmp(name, "cu", 2) == 0 && std::strncmp(name, "cuda", 4) != 0;
  *out = ours ? find(name, version, (flags & kPerThread) != 0) : nullptr;
  if (status != nullptr) *status = *out == nullptr ? kNotFound : 0;
  return *out == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
KILN_API CUresult cuGetProcAddress(const char* name, void** out, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}

// Tables that NVIDIA's runtime shares with NVIDIA's driver alone. Programs with that runtime inside are served by the
// runtime's functions instead (runtime/).
KILN_API CUresult cuGetExportTable(const void** out, const CUuuid*) {
  if (out != nullptr) *out = nullptr;
  return guarded([](Driver& d) {
    d.report.unsupported(
        "cuGetExportTable",
        "NVIDIA's runtime library is in use and accepts no other driver: link the program with "
        "-cudart shared, or keep its symbols (no strip, no -s)");
    throw Failure{CUDA_ERROR_NOT_FOUND};
  });
}

// NOLINTBEGIN(readability-identifier-naming)
#define X(name)                  \
  KILN_API CUresult name() {     \
    return not_supported(#name); \
  }
#include "driver/unsupported.inc"
#undef X
// NOLINTEND(readability-identifier-naming)
KILN_API void kiln_driver_unsupported(const char* name) {
  not_supported(name);
}
