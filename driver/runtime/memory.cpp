// Memory: allocation, copies, memset, symbols, pools, pointers.
#include <algorithm>
#include <cstring>

#include "driver/runtime/convert.hpp"

namespace kiln::runtime_stand_in {

CUdeviceptr at(const void* p) {
  return reinterpret_cast<CUdeviceptr>(p);
}

CUDA_MEMCPY3D copy_of(const cudaMemcpy3DParms& p) {
  // Positions count elements of arrays, else bytes; so does the width if there is an array.
  const std::size_t from_texel = p.srcArray != nullptr ? texel_bytes(p.srcArray) : 1;
  const std::size_t to_texel = p.dstArray != nullptr ? texel_bytes(p.dstArray) : 1;
  CUDA_MEMCPY3D c{};
  c.srcXInBytes = p.srcPos.x * from_texel;
  c.srcY = p.srcPos.y;
  c.srcZ = p.srcPos.z;
  c.srcMemoryType = p.srcArray != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.dstMemoryType = p.dstArray != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = at(p.srcPtr.ptr);
  c.srcArray = p.srcArray;
  c.srcPitch = p.srcPtr.pitch;
  c.srcHeight = p.srcPtr.ysize;
  c.dstXInBytes = p.dstPos.x * to_texel;
  c.dstY = p.dstPos.y;
  c.dstZ = p.dstPos.z;
  c.dstDevice = at(p.dstPtr.ptr);
  c.dstArray = p.dstArray;
  c.dstPitch = p.dstPtr.pitch;
  c.dstHeight = p.dstPtr.ysize;
  c.WidthInBytes = p.extent.width * (p.srcArray != nullptr ? from_texel : to_texel);
  c.Height = p.extent.height;
  c.Depth = p.extent.depth;
  return c;
}

cudaMemcpy3DParms parms_of(const CUDA_MEMCPY3D& c) {
  const auto pointer = [](CUdeviceptr p) { return reinterpret_cast<void*>(p); };
  return {c.srcArray,
          {c.srcXInBytes, c.srcY, c.srcZ},
          {pointer(c.srcDevice), c.srcPitch, c.WidthInBytes, c.srcHeight},
          c.dstArray,
          {c.dstXInBytes, c.dstY, c.dstZ},
          {pointer(c.dstDevice), c.dstPitch, c.WidthInBytes, c.dstHeight},
          {c.WidthInBytes, c.Height, c.Depth},
          4};
}

CUDA_MEMCPY3D copy_1d(const void* to, const void* from, std::size_t bytes) {
  cudaMemcpy3DParms p{};
  p.srcPtr.ptr = const_cast<void*>(from);
  p.dstPtr.ptr = const_cast<void*>(to);
  p.extent = {bytes, 1, 1};
  return copy_of(p);
}

int symbol_range(const void* symbol, std::size_t offset, std::size_t bytes, CUdeviceptr* address) {
  std::size_t size = 0;
  const int result = variable_of(symbol, address, &size);
  if (result != CUDA_SUCCESS) return result;
  *address += offset;
  return offset <= size && bytes <= size - offset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

namespace {

CUDA_MEMCPY2D copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                      std::size_t width, std::size_t height) {
  CUDA_MEMCPY2D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = at(from);
  c.srcPitch = from_pitch;
  c.dstDevice = at(to);
  c.dstPitch = to_pitch;
  c.WidthInBytes = width;
  c.Height = height;
  return c;
}

cudaError_t set_3d(const cudaPitchedPtr& p, int value, const cudaExtent& e, cudaStream_t stream, bool now) {
  return call([&] {
    for (std::size_t z = 0; z < e.depth; ++z) {
      const CUdeviceptr to = at(p.ptr) + z * p.pitch * p.ysize;
      const auto byte = static_cast<unsigned char>(value);
      const int result = now ? cuMemsetD2D8_v2(to, p.pitch, byte, e.width, e.height)
                             : cuMemsetD2D8Async(to, p.pitch, byte, e.width, e.height, stream);
      if (result != CUDA_SUCCESS) return result;
    }
    return static_cast<int>(CUDA_SUCCESS);
  });
}

}  // namespace
}  // namespace kiln::runtime_stand_in

using namespace kiln::runtime_stand_in;  // NOLINT(google-build-using-namespace)

