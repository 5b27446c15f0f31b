// The forms of entry points for programs compiled with a default stream per thread.
#include "driver/api.hpp"
#include "driver/state.hpp"

using kiln::driver::per_thread;

// NOLINTBEGIN(readability-identifier-naming)
#define X(name, suffix, parameters, arguments) \
  KILN_API CUresult name##suffix parameters {  \
    return name arguments;                     \
  }
X(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t n), (to, from, n))
X(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void* from, std::size_t n), (to, from, n))
X(cuMemcpyDtoH_v2, _ptds, (void* to, CUdeviceptr from, std::size_t n), (to, from, n))
X(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t n), (to, from, n))
X(cuMemcpyPeer, _ptds, (CUdeviceptr to, CUcontext a0, CUdeviceptr from, CUcontext a1, std::size_t n),
  (to, a0, from, a1, n))
X(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* p), (p))
X(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* p), (p))
X(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* p), (p))
X(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D* p), (p))
X(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s),
  (to, from, n, per_thread(s)))
X(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void* from, std::size_t n, CUstream s),
  (to, from, n, per_thread(s)))
X(cuMemcpyDtoHAsync_v2, _ptsz, (void* to, CUdeviceptr from, std::size_t n, CUstream s),
  (to, from, n, per_thread(s)))
X(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s),
  (to, from, n, per_thread(s)))
X(cuMemcpyPeerAsync, _ptsz,
  (CUdeviceptr to, CUcontext a0, CUdeviceptr from, CUcontext a1, std::size_t n, CUstream s),
  (to, a0, from, a1, n, per_thread(s)))
X(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* p, CUstream s), (p, per_thread(s)))
X(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* p, CUstream s), (p, per_thread(s)))
X(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D* p, CUstream s), (p, per_thread(s)))
X(cuMemsetD8_v2, _ptds, (CUdeviceptr p, unsigned char v, std::size_t n), (p, v, n))
X(cuMemsetD16_v2, _ptds, (CUdeviceptr p, unsigned short v, std::size_t n), (p, v, n))
X(cuMemsetD32_v2, _ptds, (CUdeviceptr p, unsigned v, std::size_t n), (p, v, n))
X(cuMemsetD2D8_v2, _ptds, (CUdeviceptr p, std::size_t pitch, unsigned char v, std::size_t w, std::size_t h),
  (p, pitch, v, w, h))
X(cuMemsetD2D16_v2, _ptds, (CUdeviceptr p, std::size_t pitch, unsigned short v, std::size_t w, std::size_t h),
  (p, pitch, v, w, h))
X(cuMemsetD2D32_v2, _ptds, (CUdeviceptr p, std::size_t pitch, unsigned v, std::size_t w, std::size_t h),
  (p, pitch, v, w, h))
X(cuMemsetD8Async, _ptsz, (CUdeviceptr p, unsigned char v, std::size_t n, CUstream s),
  (p, v, n, per_thread(s)))
X(cuMemsetD16Async, _ptsz, (CUdeviceptr p, unsigned short v, std::size_t n, CUstream s),
  (p, v, n, per_thread(s)))
X(cuMemsetD32Async, _ptsz, (CUdeviceptr p, unsigned v, std::size_t n, CUstream s), (p, v, n, per_thread(s)))
X(cuMemsetD2D8Async, _ptsz,
  (CUdeviceptr p, std::size_t pitch, unsigned char v, std::size_t w, std::size_t h, CUstream s),
  (p, pitch, v, w, h, per_thread(s)))
X(cuMemsetD2D16Async, _ptsz,
  (CUdeviceptr p, std::size_t pitch, unsigned short v, std::size_t w, std::size_t h, CUstream s),
  (p, pitch, v, w, h, per_thread(s)))
X(cuMemsetD2D32Async, _ptsz,
  (CUdeviceptr p, std::size_t pitch, unsigned v, std::size_t w, std::size_t h, CUstream s),
  (p, pitch, v, w, h, per_thread(s)))
X(cuMemPrefetchAsync, _ptsz, (CUdeviceptr p, std::size_t a0, CUdevice a1, CUstream a2),
  (p, a0, a1, per_thread(a2)))
X(cuMemPrefetchAsync_v2, _ptsz, (CUdeviceptr p, std::size_t a0, CUmemLocation a1, unsigned a2, CUstream a3),
  (p, a0, a1, a2, per_thread(a3)))
