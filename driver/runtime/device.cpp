// Devices, errors, versions, limits.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "driver/runtime/registry.hpp"

namespace kiln::runtime_stand_in {
namespace {

constexpr int kVersion = 13000;

struct Result {
  int value;
  const char *name, *text;
};
constexpr Result kResults[] = {
#define X(name, value, text) {value, #name, text},
#include "driver/runtime/results.inc"
#undef X
};
const Result* result_of(int value) {
  const auto* it = std::find_if(std::begin(kResults), std::end(kResults),
                                [&](const Result& r) { return r.value == value; });
  return it == std::end(kResults) ? nullptr : it;
}

int attribute(int number) {
  int value = 0;
  cuDeviceGetAttribute(&value, number, 0);
  return value;
}

void image_limits(cudaDeviceProp& p) {
  const auto fill = [](int* to, int count, int first) {
    for (int i = 0; i < count; ++i) to[i] = attribute(first + i);
  };
  p.maxTexture1D = attribute(21);
  p.maxTexture1DMipmap = attribute(77);
  fill(p.maxTexture2D, 2, 22);
  fill(p.maxTexture2DMipmap, 2, 73);
  fill(p.maxTexture2DLinear, 3, 70);
  fill(p.maxTexture2DGather, 2, 45);
  fill(p.maxTexture3D, 3, 24);
  fill(p.maxTexture3DAlt, 3, 47);
  p.maxTextureCubemap = attribute(52);
  fill(p.maxTexture1DLayered, 2, 42);
  fill(p.maxTexture2DLayered, 3, 27);
  fill(p.maxTextureCubemapLayered, 2, 53);
  p.maxSurface1D = attribute(55);
  fill(p.maxSurface2D, 2, 56);
  fill(p.maxSurface3D, 3, 58);
  fill(p.maxSurface1DLayered, 2, 61);
  fill(p.maxSurface2DLayered, 3, 63);
  p.maxSurfaceCubemap = attribute(66);
  fill(p.maxSurfaceCubemapLayered, 2, 67);
}

cudaDeviceProp properties() {
  cudaDeviceProp p{};
  cuDeviceGetName(p.name, sizeof p.name, 0);
  cuDeviceGetUuid(&p.uuid, 0);
  cuDeviceTotalMem_v2(&p.totalGlobalMem, 0);
  const auto bytes = [](int number) { return static_cast<std::size_t>(attribute(number)); };
  p.sharedMemPerBlock = bytes(8);
  p.regsPerBlock = attribute(12);
  p.warpSize = attribute(10);
  p.memPitch = bytes(11);
  p.maxThreadsPerBlock = attribute(1);
  for (int i = 0; i < 3; ++i) {
    p.maxThreadsDim[i] = attribute(2 + i);
    p.maxGridSize[i] = attribute(5 + i);
  }
  p.totalConstMem = bytes(9);
  p.major = attribute(75);
  p.minor = attribute(76);
  p.textureAlignment = bytes(14);
  p.texturePitchAlignment = bytes(51);
  p.multiProcessorCount = attribute(16);
  p.canMapHostMemory = attribute(19);
  p.surfaceAlignment = bytes(30);
  p.concurrentKernels = attribute(31);
  p.pciBusID = attribute(33);
  p.asyncEngineCount = attribute(40);
  p.unifiedAddressing = attribute(41);
  p.memoryBusWidth = attribute(37);
  p.l2CacheSize = attribute(38);
  p.persistingL2CacheMaxSize = attribute(108);
  p.maxThreadsPerMultiProcessor = attribute(39);
  p.streamPrioritiesSupported = attribute(78);
  p.globalL1CacheSupported = attribute(79);
  p.localL1CacheSupported = attribute(80);
  p.sharedMemPerMultiprocessor = bytes(81);
  p.regsPerMultiprocessor = attribute(82);
  p.managedMemory = attribute(83);
  p.concurrentManagedAccess = attribute(89);
  p.computePreemptionSupported = attribute(90);
  p.cooperativeLaunch = attribute(95);
  p.sharedMemPerBlockOptin = bytes(97);
  p.maxBlocksPerMultiProcessor = attribute(106);
  p.accessPolicyMaxWindowSize = attribute(109);
  p.reservedSharedMemPerBlock = bytes(111);
  p.hostRegisterSupported = attribute(99);
  p.memoryPoolsSupported = attribute(115);
  p.clusterLaunch = attribute(120);
  p.deviceNumaId = p.hostNumaId = -1;
  image_limits(p);
  return p;
}

}  // namespace
}  // namespace kiln::runtime_stand_in

using namespace kiln::runtime_stand_in;  // NOLINT(google-build-using-namespace)

