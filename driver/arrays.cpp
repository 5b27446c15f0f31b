// CUDA arrays and mipmap chains, and the texture and surface objects over them. Texels are in rows of the device's
// memory, so that copies, and what was never written, are known as they are of other memory.
#include <algorithm>
#include <cstring>

#include "driver/api.hpp"
#include "driver/state.hpp"

namespace kiln::driver {
namespace {

constexpr unsigned kLayered = 1, kCube = 4;
constexpr unsigned kReadAsInteger = 1, kNormalized = 2, kSrgb = 16;
enum Resource : unsigned { array_resource, mipmap_resource, linear_resource, pitched_resource };

std::size_t texel_bytes(unsigned format, unsigned channels) {
  require(channels == 1 || channels == 2 || channels == 4);
  try {
    return em::channel_bytes(static_cast<em::ChannelFormat>(format)) * channels;
  } catch (const em::Error&) {
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};  // planar, compressed and packed formats
  }
}

em::ImageShape shape_of(const CUDA_ARRAY3D_DESCRIPTOR& s) {
  const bool layered = (s.Flags & kLayered) != 0;
  if ((s.Flags & kCube) != 0) return layered ? em::ImageShape::cube_layered : em::ImageShape::cube;
  if (s.Height == 0) return layered ? em::ImageShape::one_layered : em::ImageShape::one;
  if (layered) return em::ImageShape::two_layered;
  return s.Depth == 0 ? em::ImageShape::two : em::ImageShape::three;
}

/// Level `level` of what the shape describes, in memory of its own.
std::unique_ptr<Array> make_array(Driver& d, CUDA_ARRAY3D_DESCRIPTOR s, unsigned level) {
  constexpr std::size_t kRow = 32;
  const std::size_t texel = texel_bytes(s.Format, s.NumChannels);
  require(s.Width != 0 && s.Width < (1u << 28) && s.Height < (1u << 20) && s.Depth < (1u << 20));
  require((s.Flags & kCube) == 0 || (s.Width == s.Height && s.Depth % 6 == 0 && s.Depth != 0));
  const bool layers = (s.Flags & (kLayered | kCube)) != 0;
  const auto halved = [&](std::size_t n) { return n == 0 ? n : std::max<std::size_t>(1, n >> level); };
  s.Width = halved(s.Width);
  s.Height = halved(s.Height);
  if (!layers) s.Depth = halved(s.Depth);
  auto out = std::make_unique<Array>();
  out->shape = s;
  em::ImageLevel& l = out->level;
  l.width = static_cast<std::uint32_t>(s.Width);
  l.height = static_cast<std::uint32_t>(std::max<std::size_t>(1, s.Height));
  l.depth = static_cast<std::uint32_t>(std::max<std::size_t>(1, s.Depth));
  l.row_pitch = (s.Width * texel + kRow - 1) / kRow * kRow;
  l.slice_pitch = l.row_pitch * l.height;
  l.address = d.allocate(l.slice_pitch * l.depth, Block::Kind::device);
  return out;
}

em::Image image_of(const Array& a) {
  em::Image out;
  out.shape = shape_of(a.shape);
  out.format = static_cast<em::ChannelFormat>(a.shape.Format);
  out.channels = a.shape.NumChannels;
  out.levels = {a.level};
  return out;
}

em::Image image_of(Driver& d, const CUDA_RESOURCE_DESC& r) {
  em::Image out;
  switch (r.resType) {
    case array_resource:
      return image_of(array_of(d, r.res.array.hArray));
    case mipmap_resource: {
      const Mipmaps& chain = d.mipmaps.get(r.res.mipmap.hMipmappedArray);
      out = image_of(*chain.levels.front());
      out.levels.clear();
      for (const auto& one : chain.levels) out.levels.push_back(one->level);
      return out;
    }
    case linear_resource: {
      const auto& l = r.res.linear;
      const std::size_t n = l.sizeInBytes / texel_bytes(l.format, l.numChannels);
      require(n != 0 && n < (std::size_t{1} << 32));
      out.shape = em::ImageShape::linear;
      out.format = static_cast<em::ChannelFormat>(l.format);
      out.channels = l.numChannels;
      out.levels = {{l.devPtr, static_cast<std::uint32_t>(n), 1, 1, l.sizeInBytes, l.sizeInBytes}};
      return out;
    }
    case pitched_resource: {
      const auto& p = r.res.pitch2D;
      require(p.width < (std::size_t{1} << 32) && p.height < (std::size_t{1} << 32));
      out.shape = em::ImageShape::two;
      out.format = static_cast<em::ChannelFormat>(p.format);
      out.channels = p.numChannels;
      out.levels = {{p.devPtr, static_cast<std::uint32_t>(p.width), static_cast<std::uint32_t>(p.height), 1,
                     p.pitchInBytes, p.pitchInBytes * p.height}};
      return out;
    }
    default:
      throw Failure{CUDA_ERROR_INVALID_VALUE};
  }
}

/// Another look at the texels: other formats of the same size, some of the levels and layers.
void view(Driver& d, em::Image& image, const CUDA_RESOURCE_VIEW_DESC& v) {
  constexpr em::ChannelFormat kFormats[] = {
      em::ChannelFormat::u8,  em::ChannelFormat::s8,  em::ChannelFormat::u16, em::ChannelFormat::s16,
      em::ChannelFormat::u32, em::ChannelFormat::s32, em::ChannelFormat::f16, em::ChannelFormat::f32};
  if (v.format > 24) {
    d.report.unsupported("cuTexObjectCreate", "block-compressed formats of a resource view");
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
  if (v.format != 0) {
    const std::size_t before = em::channel_bytes(image.format) * image.channels;
    image.format = kFormats[(v.format - 1) / 3];
    image.channels = 1u << (v.format - 1) % 3;
    require(em::channel_bytes(image.format) * image.channels == before);
  }
  require(v.firstMipmapLevel <= v.lastMipmapLevel && v.lastMipmapLevel < image.levels.size());
  image.levels = {image.levels.begin() + v.firstMipmapLevel, image.levels.begin() + v.lastMipmapLevel + 1};
  if (v.lastLayer == 0) return;
  require(v.firstLayer <= v.lastLayer && v.lastLayer < image.levels.front().depth);
  for (em::ImageLevel& l : image.levels) {
    l.address += v.firstLayer * l.slice_pitch;
    l.depth = v.lastLayer - v.firstLayer + 1;
  }
}

em::Sampler sampler_of(const CUDA_TEXTURE_DESC& t, const em::Image& image) {
  em::Sampler s;
  for (int i = 0; i < 3; ++i) {
    require(t.addressMode[i] <= 3);
    s.address[static_cast<std::size_t>(i)] = static_cast<em::AddressMode>(t.addressMode[i]);
  }
  require(t.filterMode <= 1 && t.mipmapFilterMode <= 1);
  s.filter = static_cast<em::FilterMode>(t.filterMode);
  s.mipmap_filter = static_cast<em::FilterMode>(t.mipmapFilterMode);
  s.normalized_coordinates = (t.flags & kNormalized) != 0;
  const bool integers = image.format != em::ChannelFormat::f16 && image.format != em::ChannelFormat::f32;
  s.normalized_float = integers && em::channel_bytes(image.format) < 4 && (t.flags & kReadAsInteger) == 0;
  s.srgb = (t.flags & kSrgb) != 0;
  std::copy_n(t.borderColor, 4, s.border.begin());
  s.mipmap_bias = t.mipmapLevelBias;
  s.min_mipmap_level = t.minMipmapLevelClamp;
  s.max_mipmap_level = t.maxMipmapLevelClamp;
  return s;
}

CUDA_ARRAY3D_DESCRIPTOR widened(const CUDA_ARRAY_DESCRIPTOR& s) {
  return {s.Width, s.Height, 0, s.Format, s.NumChannels, 0};
}

}  // namespace

Array& array_of(Driver& d, CUarray handle) {
  if (d.arrays.has(handle)) return *handle;
  for (const auto& [key, chain] : d.mipmaps)
    for (const auto& level : chain->levels)
      if (level.get() == handle) return *handle;
  throw Failure{CUDA_ERROR_INVALID_HANDLE};
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  return on_device([&](Driver& d) {
    require(out != nullptr && shape != nullptr);
    *out = d.arrays.make(*make_array(d, *shape, 0));
  });
}
KILN_API CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape) {
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR wide = widened(*shape);
  return cuArray3DCreate_v2(out, &wide);
}
KILN_API CUresult cuArrayDestroy(CUarray handle) {
  return on_device([&](Driver& d) { d.release(d.arrays.take(handle)->level.address); });
}
KILN_API CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  return on_device([&](Driver& d) { *out = array_of(d, handle).shape; });
}
KILN_API CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  return on_device([&](Driver& d) {
    const CUDA_ARRAY3D_DESCRIPTOR& s = array_of(d, handle).shape;
    *out = {s.Width, s.Height, s.Format, s.NumChannels};
  });
}
KILN_API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                         unsigned levels) {
  return on_device([&](Driver& d) {
    require(out != nullptr && shape != nullptr && levels >= 1);
    Mipmaps* const chain = d.mipmaps.make();
    const bool layers = (shape->Flags & (kLayered | kCube)) != 0;
    const std::size_t longest = std::max({shape->Width, shape->Height, layers ? 1 : shape->Depth});
    for (unsigned i = 0; i < levels && (i == 0 || longest >> i != 0); ++i) {
      chain->levels.push_back(make_array(d, *shape, i));
      chain->levels.back()->chain = chain;
    }
    *out = chain;
  });
}
KILN_API CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  return on_device([&](Driver& d) {
    for (const auto& level : d.mipmaps.take(handle)->levels) d.release(level->level.address);
  });
}
KILN_API CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned level) {
  return on_device([&](Driver& d) {
    const Mipmaps& chain = d.mipmaps.get(handle);
    require(out != nullptr && level < chain.levels.size());
    *out = chain.levels[level].get();
  });
}

