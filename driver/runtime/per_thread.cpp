// The forms of the runtime's functions for programs compiled with a default stream per thread.
#include "driver/runtime/registry.hpp"

namespace {

cudaStream_t per_thread(cudaStream_t s) {
  return s == nullptr ? kPerThreadStream : s;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
#define X(name, suffix, parameters, arguments)   \
  KILN_API cudaError_t name parameters;          \
  KILN_API cudaError_t name##suffix parameters { \
    return name arguments;                       \
  }
X(cudaMallocAsync, _ptsz, (void** out, std::size_t bytes, cudaStream_t s), (out, bytes, per_thread(s)))
X(cudaMallocFromPoolAsync, _ptsz, (void** out, std::size_t bytes, CUmemoryPool pool, cudaStream_t s),
  (out, bytes, pool, per_thread(s)))
X(cudaFreeAsync, _ptsz, (void* p, cudaStream_t s), (p, per_thread(s)))
X(cudaMemcpy, _ptds, (void* to, const void* from, std::size_t n, int a0), (to, from, n, a0))
X(cudaMemcpyAsync, _ptsz, (void* to, const void* from, std::size_t n, int a0, cudaStream_t s),
  (to, from, n, a0, per_thread(s)))
X(cudaMemcpy2D, _ptds,
  (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
   std::size_t height, int a0),
  (to, to_pitch, from, from_pitch, width, height, a0))
X(cudaMemcpy2DAsync, _ptsz,
  (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
   std::size_t height, int a0, cudaStream_t s),
  (to, to_pitch, from, from_pitch, width, height, a0, per_thread(s)))
X(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* p), (p))
X(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t s), (p, per_thread(s)))
X(cudaMemcpy3DPeerAsync, _ptsz, (const cudaMemcpy3DPeerParms* p, cudaStream_t s), (p, per_thread(s)))
X(cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* p), (p))
X(cudaMemcpyToSymbol, _ptds,
  (const void* symbol, const void* from, std::size_t n, std::size_t offset, int a0),
  (symbol, from, n, offset, a0))
X(cudaMemcpyFromSymbol, _ptds, (void* to, const void* symbol, std::size_t n, std::size_t offset, int a0),
  (to, symbol, n, offset, a0))
X(cudaMemcpyToSymbolAsync, _ptsz,
  (const void* symbol, const void* from, std::size_t n, std::size_t offset, int a0, cudaStream_t s),
  (symbol, from, n, offset, a0, per_thread(s)))
X(cudaMemcpyFromSymbolAsync, _ptsz,
  (void* to, const void* symbol, std::size_t n, std::size_t offset, int a0, cudaStream_t s),
  (to, symbol, n, offset, a0, per_thread(s)))
X(cudaMemset, _ptds, (void* p, int value, std::size_t n), (p, value, n))
X(cudaMemsetAsync, _ptsz, (void* p, int value, std::size_t n, cudaStream_t s), (p, value, n, per_thread(s)))
X(cudaMemset2D, _ptds, (void* p, std::size_t pitch, int value, std::size_t w, std::size_t h),
  (p, pitch, value, w, h))
X(cudaMemset2DAsync, _ptsz,
  (void* p, std::size_t pitch, int value, std::size_t w, std::size_t h, cudaStream_t s),
  (p, pitch, value, w, h, per_thread(s)))
X(cudaMemset3D, _ptds, (cudaPitchedPtr p, int value, cudaExtent e), (p, value, e))
X(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr p, int value, cudaExtent e, cudaStream_t s),
  (p, value, e, per_thread(s)))
X(cudaMemPrefetchAsync, _ptsz,
  (const void* p, std::size_t n, CUmemLocation where, unsigned flags, cudaStream_t s),
  (p, n, where, flags, per_thread(s)))
X(cudaLaunchKernel, _ptsz,
  (const void* host, dim3 grid, dim3 block, void** args, std::size_t shared, cudaStream_t s),
  (host, grid, block, args, shared, per_thread(s)))
X(cudaLaunchCooperativeKernel, _ptsz,
  (const void* host, dim3 grid, dim3 block, void** args, std::size_t shared, cudaStream_t s),
  (host, grid, block, args, shared, per_thread(s)))
X(cudaStreamSynchronize, _ptsz, (cudaStream_t s), (per_thread(s)))
X(cudaStreamQuery, _ptsz, (cudaStream_t s), (per_thread(s)))
X(cudaStreamGetPriority, _ptsz, (cudaStream_t s, int* out), (per_thread(s), out))
X(cudaStreamGetFlags, _ptsz, (cudaStream_t s, unsigned* out), (per_thread(s), out))
X(cudaStreamGetId, _ptsz, (cudaStream_t s, unsigned long long* out), (per_thread(s), out))
X(cudaStreamGetDevice, _ptsz, (cudaStream_t s, int* out), (per_thread(s), out))
X(cudaStreamGetAttribute, _ptsz, (cudaStream_t s, int attribute, void* value),
  (per_thread(s), attribute, value))
X(cudaStreamSetAttribute, _ptsz, (cudaStream_t s, int attribute, const void* value),
  (per_thread(s), attribute, value))
X(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from), (per_thread(to), per_thread(from)))
X(cudaStreamWaitEvent, _ptsz, (cudaStream_t s, cudaEvent_t event, unsigned flags),
  (per_thread(s), event, flags))
X(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t s, void* p, std::size_t n, unsigned flags),
  (per_thread(s), p, n, flags))
X(cudaStreamAddCallback, _ptsz, (cudaStream_t s, CUstreamCallback fn, void* data, unsigned flags),
  (per_thread(s), fn, data, flags))
X(cudaLaunchHostFunc, _ptsz, (cudaStream_t s, CUhostFn fn, void* data), (per_thread(s), fn, data))
X(cudaStreamBeginCapture, _ptsz, (cudaStream_t s, int mode), (per_thread(s), mode))
X(cudaStreamBeginCaptureToGraph, _ptsz,
  (cudaStream_t s, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* edges, std::size_t count,
   int mode),
  (per_thread(s), graph, nodes, edges, count, mode))
X(cudaStreamEndCapture, _ptsz, (cudaStream_t s, CUgraph* out), (per_thread(s), out))
X(cudaStreamIsCapturing, _ptsz, (cudaStream_t s, int* status), (per_thread(s), status))
X(cudaStreamGetCaptureInfo, _ptsz,
  (cudaStream_t s, int* status, unsigned long long* id, CUgraph* graph, const CUgraphNode** nodes,
   const CUgraphEdgeData** edges, std::size_t* count),
  (per_thread(s), status, id, graph, nodes, edges, count))
X(cudaStreamUpdateCaptureDependencies, _ptsz,
  (cudaStream_t s, CUgraphNode* nodes, const CUgraphEdgeData* edges, std::size_t count, unsigned flags),
  (per_thread(s), nodes, edges, count, flags))
X(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t s, unsigned flags),
  (event, per_thread(s), flags))
X(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t s), (event, per_thread(s)))
X(cudaGraphInstantiateWithParams, _ptsz, (CUgraphExec * out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS* p),
  (out, g, p))
X(cudaGraphUpload, _ptsz, (CUgraphExec e, cudaStream_t s), (e, per_thread(s)))
X(cudaGraphLaunch, _ptsz, (CUgraphExec e, cudaStream_t s), (e, per_thread(s)))
#undef X
// NOLINTEND(readability-identifier-naming)

KILN_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** args);
KILN_API cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* host,
                                              void** args) {
  cudaLaunchConfig_t changed = *config;
  changed.stream = per_thread(changed.stream);
  return cudaLaunchKernelExC(&changed, host, args);
}
