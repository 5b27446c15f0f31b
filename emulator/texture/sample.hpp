// Which texels a texture fetch reads and with what weights, as the CUDA C++ Programming Guide's appendix on texture
// fetching has it, and what a texel's bytes mean. Pure functions; memory is the caller's.
#pragma once

#include <array>
#include <cstdint>

#include <kiln/emulator/textures.hpp>

namespace kiln::emulator {

/// Where a fetch samples. Integer coordinates name texels; of floats, `sampler.normalized_coordinates` decides.
struct TextureCoordinates {
  std::array<float, 3> at{};
  std::array<std::int32_t, 3> texel{};
  bool integer = false;
  std::uint32_t layer = 0;
  std::array<std::int32_t, 3> offset{};  ///< in texels
  float level = 0;
};

/// The texels of a fetch: at most 8 of two levels each.
struct Footprint {
  struct Texel {
    std::uint32_t level = 0, x = 0, y = 0, z = 0;
    bool border = false;  ///< outside: the sampler's border colour (zero of linear memory)
    float weight = 1;
  };
  std::uint32_t count = 0;
  std::array<Texel, 16> texels;
};

Footprint texture_footprint(const Image& image, const Sampler& sampler, const TextureCoordinates& c);
/// The four texels of tld4, in its order; weights mean nothing.
Footprint gather_footprint(const Image& image, const Sampler& sampler, const TextureCoordinates& c);
/// The level of detail of coordinates with these derivatives along two axes.
float level_of_gradients(const Image& image, const Sampler& sampler, const std::array<float, 3>& dx,
                         const std::array<float, 3>& dy, int dimensions);
/// Of a cube map: the face (0 to 5) that a direction meets, and where on it, in [0, 1].
std::uint32_t cube_face(const std::array<float, 3>& direction, std::array<float, 3>& on_face);

/// Dimensions of a texel's place, without layers: 1 to 3.
int dimensions_of(ImageShape shape);
std::uint64_t texel_address(const Image& image, const Footprint::Texel& t);
std::uint32_t texel_bytes(const Image& image);
/// Four channels as bits of u32, s32 or f32 (normalized where the sampler says so). Missing ones are 0, 0, 0 and 1.
std::array<std::uint32_t, 4> decode_texel(const Image& image, const Sampler& sampler,
                                          const std::uint8_t* bytes);
/// The border colour in the same form.
std::array<std::uint32_t, 4> border_texel(const Image& image, const Sampler& sampler);
/// Whether the channels are floats once read.
bool reads_floats(const Image& image, const Sampler& sampler);

}  // namespace kiln::emulator