KILN_API CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                                    const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* look) {
  return on_device([&](Driver& d) {
    require(out != nullptr && resource != nullptr && texture != nullptr);
    em::Texture t;
    t.image = image_of(d, *resource);
    if (look != nullptr) view(d, t.image, *look);
    t.sampler = sampler_of(*texture, t.image);
    *out = em::create_texture(d.memory, t);
    d.textures[*out] = {*resource, *texture, look == nullptr ? CUDA_RESOURCE_VIEW_DESC{} : *look};
  });
}
KILN_API CUresult cuTexObjectDestroy(CUtexObject handle) {
  return on_device([&](Driver& d) {
    require(d.textures.erase(handle) == 1);
    em::destroy_texture(d.memory, handle);
  });
}
KILN_API CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return on_device([&](Driver& d) {
    require(d.textures.count(handle) != 0);
    *out = d.textures.at(handle).resource;
  });
}
KILN_API CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  return on_device([&](Driver& d) {
    require(d.textures.count(handle) != 0);
    *out = d.textures.at(handle).texture;
  });
}
KILN_API CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  return on_device([&](Driver& d) {
    require(d.textures.count(handle) != 0);
    *out = d.textures.at(handle).view;
  });
}
KILN_API CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  return on_device([&](Driver& d) {
    require(out != nullptr && resource != nullptr && resource->resType == array_resource);
    *out = em::create_surface(d.memory, image_of(d, *resource));
    d.surfaces[*out] = *resource;
  });
}
KILN_API CUresult cuSurfObjectDestroy(CUsurfObject handle) {
  return on_device([&](Driver& d) {
    require(d.surfaces.erase(handle) == 1);
    em::destroy_surface(d.memory, handle);
  });
}
KILN_API CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  return on_device([&](Driver& d) {
    require(d.surfaces.count(handle) != 0);
    *out = d.surfaces.at(handle);
  });
}