KILN_API cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&] { return cuMemGetInfo_v2(free, total); });
}
KILN_API cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return call([&]() -> int {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(out), bytes);
  });
}
KILN_API cudaError_t cudaMallocManaged(void** out, std::size_t bytes, unsigned flags) {
  return call([&] { return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(out), bytes, flags); });
}
KILN_API cudaError_t cudaMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  return call(
      [&] { return cuMemAllocPitch_v2(reinterpret_cast<CUdeviceptr*>(out), pitch, width, height, 4); });
}
KILN_API cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent e) {
  out->xsize = e.width;
  out->ysize = e.height;
  return cudaMallocPitch(&out->ptr, &out->pitch, e.width, e.height * e.depth);
}
KILN_API cudaError_t cudaFree(void* p) {
  return call([&] { return cuMemFree_v2(at(p)); });
}
KILN_API cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  return call([&]() -> int {
    *out = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : cuMemHostAlloc(out, bytes, flags);
  });
}
KILN_API cudaError_t cudaMallocHost(void** out, std::size_t bytes) {
  return cudaHostAlloc(out, bytes, 0);
}
KILN_API cudaError_t cudaFreeHost(void* p) {
  return call([&] { return cuMemFreeHost(p); });
}
KILN_API cudaError_t cudaHostRegister(void* p, std::size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostRegister_v2(p, bytes, flags); });
}
KILN_API cudaError_t cudaHostUnregister(void* p) {
  return call([&] { return cuMemHostUnregister(p); });
}
KILN_API cudaError_t cudaHostGetDevicePointer(void** out, void* p, unsigned flags) {
  return call([&] { return cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(out), p, flags); });
}
KILN_API cudaError_t cudaHostGetFlags(unsigned* out, void* p) {
  return call([&] { return cuMemHostGetFlags(out, p); });
}
KILN_API cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t s) {
  return call([&] { return cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(out), bytes, s); });
}
KILN_API cudaError_t cudaMallocFromPoolAsync(void** out, std::size_t bytes, CUmemoryPool pool,
                                             cudaStream_t s) {
  return call([&] { return cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(out), bytes, pool, s); });
}
KILN_API cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  return call([&] { return cuMemFreeAsync(at(p), s); });
}

KILN_API cudaError_t cudaMemcpy(void* to, const void* from, std::size_t n, int) {
  return call([&] { return cuMemcpy(at(to), at(from), n); });
}
KILN_API cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, int, cudaStream_t s) {
  return call([&] { return cuMemcpyAsync(at(to), at(from), n, s); });
}
KILN_API cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t n) {
  return cudaMemcpy(to, from, n, 3);
}
KILN_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t n,
                                         cudaStream_t s) {
  return cudaMemcpyAsync(to, from, n, 3, s);
}
KILN_API cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                  std::size_t width, std::size_t height, int) {
  return call([&] {
    const CUDA_MEMCPY2D c = copy_2d(to, to_pitch, from, from_pitch, width, height);
    return cuMemcpy2DUnaligned_v2(&c);
  });
}
KILN_API cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                       std::size_t from_pitch, std::size_t width, std::size_t height, int,
                                       cudaStream_t s) {
  return call([&] {
    const CUDA_MEMCPY2D c = copy_2d(to, to_pitch, from, from_pitch, width, height);
    return cuMemcpy2DAsync_v2(&c, s);
  });
}
KILN_API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return call([&] {
    const CUDA_MEMCPY3D c = copy_of(*p);
    return cuMemcpy3D_v2(&c);
  });
}
KILN_API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t s) {
  return call([&] {
    const CUDA_MEMCPY3D c = copy_of(*p);
    return cuMemcpy3DAsync_v2(&c, s);
  });
}
KILN_API cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t s) {
  const cudaMemcpy3DParms same{p->srcArray, p->srcPos, p->srcPtr, p->dstArray,
                               p->dstPos,   p->dstPtr, p->extent, 4};
  return cudaMemcpy3DAsync(&same, s);
}
KILN_API cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  return cudaMemcpy3DPeerAsync(p, nullptr);
}
KILN_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t n,
                                        std::size_t offset, int) {
  return call([&] {
    CUdeviceptr to = 0;
    const int result = symbol_range(symbol, offset, n, &to);
    return result != CUDA_SUCCESS ? result : cuMemcpy(to, at(from), n);
  });
}
KILN_API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t n, std::size_t offset,
                                          int) {
  return call([&] {
    CUdeviceptr from = 0;
    const int result = symbol_range(symbol, offset, n, &from);
    return result != CUDA_SUCCESS ? result : cuMemcpy(at(to), from, n);
  });
}
KILN_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t n,
                                             std::size_t offset, int, cudaStream_t s) {
  return call([&] {
    CUdeviceptr to = 0;
    const int result = symbol_range(symbol, offset, n, &to);
    return result != CUDA_SUCCESS ? result : cuMemcpyAsync(to, at(from), n, s);
  });
}
KILN_API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t n,
                                               std::size_t offset, int, cudaStream_t s) {
  return call([&] {
    CUdeviceptr from = 0;
    const int result = symbol_range(symbol, offset, n, &from);
    return result != CUDA_SUCCESS ? result : cuMemcpyAsync(at(to), from, n, s);
  });
}
KILN_API cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  return call([&] { return variable_of(symbol, reinterpret_cast<CUdeviceptr*>(out), nullptr); });
}
KILN_API cudaError_t cudaGetSymbolSize(std::size_t* out, const void* symbol) {
  return call([&] {
    CUdeviceptr address = 0;
    return variable_of(symbol, &address, out);
  });
}

