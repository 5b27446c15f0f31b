// Kernels, occupancy, streams and events.
#include <algorithm>
#include <cstring>

#include "driver/runtime/registry.hpp"

namespace kiln::runtime_stand_in {
namespace {

/// Calls `body` with the kernel of a host function.
template <class F>
cudaError_t with_kernel(const void* host, const F& body) {
  return call([&]() -> int {
    CUkernel kernel = nullptr;
    const int result = kernel_of(host, &kernel);
    return result != CUDA_SUCCESS ? result : body(kernel);
  });
}

CUlaunchConfig config_of(const cudaLaunchConfig_t& c) {
  return {c.gridDim.x,
          c.gridDim.y,
          c.gridDim.z,
          c.blockDim.x,
          c.blockDim.y,
          c.blockDim.z,
          static_cast<unsigned>(c.dynamicSmemBytes),
          c.stream,
          c.attrs,
          c.numAttrs};
}

}  // namespace
}  // namespace kiln::runtime_stand_in

using namespace kiln::runtime_stand_in;  // NOLINT(google-build-using-namespace)

KILN_API cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** args,
                                      std::size_t shared, cudaStream_t s) {
  return with_kernel(host, [&](CUkernel k) { return launch(k, {grid, block, shared, s, nullptr, 0}, args); });
}
KILN_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** args) {
  return with_kernel(host, [&](CUkernel k) { return launch(k, *config, args); });
}
KILN_API cudaError_t cudaLaunchCooperativeKernel(const void* host, dim3 grid, dim3 block, void** args,
                                                 std::size_t shared, cudaStream_t s) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.flag = 1;
  return with_kernel(host, [&](CUkernel k) {
    return launch(k, {grid, block, shared, s, &cooperative, 1}, args);
  });
}
KILN_API cudaError_t cudaGetKernel(CUkernel* out, const void* host) {
  return with_kernel(host, [&](CUkernel k) {
    *out = k;
    return CUDA_SUCCESS;
  });
}
KILN_API cudaError_t cudaGetFuncBySymbol(CUfunction* out, const void* host) {
  return cudaGetKernel(out, host);
}
KILN_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* host) {
  return with_kernel(host, [&](CUkernel k) {
    const auto value = [&](int number) {
      int v = 0;
      cuFuncGetAttribute(&v, number, k);
      return v;
    };
    *out = {};
    out->maxThreadsPerBlock = value(0);
    out->sharedSizeBytes = static_cast<std::size_t>(value(1));
    out->constSizeBytes = static_cast<std::size_t>(value(2));
    out->localSizeBytes = static_cast<std::size_t>(value(3));
    out->numRegs = value(4);
    out->ptxVersion = value(5);
    out->binaryVersion = value(6);
    out->maxDynamicSharedSizeBytes = value(8);
    out->preferredShmemCarveout = value(9);
    out->clusterDimMustBeSet = value(10);
    out->requiredClusterWidth = value(11);
    out->requiredClusterHeight = value(12);
    out->requiredClusterDepth = value(13);
    out->nonPortableClusterSizeAllowed = value(14);
    return CUDA_SUCCESS;
  });
}
KILN_API cudaError_t cudaFuncSetAttribute(const void* host, int number, int value) {
  return with_kernel(host, [&](CUkernel k) { return cuFuncSetAttribute(k, number, value); });
}
KILN_API cudaError_t cudaKernelSetAttributeForDevice(CUkernel k, int number, int value, int) {
  return call([&] { return cuFuncSetAttribute(k, number, value); });
}
KILN_API cudaError_t cudaFuncSetCacheConfig(const void* host, int) {
  return with_kernel(host, [](CUkernel) { return CUDA_SUCCESS; });
}
KILN_API cudaError_t cudaFuncSetSharedMemConfig(const void* host, int) {
  return with_kernel(host, [](CUkernel) { return CUDA_SUCCESS; });
}
KILN_API cudaError_t cudaFuncGetName(const char** out, const void* host) {
  return with_kernel(host, [&](CUkernel k) { return cuKernelGetName(out, k); });
}
KILN_API cudaError_t cudaFuncGetParamInfo(const void* host, std::size_t index, std::size_t* offset,
                                          std::size_t* bytes) {
  return with_kernel(host, [&](CUkernel k) { return cuKernelGetParamInfo(k, index, offset, bytes); });
}
KILN_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, const void* host,
                                                                            int threads, std::size_t dynamic,
                                                                            unsigned flags) {
  return with_kernel(host, [&](CUkernel k) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, k, threads, dynamic, flags);
  });
}
KILN_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, const void* host, int threads,
                                                                   std::size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, host, threads, dynamic, 0);
}
KILN_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* out, const void* host, int blocks,
                                                               int threads) {
  return with_kernel(
      host, [&](CUkernel k) { return cuOccupancyAvailableDynamicSMemPerBlock(out, k, blocks, threads); });
}
KILN_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int* out, const void* host,
                                                          const cudaLaunchConfig_t* c) {
  return with_kernel(host, [&](CUkernel k) {
    const CUlaunchConfig config = config_of(*c);
    return cuOccupancyMaxPotentialClusterSize(out, k, &config);
  });
}
KILN_API cudaError_t cudaOccupancyMaxActiveClusters(int* out, const void* host, const cudaLaunchConfig_t* c) {
  return with_kernel(host, [&](CUkernel k) {
    const CUlaunchConfig config = config_of(*c);
    return cuOccupancyMaxActiveClusters(out, k, &config);
  });
}