namespace {

/// A copy of bytes of an array's row, or to it.
CUDA_MEMCPY3D row_copy(CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset,
                       CUdeviceptr memory, std::size_t bytes) {
  CUDA_MEMCPY3D c = copy_1d(memory, memory, bytes);
  if (to != nullptr) {
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = to;
    c.dstXInBytes = to_offset;
  }
  if (from != nullptr) {
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = from;
    c.srcXInBytes = from_offset;
  }
  return c;
}

}  // namespace

KILN_API CUresult cuMemcpyHtoA_v2(CUarray to, std::size_t offset, const void* from, std::size_t n) {
  const CUDA_MEMCPY3D c = row_copy(to, offset, nullptr, 0, address_of(from), n);
  return cuMemcpy3D_v2(&c);
}
KILN_API CUresult cuMemcpyAtoH_v2(void* to, CUarray from, std::size_t offset, std::size_t n) {
  const CUDA_MEMCPY3D c = row_copy(nullptr, 0, from, offset, address_of(to), n);
  return cuMemcpy3D_v2(&c);
}
KILN_API CUresult cuMemcpyDtoA_v2(CUarray to, std::size_t offset, CUdeviceptr from, std::size_t n) {
  const CUDA_MEMCPY3D c = row_copy(to, offset, nullptr, 0, from, n);
  return cuMemcpy3D_v2(&c);
}
KILN_API CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, std::size_t offset, std::size_t n) {
  const CUDA_MEMCPY3D c = row_copy(nullptr, 0, from, offset, to, n);
  return cuMemcpy3D_v2(&c);
}
KILN_API CUresult cuMemcpyAtoA_v2(CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset,
                                  std::size_t n) {
  const CUDA_MEMCPY3D c = row_copy(to, to_offset, from, from_offset, 0, n);
  return cuMemcpy3D_v2(&c);
}
KILN_API CUresult cuMemcpyHtoAAsync_v2(CUarray to, std::size_t offset, const void* from, std::size_t n,
                                       CUstream stream) {
  const CUDA_MEMCPY3D c = row_copy(to, offset, nullptr, 0, address_of(from), n);
  return cuMemcpy3DAsync_v2(&c, stream);
}
KILN_API CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, std::size_t offset, std::size_t n,
                                       CUstream stream) {
  const CUDA_MEMCPY3D c = row_copy(nullptr, 0, from, offset, address_of(to), n);
  return cuMemcpy3DAsync_v2(&c, stream);
}
