#include "driver/runtime/registry.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>

#include "base/grid.hpp"

namespace kiln::runtime_stand_in {
namespace {

struct Binary {
  const void* code = nullptr;
  CUlibrary library = nullptr;
  int result = -1;  ///< of loading; -1: not tried
};
struct Kernel {
  Binary* binary = nullptr;
  std::string name;
  CUkernel handle = nullptr;
};
struct Variable {
  Binary* binary = nullptr;
  std::string name;
  void** managed = nullptr;  ///< where the program has the address of a managed one
};
struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<Binary>> binaries;
  std::map<const void*, Kernel> kernels;
  std::map<const void*, Variable> variables;
};

Registry& registry() {
  static Registry* const instance = new Registry;  // programs unregister while they end
  return *instance;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

int load(Binary& b) {
  if (b.result < 0)
    b.result = cuLibraryLoadData(&b.library, b.code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  return b.result;
}

Binary* binary_of(void** handle) {
  return reinterpret_cast<Binary*>(handle);
}

/// Managed variables are read through a pointer in the program, which has to have a value.
int place_managed(Binary* only) {
  for (auto& [host, v] : registry().variables) {
    if (v.managed == nullptr || *v.managed != nullptr || (only != nullptr && v.binary != only)) continue;
    if (const int result = load(*v.binary); result != CUDA_SUCCESS) return result;
    CUdeviceptr address = 0;
    if (const int result = cuLibraryGetManaged(&address, nullptr, v.binary->library, v.name.c_str());
        result != CUDA_SUCCESS)
      return result;
    *v.managed = reinterpret_cast<void*>(address);
  }
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t& last_error() {
  thread_local cudaError_t last = CUDA_SUCCESS;
  return last;
}

cudaError_t note(int result) {
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) last_error() = result;
  return result;
}

int prepare() {
  thread_local bool ready = false;
  if (ready) {
    CUcontext current = nullptr;
    if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) return CUDA_SUCCESS;
  }
  static const int initialised = cuInit(0);
  if (initialised != CUDA_SUCCESS) return initialised;
  static CUcontext primary = nullptr;
  static const int retained = cuDevicePrimaryCtxRetain(&primary, 0);
  if (retained != CUDA_SUCCESS) return retained;
  CUcontext current = nullptr;
  cuCtxGetCurrent(&current);
  if (current == nullptr) cuCtxSetCurrent(primary);
  ready = true;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  place_managed(nullptr);
  return CUDA_SUCCESS;
}

int kernel_of(const void* host, CUkernel* out) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto it = r.kernels.find(host);
  if (it == r.kernels.end()) {
    const char* name = nullptr;
    *out = static_cast<CUkernel>(const_cast<void*>(host));
    return cuKernelGetName(&name, *out) == CUDA_SUCCESS ? CUDA_SUCCESS : kInvalidDeviceFunction;
  }
  Kernel& k = it->second;
  if (k.handle == nullptr) {
    if (const int result = load(*k.binary); result != CUDA_SUCCESS) return result;
    if (cuLibraryGetKernel(&k.handle, k.binary->library, k.name.c_str()) != CUDA_SUCCESS)
      return kInvalidDeviceFunction;
  }
  *out = k.handle;
  return CUDA_SUCCESS;
}

void* host_of(void* function) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto found = std::find_if(r.kernels.begin(), r.kernels.end(), [&](const auto& k) {
    return function != nullptr && k.second.handle == function;
  });
  return found == r.kernels.end() ? function : const_cast<void*>(found->first);
}

int variable_of(const void* host, CUdeviceptr* address, std::size_t* bytes) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto it = r.variables.find(host);
  if (it == r.variables.end()) return kInvalidSymbol;
  const Variable& v = it->second;
  if (const int result = load(*v.binary); result != CUDA_SUCCESS) return result;
  return cuLibraryGetGlobal(address, bytes, v.binary->library, v.name.c_str()) == CUDA_SUCCESS
             ? CUDA_SUCCESS
             : kInvalidSymbol;
}