X(cuStreamSynchronize, _ptsz, (CUstream handle), (per_thread(handle)))
X(cuStreamQuery, _ptsz, (CUstream handle), (per_thread(handle)))
X(cuStreamGetFlags, _ptsz, (CUstream handle, unsigned* out), (per_thread(handle), out))
X(cuStreamGetPriority, _ptsz, (CUstream handle, int* out), (per_thread(handle), out))
X(cuStreamGetId, _ptsz, (CUstream handle, unsigned long long* out), (per_thread(handle), out))
X(cuStreamGetDevice, _ptsz, (CUstream handle, CUdevice* out), (per_thread(handle), out))
X(cuStreamGetCtx, _ptsz, (CUstream handle, CUcontext* out), (per_thread(handle), out))
X(cuStreamGetAttribute, _ptsz, (CUstream handle, int a0, void* value), (per_thread(handle), a0, value))
X(cuStreamSetAttribute, _ptsz, (CUstream handle, int a0, const void* value), (per_thread(handle), a0, value))
X(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from), (per_thread(to), per_thread(from)))
X(cuStreamAttachMemAsync, _ptsz, (CUstream handle, CUdeviceptr a0, std::size_t a1, unsigned a2),
  (per_thread(handle), a0, a1, a2))
X(cuStreamWaitEvent, _ptsz, (CUstream handle, CUevent event, unsigned a0), (per_thread(handle), event, a0))
X(cuLaunchHostFunc, _ptsz, (CUstream handle, CUhostFn fn, void* data), (per_thread(handle), fn, data))
X(cuStreamAddCallback, _ptsz, (CUstream handle, CUstreamCallback fn, void* data, unsigned a0),
  (per_thread(handle), fn, data, a0))
X(cuEventRecordWithFlags, _ptsz, (CUevent handle, CUstream stream, unsigned flags),
  (handle, per_thread(stream), flags))
X(cuEventRecord, _ptsz, (CUevent handle, CUstream stream), (handle, per_thread(stream)))
X(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * out, std::size_t bytes, CUmemoryPool pool, CUstream stream),
  (out, bytes, pool, per_thread(stream)))
X(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, std::size_t bytes, CUstream stream),
  (out, bytes, per_thread(stream)))
X(cuMemFreeAsync, _ptsz, (CUdeviceptr p, CUstream stream), (p, per_thread(stream)))
X(cuStreamWriteValue32_v2, _ptsz, (CUstream s, CUdeviceptr to, std::uint32_t value, unsigned a0),
  (per_thread(s), to, value, a0))
X(cuStreamWriteValue64_v2, _ptsz, (CUstream s, CUdeviceptr to, std::uint64_t value, unsigned a0),
  (per_thread(s), to, value, a0))
X(cuStreamWaitValue32_v2, _ptsz, (CUstream a0, CUdeviceptr at, std::uint32_t value, unsigned flags),
  (per_thread(a0), at, value, flags))
X(cuStreamWaitValue64_v2, _ptsz, (CUstream a0, CUdeviceptr at, std::uint64_t value, unsigned flags),
  (per_thread(a0), at, value, flags))
X(cuStreamBeginCapture_v2, _ptsz, (CUstream s, int mode), (per_thread(s), mode))
X(cuStreamBeginCaptureToGraph, _ptsz,
  (CUstream s, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* a0, std::size_t count,
   int mode),
  (per_thread(s), graph, nodes, a0, count, mode))
X(cuStreamEndCapture, _ptsz, (CUstream s, CUgraph* out), (per_thread(s), out))
X(cuStreamIsCapturing, _ptsz, (CUstream s, int* status), (per_thread(s), status))
X(cuStreamGetCaptureInfo_v2, _ptsz,
  (CUstream s, int* status, std::uint64_t* id, CUgraph* graph, const CUgraphNode** nodes, std::size_t* count),
  (per_thread(s), status, id, graph, nodes, count))
X(cuStreamGetCaptureInfo_v3, _ptsz,
  (CUstream s, int* status, std::uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
   const CUgraphEdgeData** edges, std::size_t* count),
  (per_thread(s), status, id, graph, nodes, edges, count))
X(cuStreamUpdateCaptureDependencies, _ptsz,
  (CUstream s, CUgraphNode* nodes, std::size_t count, unsigned flags), (per_thread(s), nodes, count, flags))
X(cuStreamUpdateCaptureDependencies_v2, _ptsz,
  (CUstream s, CUgraphNode* nodes, const CUgraphEdgeData* a0, std::size_t count, unsigned flags),
  (per_thread(s), nodes, a0, count, flags))
X(cuLaunchKernelEx, _ptsz, (const CUlaunchConfig* config, CUfunction f, void** params, void** extra),
  (config, f, params, extra))
X(cuLaunchKernel, _ptsz,
  (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
   unsigned shared, CUstream stream, void** params, void** extra),
  (f, gx, gy, gz, bx, by, bz, shared, per_thread(stream), params, extra))
X(cuLaunchCooperativeKernel, _ptsz,
  (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
   unsigned shared, CUstream stream, void** params),
  (f, gx, gy, gz, bx, by, bz, shared, per_thread(stream), params))
X(cuGraphInstantiateWithParams, _ptsz, (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p),
  (out, graph, p))
X(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream a0), (exec, per_thread(a0)))
X(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, per_thread(stream)))
#undef X
// NOLINTEND(readability-identifier-naming)
