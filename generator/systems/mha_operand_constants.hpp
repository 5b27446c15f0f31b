// Arithmetic of the operand family: page splitting, row numbers, scale addresses,
// tensor-map forms. Compile-time decisions of the generator; the run-time addresses of an emitted kernel
// follow these formulas.
#pragma once

#include <cstdint>

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

/// 5.4: how the rows of a tile are looked up.
struct Populate {
  int eff_page = 0, num_pages = 0;
  int chunk = 1;  ///< block-table entries of one vector load
  int loads = 0;
};
/// `chunk_cap` is 8 on sm_100a, 4 elsewhere.
Populate populate_plan(int BN, int P, int base_alignment, int chunk_cap);

/// 5.1 table, paged cache: strides and rows.
struct PagedGeometry {
  int page_size = 0, heads = 0, depth = 0, num_layers = 1, kv_count = 2;
  /// Elements between consecutive physical blocks.
  std::int64_t block_stride() const {
    return static_cast<std::int64_t>(kv_count) * num_layers * page_size * heads * depth;
  }
  /// The same in rows of the flattened view.
  std::uint32_t stride() const {
    return static_cast<std::uint32_t>(block_stride() / (static_cast<std::int64_t>(heads) * depth));
  }
  std::uint32_t num_kv_rows(std::uint32_t total_blocks) const {
    return (total_blocks - 1) * stride() + static_cast<std::uint32_t>(page_size);
  }
  std::uint32_t row_idx(std::uint32_t block, std::uint32_t token) const {
    return block * stride() + token % static_cast<std::uint32_t>(page_size);
  }
  std::uint32_t tma_row(std::uint32_t encoded) const {
    return encoded / static_cast<std::uint32_t>(page_size) * stride() +
           encoded % static_cast<std::uint32_t>(page_size);
  }
  std::int64_t element(std::uint32_t block, std::uint32_t token, int head, int d) const;
};

/// 5.6: offset of the scale of (token, head, d) in its block, and scales of a head row.
constexpr int scale_groups(int depth, int granularity) {
  return (depth + granularity - 1) / granularity;
}
constexpr int scale_offset(int token_in_page, int head, int d, int heads, int depth, int granularity) {
  const int groups = scale_groups(depth, granularity);
  return token_in_page * heads * groups + head * groups + d / granularity;
}

/// 5.7: chunks folded into one tensor copy; 1 for none. `row_major` asks for the chunk-inner form.
int kv_tma_fold_chunks(int element_bytes, int swizzle_bytes, int BK, int head_size, int box_rows, int smem_BN,
                       int P, bool row_major);

/// 5.5: issues of a gather4 tile and its hardware box.
struct Gather4Plan {
  int box_width = 0, issues = 0;
};
Gather4Plan gather4_plan(int tile_height, int tile_width, int swizzle_bytes, int tma_element_bytes);

/// 5.7: the tensor map over rotary columns behind FP8 content: row width in bf16 elements, base offset in
/// bytes.
struct RopeMap {
  int row_width = 0, base_offset_bytes = 0;
};
constexpr RopeMap rope_map(int padded_depth_bytes, int BK) {
  return {(padded_depth_bytes + 2 * BK) / 2, padded_depth_bytes};
}

}  // namespace kiln
