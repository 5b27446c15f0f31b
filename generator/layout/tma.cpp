#include "generator/layout/tma.hpp"

namespace kiln::layout {

std::uint32_t panel_tile_byte(int row, int col, int rows, int element_bytes, int panel_bytes,
                              Swizzle byte_domain) {
  const int byte = col * element_bytes;
  const int panel = byte / panel_bytes;
  return byte_domain(static_cast<std::uint32_t>((panel * rows + row) * panel_bytes + byte % panel_bytes));
}

}  // namespace kiln::layout
