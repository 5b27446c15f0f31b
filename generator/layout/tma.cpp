#include "generator/layout/tma.hpp"

namespace kiln::layout {

std::uint32_t panel_tile_byte(int row, int col, int rows, int element_bytes, int panel_bytes,
                              Swizzle byte_domain, int fold) {
  const int byte = col * element_bytes;
  const int row_byte = row / 8 * eight_rows_bytes(panel_bytes, fold) + row % 8 * panel_bytes;
  return byte_domain(static_cast<std::uint32_t>(panel_byte(byte / panel_bytes, rows, panel_bytes, fold) +
                                                row_byte + byte % panel_bytes));
}

}  // namespace kiln::layout
