// Arrays, mipmap chains, textures and surfaces. Positions and widths of the runtime count texels of arrays.
#include <cstring>

#include "driver/runtime/convert.hpp"

namespace kiln::runtime_stand_in {
namespace {

constexpr int kSigned = 0, kUnsigned = 1, kFloat = 2;

/// Bits of the channels to the driver's format and number of channels.
int driver_format(const cudaChannelFormatDesc& c, unsigned* format, unsigned* channels) {
  const int bits[] = {c.x, c.y, c.z, c.w};
  *channels = 0;
  while (*channels < 4 && bits[*channels] != 0) ++*channels;
  for (unsigned i = 1; i < *channels; ++i)
    if (bits[i] != c.x) return kInvalidChannelDescriptor;
  const int log = c.x == 8 ? 0 : c.x == 16 ? 1 : c.x == 32 ? 2 : -1;
  if (log < 0) return kInvalidChannelDescriptor;
  if (c.f == kUnsigned) *format = 1u + static_cast<unsigned>(log);
  if (c.f == kSigned) *format = 8u + static_cast<unsigned>(log);
  if (c.f == kFloat) *format = c.x == 16 ? 0x10u : 0x20u;
  return c.f > kFloat || (c.f == kFloat && c.x == 8) ? kInvalidChannelDescriptor : CUDA_SUCCESS;
}

cudaChannelFormatDesc runtime_format(unsigned format, unsigned channels) {
  const int bits = (format & 3) == 1 || format == 8               ? 8
                   : format == 2 || format == 9 || format == 0x10 ? 16
                                                                  : 32;
  const auto of = [&](unsigned i) { return i < channels ? bits : 0; };
  const int kind = format >= 0x10 ? kFloat : format >= 8 ? kSigned : kUnsigned;
  return {of(0), of(1), of(2), of(3), kind};
}

int resource(const cudaResourceDesc& r, CUDA_RESOURCE_DESC* out) {
  *out = {};
  out->resType = r.resType;
  switch (r.resType) {
    case 0:
      out->res.array.hArray = r.res.array.array;
      return CUDA_SUCCESS;
    case 1:
      out->res.mipmap.hMipmappedArray = r.res.mipmap.mipmap;
      return CUDA_SUCCESS;
    case 2: {
      auto& l = out->res.linear;
      l.devPtr = at(r.res.linear.devPtr);
      l.sizeInBytes = r.res.linear.sizeInBytes;
      return driver_format(r.res.linear.desc, &l.format, &l.numChannels);
    }
    case 3: {
      auto& p = out->res.pitch2D;
      p.devPtr = at(r.res.pitch2D.devPtr);
      p.width = r.res.pitch2D.width;
      p.height = r.res.pitch2D.height;
      p.pitchInBytes = r.res.pitch2D.pitchInBytes;
      return driver_format(r.res.pitch2D.desc, &p.format, &p.numChannels);
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUDA_TEXTURE_DESC texture(const cudaTextureDesc& t) {
  CUDA_TEXTURE_DESC out{};
  std::memcpy(out.addressMode, t.addressMode, sizeof out.addressMode);
  out.filterMode = t.filterMode;
  out.flags = (t.readMode == 0 ? 1u : 0u) | (t.normalizedCoords != 0 ? 2u : 0u) | (t.sRGB != 0 ? 16u : 0u);
  out.maxAnisotropy = t.maxAnisotropy;
  out.mipmapFilterMode = t.mipmapFilterMode;
  out.mipmapLevelBias = t.mipmapLevelBias;
  out.minMipmapLevelClamp = t.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = t.maxMipmapLevelClamp;
  std::memcpy(out.borderColor, t.borderColor, sizeof out.borderColor);
  return out;
}

int shape_of(const cudaChannelFormatDesc* format, const cudaExtent& e, unsigned flags,
             CUDA_ARRAY3D_DESCRIPTOR* out) {
  if (format == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {e.width, e.height, e.depth, 0, 0, flags};
  return driver_format(*format, &out->Format, &out->NumChannels);
}

/// Rows of an array and of memory; the offsets and the width are bytes.
CUDA_MEMCPY3D rows(CUarray to, std::size_t to_x, std::size_t to_y, CUarray from, std::size_t from_x,
                   std::size_t from_y, const void* memory, std::size_t pitch, std::size_t width,
                   std::size_t height) {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = from != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.dstMemoryType = to != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  c.srcArray = from;
  c.dstArray = to;
  c.srcDevice = c.dstDevice = at(memory);
  c.srcPitch = c.dstPitch = pitch;
  c.srcXInBytes = from_x;
  c.srcY = from_y;
  c.dstXInBytes = to_x;
  c.dstY = to_y;
  c.WidthInBytes = width;
  c.Height = height;
  c.Depth = 1;
  return c;
}
cudaError_t copy(const CUDA_MEMCPY3D& c) {
  return call([&] { return cuMemcpy3D_v2(&c); });
}
cudaError_t copy(const CUDA_MEMCPY3D& c, cudaStream_t stream) {
  return call([&] { return cuMemcpy3DAsync_v2(&c, stream); });
}

/// Bytes that run from row to row of an array, as the functions without a width have them.
template <class F>
cudaError_t run_of_rows(CUarray array, std::size_t x, std::size_t y, std::size_t bytes, const F& row) {
  return call([&]() -> int {
    const std::size_t width = array_width(array);
    if (width == 0 || x >= width) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t done = 0; done < bytes; ++y, x = 0) {
      const std::size_t n = bytes - done < width - x ? bytes - done : width - x;
      if (const int result = row(done, x, y, n); result != CUDA_SUCCESS) return result;
      done += n;
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace

std::size_t texel_bytes(CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  if (cuArray3DGetDescriptor_v2(&shape, array) != CUDA_SUCCESS) return 1;
  const cudaChannelFormatDesc c = runtime_format(shape.Format, shape.NumChannels);
  return static_cast<std::size_t>(c.x / 8) * shape.NumChannels;
}

std::size_t array_width(CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  return cuArray3DGetDescriptor_v2(&shape, array) == CUDA_SUCCESS ? shape.Width * texel_bytes(array) : 0;
}

}  // namespace kiln::runtime_stand_in

using namespace kiln::runtime_stand_in;  // NOLINT(google-build-using-namespace)

KILN_API cudaError_t cudaMalloc3DArray(CUarray* out, const cudaChannelFormatDesc* format, cudaExtent extent,
                                       unsigned flags) {
  return call([&] {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    const int result = shape_of(format, extent, flags, &shape);
    return result != CUDA_SUCCESS ? result : cuArray3DCreate_v2(out, &shape);
  });
}
KILN_API cudaError_t cudaMallocArray(CUarray* out, const cudaChannelFormatDesc* format, std::size_t width,
                                     std::size_t height, unsigned flags) {
  return cudaMalloc3DArray(out, format, {width, height, 0}, flags);
}
KILN_API cudaError_t cudaFreeArray(CUarray array) {
  return call([&] { return array == nullptr ? CUDA_SUCCESS : cuArrayDestroy(array); });
}
KILN_API cudaError_t cudaMallocMipmappedArray(CUmipmappedArray* out, const cudaChannelFormatDesc* format,
                                              cudaExtent extent, unsigned levels, unsigned flags) {
  return call([&] {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    const int result = shape_of(format, extent, flags, &shape);
    return result != CUDA_SUCCESS ? result : cuMipmappedArrayCreate(out, &shape, levels);
  });
}
KILN_API cudaError_t cudaFreeMipmappedArray(CUmipmappedArray chain) {
  return call([&] { return chain == nullptr ? CUDA_SUCCESS : cuMipmappedArrayDestroy(chain); });
}
KILN_API cudaError_t cudaGetMipmappedArrayLevel(CUarray* out, CUmipmappedArray chain, unsigned level) {
  return call([&] { return cuMipmappedArrayGetLevel(out, chain, level); });
}
KILN_API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags,
                                      CUarray array) {
  return call([&] {
    CUDA_ARRAY3D_DESCRIPTOR s{};
    const int result = cuArray3DGetDescriptor_v2(&s, array);
    if (format != nullptr) *format = runtime_format(s.Format, s.NumChannels);
    if (extent != nullptr) *extent = {s.Width, s.Height, s.Depth};
    if (flags != nullptr) *flags = s.Flags;
    return result;
  });
}
KILN_API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* out, CUarray array) {
  return cudaArrayGetInfo(out, nullptr, nullptr, array);
}
KILN_API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}

KILN_API cudaError_t cudaMemcpy2DToArray(CUarray to, std::size_t x, std::size_t y, const void* from,
                                         std::size_t pitch, std::size_t width, std::size_t height, int) {
  return copy(rows(to, x, y, nullptr, 0, 0, from, pitch, width, height));
}
KILN_API cudaError_t cudaMemcpy2DToArrayAsync(CUarray to, std::size_t x, std::size_t y, const void* from,
                                              std::size_t pitch, std::size_t width, std::size_t height, int,
                                              cudaStream_t stream) {
  return copy(rows(to, x, y, nullptr, 0, 0, from, pitch, width, height), stream);
}
KILN_API cudaError_t cudaMemcpy2DFromArray(void* to, std::size_t pitch, CUarray from, std::size_t x,
                                           std::size_t y, std::size_t width, std::size_t height, int) {
  return copy(rows(nullptr, 0, 0, from, x, y, to, pitch, width, height));
}
KILN_API cudaError_t cudaMemcpy2DFromArrayAsync(void* to, std::size_t pitch, CUarray from, std::size_t x,
                                                std::size_t y, std::size_t width, std::size_t height, int,
                                                cudaStream_t stream) {
  return copy(rows(nullptr, 0, 0, from, x, y, to, pitch, width, height), stream);
}
KILN_API cudaError_t cudaMemcpy2DArrayToArray(CUarray to, std::size_t to_x, std::size_t to_y, CUarray from,
                                              std::size_t from_x, std::size_t from_y, std::size_t width,
                                              std::size_t height, int) {
  return copy(rows(to, to_x, to_y, from, from_x, from_y, nullptr, 0, width, height));
}
KILN_API cudaError_t cudaMemcpyToArray(CUarray to, std::size_t x, std::size_t y, const void* from,
                                       std::size_t bytes, int) {
  return run_of_rows(to, x, y, bytes,
                     [&](std::size_t done, std::size_t at_x, std::size_t row, std::size_t n) {
                       const CUDA_MEMCPY3D c =
                           rows(to, at_x, row, nullptr, 0, 0, static_cast<const char*>(from) + done, 0, n, 1);
                       return cuMemcpy3D_v2(&c);
                     });
}
KILN_API cudaError_t cudaMemcpyFromArray(void* to, CUarray from, std::size_t x, std::size_t y,
                                         std::size_t bytes, int) {
  return run_of_rows(
      from, x, y, bytes, [&](std::size_t done, std::size_t at_x, std::size_t row, std::size_t n) {
        const CUDA_MEMCPY3D c = rows(nullptr, 0, 0, from, at_x, row, static_cast<char*>(to) + done, 0, n, 1);
        return cuMemcpy3D_v2(&c);
      });
}

KILN_API cudaError_t cudaCreateTextureObject(CUtexObject* out, const cudaResourceDesc* r,
                                             const cudaTextureDesc* t, const CUDA_RESOURCE_VIEW_DESC* view) {
  return call([&]() -> int {
    if (r == nullptr || t == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC from{};
    if (const int result = resource(*r, &from); result != CUDA_SUCCESS) return result;
    const CUDA_TEXTURE_DESC how = texture(*t);
    return cuTexObjectCreate(out, &from, &how, view);
  });
}
KILN_API cudaError_t cudaDestroyTextureObject(CUtexObject object) {
  return call([&] { return object == 0 ? CUDA_SUCCESS : cuTexObjectDestroy(object); });
}
KILN_API cudaError_t cudaCreateSurfaceObject(CUsurfObject* out, const cudaResourceDesc* r) {
  return call([&]() -> int {
    if (r == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC from{};
    const int result = resource(*r, &from);
    return result != CUDA_SUCCESS ? result : cuSurfObjectCreate(out, &from);
  });
}
KILN_API cudaError_t cudaDestroySurfaceObject(CUsurfObject object) {
  return call([&] { return object == 0 ? CUDA_SUCCESS : cuSurfObjectDestroy(object); });
}
