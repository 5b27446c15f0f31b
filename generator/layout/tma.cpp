#include "generator/layout/tma.hpp"

namespace kiln::layout {

std::uint32_t tma_box_byte(std::span<const int> box, std::span<const int> coord, int element_bytes,
                           SwizzleMode mode) {
  std::uint32_t byte = 0, pitch = static_cast<std::uint32_t>(element_bytes);
  for (std::size_t i = 0; i < box.size(); ++i) {
    byte += static_cast<std::uint32_t>(coord[i]) * pitch;
    pitch *= static_cast<std::uint32_t>(box[i]);
  }
  return byte_swizzle(mode)(byte);
}

std::uint32_t panel_tile_byte(int row, int col, int rows, int element_bytes, int panel_bytes,
                              Swizzle byte_domain) {
  const int byte = col * element_bytes;
  const int panel = byte / panel_bytes;
  return byte_domain(static_cast<std::uint32_t>((panel * rows + row) * panel_bytes + byte % panel_bytes));
}

}  // namespace kiln::layout
