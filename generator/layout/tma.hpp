// Where a tensor copy (TMA) puts the elements of its box in shared memory.
//
//   box, fastest dimension first, is written densely:  byte = sum coord[i] * pitch[i],  pitch[0] = element
//   bytes then the swizzle of the tensor map is applied to the byte address: bits 4.. ^= bits 7..
//
// A tile wider than one swizzle span takes several boxes, "panels", one after the other:
//   panel p = columns [p*span, (p+1)*span) of all rows, at byte p * rows * span
//
// A box of `fold` panels with eight rows before the panels (tma_fold "chunk_inner") brings eights of rows one after
// the other, the panels of each side by side:
//   row r of panel p < fold at byte (r / 8) * fold * 8 * span + p * 8 * span + (r % 8) * span
// and the next `fold` panels behind all of them. With fold 1 that is the same as panels one after the other.
#pragma once

#include <cstdint>

#include "generator/layout/swizzle.hpp"

namespace kiln::layout {

/// Byte offset of (row, col) in a tile of `rows` rows cut into panels of `panel_bytes` each.
/// A TMA tile has panel_bytes = span_bytes(mode).
std::uint32_t panel_tile_byte(int row, int col, int rows, int element_bytes, int panel_bytes,
                              Swizzle byte_domain, int fold = 1);
/// Where a panel's first row is, and how far an eight of rows is from the one before it.
constexpr int panel_byte(int panel, int rows, int panel_bytes, int fold = 1) {
  return panel / fold * fold * rows * panel_bytes + panel % fold * 8 * panel_bytes;
}
constexpr int eight_rows_bytes(int panel_bytes, int fold) {
  return 8 * panel_bytes * fold;
}

}  // namespace kiln::layout