KILN_API cudaError_t cudaLibraryLoadData(CUlibrary* out, const void* code, int* options, void** values,
                                         unsigned count, int*, void**, unsigned) {
  return call([&] { return cuLibraryLoadData(out, code, options, values, count, nullptr, nullptr, 0); });
}
KILN_API cudaError_t cudaLibraryLoadFromFile(CUlibrary* out, const char* path, int*, void**, unsigned, int*,
                                             void**, unsigned) {
  return call([&] { return cuLibraryLoadFromFile(out, path, nullptr, nullptr, 0, nullptr, nullptr, 0); });
}
KILN_API cudaError_t cudaLibraryUnload(CUlibrary library) {
  return call([&] { return cuLibraryUnload(library); });
}
KILN_API cudaError_t cudaLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  return call([&] { return cuLibraryGetKernel(out, library, name); });
}
KILN_API cudaError_t cudaLibraryGetGlobal(void** out, std::size_t* bytes, CUlibrary library,
                                          const char* name) {
  return call([&] { return cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(out), bytes, library, name); });
}
KILN_API cudaError_t cudaLibraryGetManaged(void** out, std::size_t* bytes, CUlibrary library,
                                           const char* name) {
  return call([&] { return cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(out), bytes, library, name); });
}
KILN_API cudaError_t cudaLibraryGetKernelCount(unsigned* out, CUlibrary library) {
  return call([&] { return cuLibraryGetKernelCount(out, library); });
}
KILN_API cudaError_t cudaLibraryEnumerateKernels(CUkernel* out, unsigned room, CUlibrary library) {
  return call([&] { return cuLibraryEnumerateKernels(out, room, library); });
}

