// Textures and surfaces of the emulated device. An image (a CUDA array, or linear memory bound to a texture) is a
// range of GlobalMemory with a shape; a texture is an image with a sampler, a surface an image alone. Kernels name
// them by a 64-bit handle, as cuTexObjectCreate returns it, or by a .texref, .surfref or .samplerref of the module.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <kiln/emulator/emulator.hpp>

namespace kiln::emulator {

/// Of one channel of a texel, numbered as CUarray_format.
enum class ChannelFormat : std::uint8_t {
  u8 = 0x01,
  u16 = 0x02,
  u32 = 0x03,
  s8 = 0x08,
  s16 = 0x09,
  s32 = 0x0a,
  f16 = 0x10,
  f32 = 0x20,
};
/// Bytes of a channel.
std::uint32_t channel_bytes(ChannelFormat format);

/// What the coordinates of an image mean. `linear` is memory by element (tex1Dfetch), without filtering.
enum class ImageShape : std::uint8_t {
  linear,
  one,
  two,
  three,
  one_layered,
  two_layered,
  cube,
  cube_layered
};

/// One level of a mipmap chain; images without one have a single level.
struct ImageLevel {
  std::uint64_t address = 0;
  /// In texels; 1 where the shape has no such dimension. `depth` counts the layers of layered shapes and the faces
  /// (6, or 6 a layer) of cubes.
  std::uint32_t width = 1, height = 1, depth = 1;
  std::uint64_t row_pitch = 0, slice_pitch = 0;  ///< bytes between rows, between slices, layers or faces
};

struct Image {
  ImageShape shape = ImageShape::two;
  ChannelFormat format = ChannelFormat::f32;
  std::uint32_t channels = 1;  ///< 1, 2 or 4
  std::vector<ImageLevel> levels = {};
};

/// Numbered as CUaddress_mode and CUfilter_mode.
enum class AddressMode : std::uint8_t { wrap, clamp, mirror, border };
enum class FilterMode : std::uint8_t { point, linear };

struct Sampler {
  std::array<AddressMode, 3> address{AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
  FilterMode filter = FilterMode::point, mipmap_filter = FilterMode::point;
  bool normalized_coordinates = false;
  bool normalized_float =
      false;          ///< 8- and 16-bit integers read as [0, 1] or [-1, 1] (no CU_TRSF_READ_AS_INTEGER)
  bool srgb = false;  ///< of 8-bit normalized floats
  std::array<float, 4> border{};
  float mipmap_bias = 0, min_mipmap_level = 0, max_mipmap_level = 0;
};

struct Texture {
  Image image;
  Sampler sampler;
};

/// Throws Error for an image that no device has (no level, a channel count of 3, a pitch shorter than a row) or whose
/// bytes leave `memory`.
void check_image(const GlobalMemory& memory, const Image& image);

/// Handles for kernels, unique in `memory`, never 0. Throw Error as check_image does.
std::uint64_t create_texture(GlobalMemory& memory, const Texture& texture);
std::uint64_t create_surface(GlobalMemory& memory, const Image& image);
/// Throw Error for a handle that is none.
void destroy_texture(GlobalMemory& memory, std::uint64_t handle);
void destroy_surface(GlobalMemory& memory, std::uint64_t handle);

/// Binds a module's `.global .texref` or `.global .surfref` (cuTexRefSetArray, cuSurfRefSetArray).
void bind_texture(GlobalMemory& memory, const Module& module, std::string_view name, const Texture& texture);
void bind_surface(GlobalMemory& memory, const Module& module, std::string_view name, const Image& image);

}  // namespace kiln::emulator
