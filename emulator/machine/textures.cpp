#include "emulator/machine/textures.hpp"

#include "emulator/machine/memory.hpp"

namespace kiln::emulator {
namespace {

std::uint32_t texel_bytes(const Image& image) {
  return channel_bytes(image.format) * image.channels;
}

std::string number(std::uint64_t v) {
  return std::to_string(v);
}

template <class Map>
void destroy(Map& map, std::uint64_t handle, const char* what) {
  if (map.erase(handle) == 0) throw Error(number(handle) + " is no handle of a " + what);
}

}  // namespace

std::uint32_t channel_bytes(ChannelFormat format) {
  switch (format) {
    case ChannelFormat::u8:
    case ChannelFormat::s8:
      return 1;
    case ChannelFormat::u16:
    case ChannelFormat::s16:
    case ChannelFormat::f16:
      return 2;
    case ChannelFormat::u32:
    case ChannelFormat::s32:
    case ChannelFormat::f32:
      return 4;
  }
  throw Error("channel format " + number(static_cast<unsigned>(format)) + " is not one that textures have");
}

void check_image(const GlobalMemory& memory, const Image& image) {
  if (image.levels.empty()) throw Error("an image needs at least one level");
  if (image.channels != 1 && image.channels != 2 && image.channels != 4)
    throw Error("an image has 1, 2 or 4 channels, not " + number(image.channels));
  const std::uint64_t texel = texel_bytes(image);
  for (const ImageLevel& l : image.levels) {
    if (l.width == 0 || l.height == 0 || l.depth == 0) throw Error("an image of no texels");
    const bool cube = image.shape == ImageShape::cube || image.shape == ImageShape::cube_layered;
    if (cube && (l.width != l.height || l.depth % 6 != 0))
      throw Error("a cube map has square faces, six of each layer");
    if (l.height > 1 && l.row_pitch < l.width * texel)
      throw Error("a row pitch of " + number(l.row_pitch) + " bytes is shorter than a row of " +
                  number(l.width * texel));
    if (l.depth > 1 && l.slice_pitch < l.row_pitch * (l.height - 1) + l.width * texel)
      throw Error("a slice pitch of " + number(l.slice_pitch) + " bytes is shorter than a slice");
    if (l.address % texel != 0)
      throw Error("an image at " + number(l.address) + ", which is no multiple of its texel's " +
                  number(texel) + " bytes");
    const std::uint64_t row = l.width * texel;
    for (std::uint32_t z = 0; z < l.depth; ++z)
      for (std::uint32_t y = 0; y < l.height; ++y)
        memory.impl().check(l.address + z * l.slice_pitch + y * l.row_pitch, row, "an image");
  }
}

std::uint64_t create_texture(GlobalMemory& memory, const Texture& texture) {
  check_image(memory, texture.image);
  TextureTable& t = memory.impl().images;
  t.textures[t.next] = texture;
  return t.next++;
}

std::uint64_t create_surface(GlobalMemory& memory, const Image& image) {
  check_image(memory, image);
  TextureTable& t = memory.impl().images;
  t.surfaces[t.next] = image;
  return t.next++;
}

void destroy_texture(GlobalMemory& memory, std::uint64_t handle) {
  destroy(memory.impl().images.textures, handle, "texture");
}

void destroy_surface(GlobalMemory& memory, std::uint64_t handle) {
  destroy(memory.impl().images.surfaces, handle, "surface");
}

void bind_texture(GlobalMemory& memory, const Module& module, std::string_view name, const Texture& texture) {
  check_image(memory, texture.image);
  memory.impl().images.textures[module.variable(memory, name)] = texture;
}

void bind_surface(GlobalMemory& memory, const Module& module, std::string_view name, const Image& image) {
  check_image(memory, image);
  memory.impl().images.surfaces[module.variable(memory, name)] = image;
}

}  // namespace kiln::emulator
