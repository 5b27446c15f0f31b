#include "generator/systems/mha_operand_constants.hpp"

namespace kiln {

nlohmann::ordered_json sub_tile_constants(int tile, int P, int rows) {
  return {{"page_size", P},
          {"eff_page", rows},
          {"num_pages", tile / rows},
          {"kv_sub_tile_rows", rows},
          {"kv_num_sub_tiles", tile / rows}};
}

int kv_tma_fold_chunks(int element_bytes, int swizzle_bytes, int BK, int head_size, int box_rows, int smem_BN,
                       int P, bool row_major) {
  const int gran = swizzle_granularity(element_bytes, swizzle_bytes);
  if (gran == 0 || BK % gran != 0 || BK / gran < 2 || head_size % BK != 0) return 1;
  const bool rows_fit = row_major ? box_rows % 8 == 0 : box_rows == smem_BN && (P == 0 || P >= box_rows);
  return rows_fit ? BK / gran : 1;
}

}  // namespace kiln
