#include "generator/systems/kv_mma_op_constants.hpp"

namespace kiln {

KVMmaOpConstants kv_mma_op_constants(const KVMmaOpParams& p) {
  const int simd = 16 / static_cast<int>(size_of(p.in_type));
  KVMmaOpConstants c;
  c.MMA_M = p.mma_shape[0];
  c.MMA_N = p.mma_shape[1];
  c.MMA_K = p.mma_shape[2];
  c.input_frag_size = c.MMA_K * c.MMA_N / p.wave;
  c.accum_frag_size = c.MMA_M * c.MMA_N / p.wave;
  c.rows_per_k_tile = p.num_mmas * p.num_k_mmas;
  c.total_rows = p.num_k_tiles * c.rows_per_k_tile;
  c.packs = c.input_frag_size / simd;
  c.k_group = c.packs > 0 ? 1 : simd / c.input_frag_size;
  return c;
}

nlohmann::ordered_json to_json(const KVMmaOpConstants& c) {
  return {{"MMA_M", c.MMA_M},
          {"MMA_N", c.MMA_N},
          {"MMA_K", c.MMA_K},
          {"input_frag_size", c.input_frag_size},
          {"accum_frag_size", c.accum_frag_size},
          {"_rows_per_k_tile", c.rows_per_k_tile},
          {"_total_rows", c.total_rows},
          {"packs", c.packs},
          {"k_group", c.k_group}};
}

std::vector<std::string_view> v_loads_of(const Config& c) {
  const auto& shape = *c.mma_shape;
  if (c.target != Target::gfx950) {
    if (is_fp8(c.dtype)) return {"perm4x4"};
    return {"perm4x4", "block"};
  }
  if (is_fp8(c.dtype)) return {shape[2] == 64 ? "tr8_32" : "tr8_16"};
  return {shape[0] == 32 ? "tr32" : "tr16", "block"};
}

std::string v_loader_problem(DType dtype, const std::array<int, 3>& shape, int BN, int BK) {
  const auto text = [](int value) { return std::to_string(value); };
  if (!is_fp8(dtype)) {
    if (BK % shape[0] == 0) return "";
    return "V of " + std::string(to_string(dtype)) + " wants BK (" + text(BK) + ") a multiple of MMA_M (" +
           text(shape[0]) + ")";
  }
  if (shape[2] == 64 && BK != 64) return "V of FP8 with 32x32x64 wants BK 64, not " + text(BK);
  if (shape[2] == 128 && (BK != 128 || BN != 128)) {
    return "V of FP8 with 16x16x128 wants BK and BN 128, not " + text(BK) + " and " + text(BN);
  }
  return "";
}

}  // namespace kiln
