// Arithmetic of the operand family: page splitting, row numbers, scale addresses,
// tensor-map forms. Compile-time decisions of the generator; the run-time addresses of an emitted kernel
// follow these formulas.
#pragma once

#include <kiln/types.hpp>
#include <nlohmann/json.hpp>

namespace kiln {

/// 5.3. Rows of a tile that lie in one page. P is 0 for unpaged operands.
constexpr int kv_sub_tile_rows(int tile, int P) {
  return P <= 0 || P >= tile ? tile : P;
}
/// The page size, rows of a piece and pieces of a tile, by their documented names.
nlohmann::ordered_json sub_tile_constants(int tile, int P, int rows);
/// Elements of one swizzle span.
constexpr int swizzle_granularity(int element_bytes, int swizzle_bytes) {
  return swizzle_bytes / element_bytes;
}
constexpr int padded_depth(int element_bytes, int swizzle_bytes, int depth) {
  const int gran = swizzle_granularity(element_bytes, swizzle_bytes);
  return (depth + gran - 1) / gran * gran;
}

/// 5.7: chunks folded into one tensor copy; 1 for none. `row_major` asks for the chunk-inner form.
int kv_tma_fold_chunks(int element_bytes, int swizzle_bytes, int BK, int head_size, int box_rows, int smem_BN,
                       int P, bool row_major);

/// 5.7: the tensor map over rotary columns behind FP8 content: row width in bf16 elements, base offset in
/// bytes.
struct RopeMap {
  int row_width = 0, base_offset_bytes = 0;
};
constexpr RopeMap rope_map(int padded_depth_bytes, int BK) {
  return {(padded_depth_bytes + 2 * BK) / 2, padded_depth_bytes};
}

/// 5.5: columns of a box of gather4, and instructions for a tile of `height` rows.
constexpr int gather4_box_width(int element_bytes, int swizzle_bytes, int tile_width) {
  return swizzle_bytes == 0 ? tile_width : swizzle_bytes / element_bytes;
}
constexpr int gather4_issues(int tile_height, int tile_width, int box_width) {
  return tile_height / 4 * ((tile_width + box_width - 1) / box_width);
}

}  // namespace kiln
