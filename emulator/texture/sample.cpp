#include "emulator/texture/sample.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator {
namespace {

/// Up to two places along an axis.
struct Axis {
  int count = 1;
  std::uint32_t at[2] = {};
  bool border[2] = {};
  float weight[2] = {1, 0};
};

/// A texel's index, any integer, under the address mode.
std::uint32_t address(std::int64_t i, std::uint32_t size, AddressMode mode, bool& border) {
  const auto n = static_cast<std::int64_t>(size);
  if (i >= 0 && i < n) return static_cast<std::uint32_t>(i);
  switch (mode) {
    case AddressMode::wrap:
      return static_cast<std::uint32_t>((i % n + n) % n);
    case AddressMode::mirror: {
      const std::int64_t m = (i % (2 * n) + 2 * n) % (2 * n);
      return static_cast<std::uint32_t>(m < n ? m : 2 * n - 1 - m);
    }
    case AddressMode::border:
      border = true;
      return 0;
    default:
      return i < 0 ? 0 : size - 1;
  }
}

Axis resolve(double u, std::uint32_t size, AddressMode mode, bool linear, std::int64_t offset) {
  constexpr double kFar = 1 << 30;
  u = std::isnan(u) ? 0 : std::clamp(u, -kFar, kFar);
  Axis a;
  if (!linear) {
    a.at[0] = address(static_cast<std::int64_t>(std::floor(u)) + offset, size, mode, a.border[0]);
    return a;
  }
  // The fraction has 8 bits.
  const double fixed = std::floor((u - 0.5) * 256 + 0.5) / 256, first = std::floor(fixed);
  a.weight[1] = static_cast<float>(fixed - first);
  a.weight[0] = 1 - a.weight[1];
  a.count = 2;
  for (int i = 0; i < 2; ++i)
    a.at[i] = address(static_cast<std::int64_t>(first) + i + offset, size, mode, a.border[i]);
  return a;
}

bool layered(ImageShape s) {
  return s == ImageShape::one_layered || s == ImageShape::two_layered || s == ImageShape::cube_layered;
}
bool cube(ImageShape s) {
  return s == ImageShape::cube || s == ImageShape::cube_layered;
}
std::uint32_t extent(const ImageLevel& l, int axis) {
  return axis == 0 ? l.width : axis == 1 ? l.height : l.depth;
}

/// What a level's dimensions say of the coordinates, `always_two`: with two places an axis, for tld4.
std::array<Axis, 3> axes_of(const Image& image, const Sampler& sampler, const TextureCoordinates& c,
                            std::uint32_t level, bool linear) {
  const ImageLevel& l = image.levels[level];
  std::array<float, 3> at = c.at;
  std::uint32_t z = layered(image.shape) ? c.layer : 0;
  if (cube(image.shape)) z = 6 * std::min(z, l.depth / 6 - 1) + cube_face(c.at, at);
  std::array<Axis, 3> axes;
  const int dimensions = dimensions_of(image.shape);
  for (int i = 0; i < dimensions; ++i) {
    const std::uint32_t size = extent(l, i);
    const auto k = static_cast<std::size_t>(i);
    const bool normalized = (sampler.normalized_coordinates || cube(image.shape)) && !c.integer;
    AddressMode mode = image.shape == ImageShape::linear ? AddressMode::border : sampler.address[k];
    // Wrapping and mirroring are of normalized coordinates alone.
    if (cube(image.shape) || (!normalized && (mode == AddressMode::wrap || mode == AddressMode::mirror)))
      mode = AddressMode::clamp;
    const double u = c.integer ? double{0} + c.texel[k] : normalized ? double{at[k]} * size : double{at[k]};
    axes[k] = resolve(u, size, mode, linear && !c.integer, c.offset[k]);
  }
  if (dimensions < 3) axes[2].at[0] = std::min(z, l.depth - 1);
  return axes;
}

void add(Footprint& f, const std::array<Axis, 3>& axes, std::uint32_t level, float share) {
  for (int k = 0; k < axes[2].count; ++k)
    for (int j = 0; j < axes[1].count; ++j)
      for (int i = 0; i < axes[0].count; ++i) {
        const float weight = axes[0].weight[i] * axes[1].weight[j] * axes[2].weight[k] * share;
        if (weight == 0) continue;
        f.texels[f.count++] = {level,
                               axes[0].at[i],
                               axes[1].at[j],
                               axes[2].at[k],
                               axes[0].border[i] || axes[1].border[j] || axes[2].border[k],
                               weight};
      }
}

float channel_as_float(ChannelFormat format, std::uint32_t raw, bool srgb) {
  switch (format) {
    case ChannelFormat::u8: {
      const float v = static_cast<float>(raw) / 255.f;
      return !srgb ? v : v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f);
    }
    case ChannelFormat::s8:
      return std::max(static_cast<float>(static_cast<std::int8_t>(raw)) / 127.f, -1.f);
    case ChannelFormat::u16:
      return static_cast<float>(raw) / 65535.f;
    case ChannelFormat::s16:
      return std::max(static_cast<float>(static_cast<std::int16_t>(raw)) / 32767.f, -1.f);
    case ChannelFormat::f16:
      return f16_to_f32(static_cast<std::uint16_t>(raw));
    default:
      return std::bit_cast<float>(raw);
  }
}

}  // namespace

int dimensions_of(ImageShape shape) {
  switch (shape) {
    case ImageShape::linear:
    case ImageShape::one:
    case ImageShape::one_layered:
      return 1;
    case ImageShape::three:
      return 3;
    default:
      return 2;
  }
}