KILN_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  return call([&] { return cuStreamCreateWithPriority(out, flags, priority); });
}
KILN_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
KILN_API cudaError_t cudaStreamCreate(cudaStream_t* out) {
  return cudaStreamCreateWithPriority(out, 0, 0);
}
KILN_API cudaError_t cudaStreamDestroy(cudaStream_t s) {
  return call([&] { return cuStreamDestroy_v2(s); });
}
KILN_API cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  return call([&] { return cuStreamSynchronize(s); });
}
KILN_API cudaError_t cudaStreamQuery(cudaStream_t s) {
  return call([&] { return cuStreamQuery(s); });
}
KILN_API cudaError_t cudaStreamGetPriority(cudaStream_t s, int* out) {
  return call([&] { return cuStreamGetPriority(s, out); });
}
KILN_API cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned* out) {
  return call([&] { return cuStreamGetFlags(s, out); });
}
KILN_API cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long* out) {
  return call([&] { return cuStreamGetId(s, out); });
}
KILN_API cudaError_t cudaStreamGetDevice(cudaStream_t s, int* out) {
  return call([&] { return cuStreamGetDevice(s, out); });
}
KILN_API cudaError_t cudaStreamGetAttribute(cudaStream_t s, int attribute, void* value) {
  return call([&] { return cuStreamGetAttribute(s, attribute, value); });
}
KILN_API cudaError_t cudaStreamSetAttribute(cudaStream_t s, int attribute, const void* value) {
  return call([&] { return cuStreamSetAttribute(s, attribute, value); });
}
KILN_API cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return call([&] { return cuStreamCopyAttributes(to, from); });
}
KILN_API cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned flags) {
  return call([&] { return cuStreamWaitEvent(s, event, flags); });
}
KILN_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t s, void* p, std::size_t n, unsigned flags) {
  return call([&] { return cuStreamAttachMemAsync(s, reinterpret_cast<CUdeviceptr>(p), n, flags); });
}
KILN_API cudaError_t cudaStreamAddCallback(cudaStream_t s, CUstreamCallback fn, void* data, unsigned flags) {
  return call([&] { return cuStreamAddCallback(s, fn, data, flags); });
}
KILN_API cudaError_t cudaLaunchHostFunc(cudaStream_t s, CUhostFn fn, void* data) {
  return call([&] { return cuLaunchHostFunc(s, fn, data); });
}
KILN_API cudaError_t cudaStreamBeginCapture(cudaStream_t s, int mode) {
  return call([&] { return cuStreamBeginCapture_v2(s, mode); });
}
KILN_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, CUgraph graph, const CUgraphNode* nodes,
                                                   const CUgraphEdgeData* edges, std::size_t count,
                                                   int mode) {
  return call([&] { return cuStreamBeginCaptureToGraph(s, graph, nodes, edges, count, mode); });
}
KILN_API cudaError_t cudaStreamEndCapture(cudaStream_t s, CUgraph* out) {
  return call([&] { return cuStreamEndCapture(s, out); });
}
KILN_API cudaError_t cudaStreamIsCapturing(cudaStream_t s, int* status) {
  return call([&] { return cuStreamIsCapturing(s, status); });
}
KILN_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, int* status, unsigned long long* id,
                                              CUgraph* graph, const CUgraphNode** nodes,
                                              const CUgraphEdgeData** edges, std::size_t* count) {
  return call([&] {
    std::uint64_t number = 0;
    const int result = cuStreamGetCaptureInfo_v3(s, status, &number, graph, nodes, edges, count);
    if (id != nullptr) *id = number;
    return result;
  });
}
KILN_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t s, CUgraphNode* nodes,
                                                         const CUgraphEdgeData* edges, std::size_t count,
                                                         unsigned flags) {
  return call([&] { return cuStreamUpdateCaptureDependencies_v2(s, nodes, edges, count, flags); });
}
KILN_API cudaError_t cudaThreadExchangeStreamCaptureMode(int* mode) {
  return note(cuThreadExchangeStreamCaptureMode(mode));
}

KILN_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return call([&] { return cuEventCreate(out, flags); });
}
KILN_API cudaError_t cudaEventCreate(cudaEvent_t* out) {
  return cudaEventCreateWithFlags(out, 0);
}
KILN_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] { return cuEventDestroy_v2(event); });
}
KILN_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t s, unsigned flags) {
  return call([&] { return cuEventRecordWithFlags(event, s, flags); });
}
KILN_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
  return cudaEventRecordWithFlags(event, s, 0);
}
KILN_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] { return cuEventQuery(event); });
}
KILN_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] { return cuEventSynchronize(event); });
}
KILN_API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call([&] { return cuEventElapsedTime(ms, start, end); });
}
KILN_API cudaError_t cudaEventElapsedTime_v2(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(ms, start, end);
}
