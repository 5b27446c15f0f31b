#include "generator/systems/kv_buffer_constants.hpp"

#include <algorithm>
#include <bit>

namespace kiln {

KVBufferConstants kv_buffer_constants(const KVBufferParams& p) {
  const int size = static_cast<int>(size_of(p.dtype));
  const int smem_depth = p.smem_depth ? p.smem_depth : p.depth;
  const int bk_smem = p.bk_smem ? p.bk_smem : p.BK;
  const int reg_chunk = p.transpose ? (p.reg_chunk_depth ? p.reg_chunk_depth : p.depth)
                                    : (p.reg_chunk_keys ? p.reg_chunk_keys : p.WN);
  KVBufferConstants c;
  c.MMA_N = p.mma_shape[1];
  c.MMA_K = p.mma_shape[2];
  // A block that holds only some columns (full_kv false) gives V only those output columns at a time (8.3).
  const int v_columns = p.full_kv ? p.depth : bk_smem;
  c.num_mmas = ceil_div(p.transpose ? p.WN : v_columns, c.MMA_N);
  c.num_k_mmas2 = ceil_div(p.BK, c.MMA_K);
  c.input_frag_size = c.MMA_K * c.MMA_N / p.wave;
  c.simd_width = 16 / size;
  c.num_k_tiles = ceil_div(p.transpose ? p.depth : p.WN, p.BK);
  c.reg_num_k_tiles = ceil_div(reg_chunk, p.BK);
  c.num_repeats = smem_depth / bk_smem;
  c.smem_cols = p.full_kv ? smem_depth : bk_smem;
  c.smem_stage_size = p.BN * c.smem_cols;
  c.smem_stage_bytes = c.smem_stage_size * size;
  c.blocks_per_stage = p.full_kv ? c.num_repeats : 1;
  c.smem_total_cols = p.num_smem_stages * c.blocks_per_stage * bk_smem;
  c.num_warps = p.num_threads / p.wave;
  c.total_tiles = (p.BN / c.warp_tile_rows) * (p.full_kv ? c.num_repeats : 1);
  c.tiles_per_warp = ceil_div(c.total_tiles, c.num_warps);
  c.vm_instrs_per_load = c.uniform_split() ? 2 * c.tiles_per_warp : 0;
  const int copies = c.warp_tile_rows * bk_smem * size / (p.wave * p.dma_bytes);  // of one tile
  const int share = c.total_tiles > 0 && c.total_tiles < c.num_warps && c.num_warps % c.total_tiles == 0
                        ? c.num_warps / c.total_tiles
                        : 1;
  c.waves_per_tile = p.share_tiles && copies % share == 0 ? share : 1;
  c.copies_per_wave_tile = copies / c.waves_per_tile;
  c.vm_exact = c.uniform_split() ? c.tiles_per_warp * c.copies_per_wave_tile : 0;
  c.wtile_dim0 = p.WN;
  c.wtile_dim1 = p.BK;
  c.rows_per_k_mma = c.num_mmas;
  c.rows_per_k_tile = c.num_mmas * c.num_k_mmas2;
  c.mma_total_rows = c.rows_per_k_tile * c.reg_num_k_tiles;
  c.vgprs = c.mma_total_rows * c.input_frag_size * size / 4;
  return c;
}

nlohmann::ordered_json to_json(const KVBufferConstants& c) {
  return {{"MMA_N", c.MMA_N},
          {"MMA_K", c.MMA_K},
          {"num_mmas", c.num_mmas},
          {"num_k_mmas2", c.num_k_mmas2},
          {"input_frag_size", c.input_frag_size},
          {"simd_width", c.simd_width},
          {"num_k_tiles", c.num_k_tiles},
          {"_reg_num_k_tiles", c.reg_num_k_tiles},
          {"warp_tile_rows", c.warp_tile_rows},
          {"num_repeats", c.num_repeats},
          {"smem_cols", c.smem_cols},
          {"smem_stage_size", c.smem_stage_size},
          {"_blocks_per_stage", c.blocks_per_stage},
          {"_smem_total_cols", c.smem_total_cols},
          {"_num_warps", c.num_warps},
          {"_total_tiles", c.total_tiles},
          {"_tiles_per_warp", c.tiles_per_warp},
          {"vm_instrs_per_load", c.vm_instrs_per_load},
          {"vm_exact", c.vm_exact},
          {"wtile_dim0", c.wtile_dim0},
          {"wtile_dim1", c.wtile_dim1},
          {"_rows_per_k_mma", c.rows_per_k_mma},
          {"_rows_per_k_tile", c.rows_per_k_tile},
          {"_mma_total_rows", c.mma_total_rows},
          {"mma_layout", {c.mma_total_rows, c.input_frag_size}},
          {"smem_stage_bytes", c.smem_stage_bytes},
          {"vgprs", c.vgprs}};
}

VReader v_reader(int output_depth, int BN, int bk_smem, int num_warps_n) {
  VReader reader;
  reader.depth_per_warp = output_depth / num_warps_n;
  reader.smem_depth = std::max(reader.depth_per_warp, bk_smem);
  for (int warp = 0; warp < num_warps_n; ++warp) {
    const int column = warp * reader.depth_per_warp;
    reader.base_offsets.push_back(column / bk_smem * BN * bk_smem + column % bk_smem);
  }
  return reader;
}

nlohmann::ordered_json to_json(const VReader& reader) {
  return {{"depth_per_warp", reader.depth_per_warp},
          {"smem_depth", reader.smem_depth},
          {"base_offsets", reader.base_offsets}};
}

LdsBytes lds_bytes(const LdsRequest& r) {
  const int size = static_cast<int>(size_of(r.dtype));
  // Without full_kv a stage is one block of columns.
  const auto tile = [&](int depth) {
    return r.BN * (r.full_kv ? align_up(depth, r.bk_smem) : r.bk_smem) * size;
  };
  LdsBytes out;
  out.k = tile(r.depth) * (r.double_buffer || r.double_buffer_k_only ? 2 : 1);
  out.v = tile(r.ov_depth) * (r.double_buffer ? 2 : 1);
  out.scratch = 2 * r.num_warps_n * r.BM * 4;
  const int p_columns = static_cast<int>(std::bit_ceil(static_cast<unsigned>(r.BN)));
  out.p = r.num_warps_n > 1 ? r.BM * p_columns * size : 0;
  out.total = (r.shared_kv ? std::max(out.k, out.v) : out.k + out.v) + out.scratch + out.p;
  return out;
}

}  // namespace kiln
