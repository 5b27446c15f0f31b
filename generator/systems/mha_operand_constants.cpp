#include "generator/systems/mha_operand_constants.hpp"

#include <algorithm>

namespace kiln {
namespace {

constexpr int lowbit(int x) {
  return x & -x;
}

}  // namespace

nlohmann::ordered_json sub_tile_constants(int tile, int P, int rows) {
  return {{"page_size", P},
          {"eff_page", rows},
          {"num_pages", tile / rows},
          {"kv_sub_tile_rows", rows},
          {"kv_num_sub_tiles", tile / rows}};
}

Populate populate_plan(int BN, int P, int base_alignment, int chunk_cap) {
  Populate plan;
  plan.eff_page = kv_sub_tile_rows(BN, P);
  plan.num_pages = BN / plan.eff_page;
  if (plan.num_pages > 1 && base_alignment >= P) {
    plan.chunk = std::min({lowbit(plan.num_pages), lowbit(base_alignment / P), chunk_cap});
  }
  plan.loads = plan.num_pages / plan.chunk;
  return plan;
}

std::int64_t PagedGeometry::element(std::uint32_t block, std::uint32_t token, int head, int d) const {
  const std::int64_t row = token % static_cast<std::uint32_t>(page_size);
  return block * block_stride() + row * heads * depth + static_cast<std::int64_t>(head) * depth + d;
}

int kv_tma_fold_chunks(int element_bytes, int swizzle_bytes, int BK, int head_size, int box_rows, int smem_BN,
                       int P, bool row_major) {
  const int gran = swizzle_granularity(element_bytes, swizzle_bytes);
  if (gran == 0 || BK % gran != 0 || BK / gran < 2 || head_size % BK != 0) return 1;
  const bool rows_fit = row_major ? box_rows % 8 == 0 : box_rows == smem_BN && (P == 0 || P >= box_rows);
  return rows_fit ? BK / gran : 1;
}

Gather4Plan gather4_plan(int tile_height, int tile_width, int swizzle_bytes, int tma_element_bytes) {
  Gather4Plan plan;
  plan.box_width = swizzle_bytes == 0 ? tile_width : swizzle_bytes / tma_element_bytes;
  plan.issues = tile_height / 4 * (tile_width / plan.box_width);
  return plan;
}

}  // namespace kiln
