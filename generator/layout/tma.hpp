// Where a tensor copy (TMA) puts the elements of its box in shared memory.
//
//   box, fastest dimension first, is written densely:  byte = sum coord[i] * pitch[i],  pitch[0] = element
//   bytes then the swizzle of the tensor map is applied to the byte address: bits 4.. ^= bits 7..
//
// A tile wider than one swizzle span takes several boxes, "panels", one after the other:
//   panel p = columns [p*span, (p+1)*span) of all rows, at byte p * rows * span
#pragma once

#include <cstdint>

#include "generator/layout/swizzle.hpp"

namespace kiln::layout {

/// Byte offset of (row, col) in a tile of `rows` rows cut into panels of `panel_bytes` each.
/// A TMA tile has panel_bytes = span_bytes(mode).
std::uint32_t panel_tile_byte(int row, int col, int rows, int element_bytes, int panel_bytes,
                              Swizzle byte_domain);

}  // namespace kiln::layout