std::uint32_t texel_bytes(const Image& image) {
  return channel_bytes(image.format) * image.channels;
}

std::uint64_t texel_address(const Image& image, const Footprint::Texel& t) {
  const ImageLevel& l = image.levels[t.level];
  return l.address + t.z * l.slice_pitch + t.y * l.row_pitch + std::uint64_t{t.x} * texel_bytes(image);
}

std::uint32_t cube_face(const std::array<float, 3>& v, std::array<float, 3>& on_face) {
  const float x = v[0], y = v[1], z = v[2], ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  std::uint32_t face = 0;
  float m = ax, s = 0, t = 0;
  if (ax >= ay && ax >= az) {
    face = x >= 0 ? 0 : 1;
    s = x >= 0 ? -z : z;
    t = -y;
  } else if (ay >= az) {
    face = y >= 0 ? 2 : 3;
    m = ay;
    s = x;
    t = y >= 0 ? z : -z;
  } else {
    face = z >= 0 ? 4 : 5;
    m = az;
    s = z >= 0 ? x : -x;
    t = -y;
  }
  on_face = {(s / m + 1) / 2, (t / m + 1) / 2, 0};
  return face;
}

float level_of_gradients(const Image& image, const Sampler& sampler, const std::array<float, 3>& dx,
                         const std::array<float, 3>& dy, int dimensions) {
  float longest = 0;
  for (const auto& d : {dx, dy}) {
    float square = 0;
    for (int i = 0; i < dimensions; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const float scale = sampler.normalized_coordinates || cube(image.shape)
                              ? static_cast<float>(extent(image.levels[0], cube(image.shape) ? 0 : i))
                              : 1.f;
      square += d[k] * scale * d[k] * scale;
    }
    longest = std::max(longest, std::sqrt(square));
  }
  return longest > 0 ? std::log2(longest) : 0;
}

Footprint texture_footprint(const Image& image, const Sampler& sampler, const TextureCoordinates& c) {
  Footprint f;
  const bool linear = sampler.filter == FilterMode::linear && image.shape != ImageShape::linear;
  const auto last = static_cast<float>(image.levels.size() - 1);
  float level = last == 0
                    ? 0
                    : std::clamp(std::clamp(c.level + sampler.mipmap_bias, sampler.min_mipmap_level,
                                            std::max(sampler.min_mipmap_level, sampler.max_mipmap_level)),
                                 0.f, last);
  if (std::isnan(level)) level = 0;
  if (sampler.mipmap_filter == FilterMode::point) {
    const auto nearest = static_cast<std::uint32_t>(std::min(std::floor(level + 0.5f), last));
    add(f, axes_of(image, sampler, c, nearest, linear), nearest, 1);
    return f;
  }
  const float fixed = std::floor(level * 256 + 0.5f) / 256, below = std::floor(fixed), share = fixed - below;
  const auto first = static_cast<std::uint32_t>(below);
  add(f, axes_of(image, sampler, c, first, linear), first, 1 - share);
  if (share > 0) add(f, axes_of(image, sampler, c, first + 1, linear), first + 1, share);
  return f;
}

Footprint gather_footprint(const Image& image, const Sampler& sampler, const TextureCoordinates& c) {
  Footprint f;
  const std::array<Axis, 3> axes = axes_of(image, sampler, c, 0, true);
  // (i, j+1), (i+1, j+1), (i+1, j), (i, j)
  static constexpr int kOrder[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  for (const auto& [i, j] : kOrder)
    f.texels[f.count++] = {
        0, axes[0].at[i], axes[1].at[j], axes[2].at[0], axes[0].border[i] || axes[1].border[j], 1};
  return f;
}

bool reads_floats(const Image& image, const Sampler& sampler) {
  const bool narrow = channel_bytes(image.format) < 4;
  return image.format == ChannelFormat::f16 || image.format == ChannelFormat::f32 ||
         (sampler.normalized_float && narrow);
}

std::array<std::uint32_t, 4> decode_texel(const Image& image, const Sampler& sampler,
                                          const std::uint8_t* bytes) {
  const bool floats = reads_floats(image, sampler);
  std::array<std::uint32_t, 4> out{0, 0, 0, floats ? std::bit_cast<std::uint32_t>(1.f) : 1u};
  const std::uint32_t size = channel_bytes(image.format);
  for (std::uint32_t i = 0; i < image.channels; ++i) {
    std::uint32_t raw = 0;
    std::memcpy(&raw, bytes + i * size, size);
    if (floats)
      raw = std::bit_cast<std::uint32_t>(channel_as_float(image.format, raw, sampler.srgb && i < 3));
    else if (image.format == ChannelFormat::s8)
      raw = static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int8_t>(raw)));
    else if (image.format == ChannelFormat::s16)
      raw = static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int16_t>(raw)));
    out[i] = raw;
  }
  return out;
}

std::array<std::uint32_t, 4> border_texel(const Image& image, const Sampler& sampler) {
  std::array<std::uint32_t, 4> out{};
  if (image.shape == ImageShape::linear) return out;
  const bool floats = reads_floats(image, sampler);
  for (std::size_t i = 0; i < 4; ++i)
    out[i] = floats ? std::bit_cast<std::uint32_t>(sampler.border[i])
                    : static_cast<std::uint32_t>(static_cast<std::int64_t>(sampler.border[i]));
  return out;
}

}  // namespace kiln::emulator
