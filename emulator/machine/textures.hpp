// The textures and surfaces of a GlobalMemory, by handle.
#pragma once

#include <unordered_map>

#include <kiln/emulator/textures.hpp>

namespace kiln::emulator {

struct TextureTable {
  std::unordered_map<std::uint64_t, Texture> textures;
  std::unordered_map<std::uint64_t, Image> surfaces;
  std::uint64_t next = 1;
};

}  // namespace kiln::emulator