KILN_API cudaError_t cudaGetLastError() {
  return std::exchange(last_error(), CUDA_SUCCESS);
}
KILN_API cudaError_t cudaPeekAtLastError() {
  return last_error();
}
KILN_API const char* cudaGetErrorName(cudaError_t error) {
  const Result* r = result_of(error);
  return r == nullptr ? "unrecognized error code" : r->name;
}
KILN_API const char* cudaGetErrorString(cudaError_t error) {
  const Result* r = result_of(error);
  return r == nullptr ? "unrecognized error code" : r->text;
}
KILN_API cudaError_t cudaDriverGetVersion(int* out) {
  return note(cuDriverGetVersion(out));
}
KILN_API cudaError_t cudaRuntimeGetVersion(int* out) {
  *out = kVersion;
  return CUDA_SUCCESS;
}

KILN_API cudaError_t cudaGetDeviceCount(int* out) {
  return call([&] { return cuDeviceGetCount(out); });
}
KILN_API cudaError_t cudaGetDevice(int* out) {
  *out = 0;
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaSetDevice(int device) {
  return call([&] { return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; });
}
KILN_API cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return cudaSetDevice(device);
}
KILN_API cudaError_t cudaSetValidDevices(int*, int) {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaChooseDevice(int* out, const cudaDeviceProp*) {
  *out = 0;
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return call([&] { return cuDevicePrimaryCtxSetFlags_v2(0, flags); });
}
KILN_API cudaError_t cudaGetDeviceFlags(unsigned* out) {
  return call([&] { return cuCtxGetFlags(out); });
}
KILN_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return call([&] {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *out = properties();
    return CUDA_SUCCESS;
  });
}
KILN_API cudaError_t cudaDeviceGetAttribute(int* out, int number, int device) {
  return call([&] { return cuDeviceGetAttribute(out, number, device); });
}
KILN_API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return call([&] { return cuDeviceGetPCIBusId(text, length, device); });
}
KILN_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return call([&] { return cuDeviceGetByPCIBusId(device, text); });
}
KILN_API cudaError_t cudaDeviceReset() {
  return call([] { return cuDevicePrimaryCtxReset_v2(0); });
}
KILN_API cudaError_t cudaDeviceSynchronize() {
  return call([] { return cuCtxSynchronize(); });
}
KILN_API cudaError_t cudaDeviceSetLimit(unsigned limit, std::size_t value) {
  return call([&] { return cuCtxSetLimit(limit, value); });
}
KILN_API cudaError_t cudaDeviceGetLimit(std::size_t* out, unsigned limit) {
  return call([&] { return cuCtxGetLimit(out, limit); });
}
KILN_API cudaError_t cudaDeviceGetCacheConfig(int* out) {
  return note(cuCtxGetCacheConfig(out));
}
KILN_API cudaError_t cudaDeviceSetCacheConfig(int) {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaDeviceGetSharedMemConfig(int* out) {
  return note(cuCtxGetSharedMemConfig(out));
}
KILN_API cudaError_t cudaDeviceSetSharedMemConfig(int) {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return note(cuCtxGetStreamPriorityRange(least, greatest));
}
KILN_API cudaError_t cudaDeviceCanAccessPeer(int* out, int device, int peer) {
  return call([&] { return cuDeviceCanAccessPeer(out, device, peer); });
}
KILN_API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return note(CUDA_ERROR_INVALID_DEVICE);
}
KILN_API cudaError_t cudaDeviceDisablePeerAccess(int) {
  return note(CUDA_ERROR_INVALID_DEVICE);
}
KILN_API cudaError_t cudaDeviceGetGraphMemAttribute(int device, int attribute, void* value) {
  return call([&] { return cuDeviceGetGraphMemAttribute(device, attribute, value); });
}
KILN_API cudaError_t cudaDeviceSetGraphMemAttribute(int device, int attribute, void* value) {
  return call([&] { return cuDeviceSetGraphMemAttribute(device, attribute, value); });
}
KILN_API cudaError_t cudaDeviceGraphMemTrim(int device) {
  return call([&] { return cuDeviceGraphMemTrim(device); });
}
KILN_API cudaError_t cudaCtxResetPersistingL2Cache() {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaProfilerStart() {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaProfilerStop() {
  return CUDA_SUCCESS;
}

namespace {

cudaError_t driver_entry(const char* name, void** out, int version, std::uint64_t flags, int* status) {
  return call([&] {
    int found = 0;
    cuGetProcAddress_v2(name, out, version, flags, &found);
    if (status != nullptr) *status = found;
    return CUDA_SUCCESS;
  });
}

}  // namespace

KILN_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version,
                                                      unsigned long long flags, int* status) {
  return driver_entry(name, out, static_cast<int>(version), flags, status);
}
KILN_API cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long flags,
                                             int* status) {
  return driver_entry(name, out, kVersion, flags, status);
}
KILN_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** out, unsigned version,
                                                           unsigned long long flags, int* status) {
  return driver_entry(name, out, static_cast<int>(version), flags | 2, status);
}
KILN_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char* name, void** out, unsigned long long flags,
                                                  int* status) {
  return driver_entry(name, out, kVersion, flags | 2, status);
}