int launch(CUkernel kernel, const cudaLaunchConfig_t& c, void** args) {
  const dim3 &g = c.gridDim, &b = c.blockDim;
  const bool none = g.x == 0 || g.y == 0 || g.z == 0 || b.x == 0 || b.y == 0 || b.z == 0;
  if (none || emulator::Dim3{b.x, b.y, b.z}.count() > 1024 || b.z > 64 || g.y > kMostOfGridAxis ||
      g.z > kMostOfGridAxis)
    return kInvalidConfiguration;
  if (c.dynamicSmemBytes > 0xffffffffu) return CUDA_ERROR_INVALID_VALUE;
  const CUlaunchConfig config{
      g.x, g.y, g.z, b.x, b.y, b.z, static_cast<unsigned>(c.dynamicSmemBytes), c.stream, c.attrs, c.numAttrs};
  return cuLaunchKernelEx(&config, kernel, args, nullptr);
}

}  // namespace kiln::runtime_stand_in

using namespace kiln::runtime_stand_in;  // NOLINT(google-build-using-namespace)

// NOLINTBEGIN(bugprone-reserved-identifier): the names that nvcc's code calls
KILN_API void** __cudaRegisterFatBinary(void* code) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.binaries.push_back(std::make_unique<Binary>());
  r.binaries.back()->code = code;
  return reinterpret_cast<void**>(r.binaries.back().get());
}
KILN_API void __cudaRegisterFatBinaryEnd(void**) {}
KILN_API void __cudaUnregisterFatBinary(void** handle) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::erase_if(r.kernels, [&](const auto& k) { return k.second.binary == binary_of(handle); });
  std::erase_if(r.variables, [&](const auto& v) { return v.second.binary == binary_of(handle); });
  if (binary_of(handle)->result == CUDA_SUCCESS) cuLibraryUnload(binary_of(handle)->library);
  std::erase_if(r.binaries, [&](const auto& b) { return b.get() == binary_of(handle); });
}
KILN_API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, void*,
                                     void*, void*, void*, int*) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.kernels[host] = {binary_of(handle), name, nullptr};
}
KILN_API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t, int,
                                int) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.variables[host] = {binary_of(handle), name, nullptr};
}
KILN_API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, std::size_t,
                                       int, int) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.variables[host] = {binary_of(handle), name, host};
}
KILN_API void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}
KILN_API void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) {}
KILN_API void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) {}
KILN_API char __cudaInitModule(void** handle) {
  if (prepare() != CUDA_SUCCESS) return 0;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return note(place_managed(binary_of(handle))) == CUDA_SUCCESS ? 1 : 0;
}
KILN_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                              cudaStream_t stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}
KILN_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  auto& stack = configurations();
  if (stack.empty()) return note(CUDA_ERROR_INVALID_VALUE);
  const Configuration c = stack.back();
  stack.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  std::memcpy(stream, &c.stream, sizeof(void*));
  return CUDA_SUCCESS;
}
KILN_API cudaError_t __cudaGetKernel(CUkernel* out, const void* host) {
  return call([&] { return kernel_of(host, out); });
}
KILN_API cudaError_t __cudaLaunchKernel(CUkernel kernel, dim3 grid, dim3 block, void** args,
                                        std::size_t shared, cudaStream_t stream) {
  return call([&] {
    // What __cudaGetKernel failed with says more.
    if (kernel == nullptr) return last_error() != CUDA_SUCCESS ? last_error() : kInvalidDeviceFunction;
    return launch(kernel, {grid, block, shared, stream, nullptr, 0}, args);
  });
}
KILN_API cudaError_t __cudaLaunchKernel_ptsz(CUkernel kernel, dim3 grid, dim3 block, void** args,
                                             std::size_t shared, cudaStream_t stream) {
  return __cudaLaunchKernel(kernel, grid, block, args, shared, stream == nullptr ? kPerThreadStream : stream);
}
// NOLINTEND(bugprone-reserved-identifier)
