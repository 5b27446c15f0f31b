#include "generator/systems/sm80/kv_buffer.hpp"

#include <algorithm>

namespace kiln::sm80 {

KVBuffer::KVBuffer(const Shape& shape)
    : shape_(shape),
      stage_{shape.BN, shape.depth, shape.bk_smem, shape.swizzle},
      op_({shape.in_type, num_mmas(), num_k_mmas2(), num_k_tiles(), shape.BN, shape.BK, shape.transpose},
          stage_),
      copy_(name(), stage_, shape.num_threads) {}

int KVBuffer::k_steps(int bk_tile) const {
  const int extent = shape_.transpose ? shape_.depth : shape_.WN;
  return std::min(num_k_mmas2(), ceil_div(extent - bk_tile * shape_.BK, MMA_K));
}

void KVBuffer::use(Prelude& prelude) const {
  prelude.use("cp_async");
  op_.use(prelude);
}

void KVBuffer::emit_construct(Writer& w, const std::string& base, const std::string& first,
                              const std::string& stride, const std::string& rows) const {
  const std::string n = name();
  w.comment("{}: copies of this thread ({} rows apart), fragment addresses of this lane",
            shape_.transpose ? "K" : "V", copy_.rows_per_pass());
  copy_.emit_construct(w, base);
  w.line("const u16* {0}_src = {1} + {0}_row * {2} + 8 * {0}_chunk;", n, first, stride);
  if (copy_.passes() > 1) w.line("const long long {}_pass = {} * {};", n, copy_.rows_per_pass(), stride);
  w.line("int {0}_rows = {1} - {0}_row;", n, rows);
  op_.emit_construct(w, base);
}

void KVBuffer::emit_load_from_dram(Writer& w, int stage) const {
  const std::string n = name();
  w.comment("load_{}_stage{}", n, stage);
  copy_.emit(w, stage * stage_bytes());
  w.line("{0}_src += {1} * {0}_stride_seq; {0}_rows -= {1};", n, shape_.BN);
}

void KVBuffer::emit_load_from_shared(Writer& w, int stage, int bk_tile, int k_mma) const {
  op_.emit_load(w, bk_tile, k_mma, stage * stage_bytes());
}

nlohmann::ordered_json KVBuffer::constants() const {
  const int rows = num_mmas() * num_k_mmas2() * num_k_tiles();
  const int warp_rows = std::max(1, 32 / stage_.vectors_per_row());  // rows of one warp-wide copy instruction
  return {{"BN", shape_.BN},
          {"WN", shape_.WN},
          {"BK", shape_.BK},
          {"depth", shape_.depth},
          {"transpose", shape_.transpose},
          {"MMA_N", MMA_N},
          {"MMA_K", MMA_K},
          {"full_kv", true},
          {"bk_smem", shape_.bk_smem},
          {"smem_depth", smem_depth()},
          {"num_smem_stages", shape_.num_smem_stages},
          {"num_mmas", num_mmas()},
          {"num_k_mmas2", num_k_mmas2()},
          {"input_frag_size", input_frag_size},
          {"simd_width", simd_width},
          {"num_k_tiles", num_k_tiles()},
          {"_reg_num_k_tiles", num_k_tiles()},
          {"warp_tile_rows", warp_rows},
          {"num_repeats", num_repeats()},
          {"smem_cols", smem_cols()},
          {"smem_stage_size", smem_stage_size()},
          {"smem_stage_bytes", stage_bytes()},
          {"_blocks_per_stage", blocks_per_stage()},
          {"_smem_total_cols", shape_.num_smem_stages * blocks_per_stage() * shape_.bk_smem},
          {"_num_warps", shape_.num_threads / 32},
          {"_total_tiles", ceil_div(shape_.BN, warp_rows) * num_repeats()},
          {"_tiles_per_warp", copy_.copies_per_thread()},
          {"wtile_dim0", shape_.WN},
          {"wtile_dim1", shape_.BK},
          {"_rows_per_k_mma", num_mmas()},
          {"_rows_per_k_tile", num_mmas() * num_k_mmas2()},
          {"_mma_total_rows", rows}};
}

}  // namespace kiln::sm80