KILN_API cudaError_t cudaMemset(void* p, int value, std::size_t n) {
  return call([&] { return cuMemsetD8_v2(at(p), static_cast<unsigned char>(value), n); });
}
KILN_API cudaError_t cudaMemsetAsync(void* p, int value, std::size_t n, cudaStream_t s) {
  return call([&] { return cuMemsetD8Async(at(p), static_cast<unsigned char>(value), n, s); });
}
KILN_API cudaError_t cudaMemset2D(void* p, std::size_t pitch, int value, std::size_t w, std::size_t h) {
  return call([&] { return cuMemsetD2D8_v2(at(p), pitch, static_cast<unsigned char>(value), w, h); });
}
KILN_API cudaError_t cudaMemset2DAsync(void* p, std::size_t pitch, int value, std::size_t w, std::size_t h,
                                       cudaStream_t s) {
  return call([&] { return cuMemsetD2D8Async(at(p), pitch, static_cast<unsigned char>(value), w, h, s); });
}
KILN_API cudaError_t cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent e) {
  return set_3d(p, value, e, nullptr, true);
}
KILN_API cudaError_t cudaMemset3DAsync(cudaPitchedPtr p, int value, cudaExtent e, cudaStream_t s) {
  return set_3d(p, value, e, s, false);
}

KILN_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  return call([&] {
    *out = {};
    out->device = -2;
    out->hostPointer = const_cast<void*>(p);
    unsigned type = 0, managed = 0;
    if (cuPointerGetAttribute(&type, 2, at(p)) != CUDA_SUCCESS) return CUDA_SUCCESS;
    cuPointerGetAttribute(&managed, 8, at(p));
    cuPointerGetAttribute(&out->devicePointer, 3, at(p));
    if (cuPointerGetAttribute(&out->hostPointer, 4, at(p)) != CUDA_SUCCESS) out->hostPointer = nullptr;
    out->device = 0;
    out->type = managed != 0 ? 3 : static_cast<int>(type);
    return CUDA_SUCCESS;
  });
}
KILN_API cudaError_t cudaMemAdvise(const void*, std::size_t, int, CUmemLocation) {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaMemPrefetchAsync(const void* p, std::size_t n, CUmemLocation where, unsigned flags,
                                          cudaStream_t s) {
  return call([&] { return cuMemPrefetchAsync_v2(at(p), n, where, flags, s); });
}

KILN_API cudaError_t cudaDeviceGetDefaultMemPool(CUmemoryPool* out, int device) {
  return call([&] { return cuDeviceGetDefaultMemPool(out, device); });
}
KILN_API cudaError_t cudaDeviceGetMemPool(CUmemoryPool* out, int device) {
  return call([&] { return cuDeviceGetMemPool(out, device); });
}
KILN_API cudaError_t cudaDeviceSetMemPool(int device, CUmemoryPool pool) {
  return call([&] { return cuDeviceSetMemPool(device, pool); });
}
KILN_API cudaError_t cudaMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  return call([&] { return cuMemPoolCreate(out, properties); });
}
KILN_API cudaError_t cudaMemPoolDestroy(CUmemoryPool pool) {
  return call([&] { return cuMemPoolDestroy(pool); });
}
KILN_API cudaError_t cudaMemPoolTrimTo(CUmemoryPool, std::size_t) {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaMemPoolSetAccess(CUmemoryPool, const void*, std::size_t) {
  return CUDA_SUCCESS;
}
KILN_API cudaError_t cudaMemPoolGetAccess(int* out, CUmemoryPool pool, CUmemLocation* where) {
  return note(cuMemPoolGetAccess(out, pool, where));
}
KILN_API cudaError_t cudaMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return call([&] { return cuMemPoolSetAttribute(pool, attribute, value); });
}
KILN_API cudaError_t cudaMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return call([&] { return cuMemPoolGetAttribute(pool, attribute, value); });
}
