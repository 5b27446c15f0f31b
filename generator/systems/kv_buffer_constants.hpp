// KVBuffer's derived constants and the shared-memory allocation around it. Every name is the documented one.
#pragma once

#include <array>
#include <vector>

#include <kiln/types.hpp>
#include <nlohmann/json.hpp>
#include "base/integers.hpp"

namespace kiln {

/// Parameters of one buffer. 0 in a key with a documented default means that default.
struct KVBufferParams {
  DType dtype = DType::bf16;
  std::array<int, 3> mma_shape{};
  int BN = 0, WN = 0, BK = 0, num_threads = 0, depth = 0;
  bool transpose = true;  ///< K when true, V when false
  bool full_kv = true;
  int reg_chunk_depth = 0, reg_chunk_keys = 0, smem_depth = 0, bk_smem = 0, num_smem_stages = 2;
  int wave = 64;             ///< lanes of a wave: 64 on AMD, 32 on sm_80
  int dma_bytes = 16;        ///< bytes a lane copies with one instruction
  bool share_tiles = false;  ///< with more warps than copy tiles, several share one (worker_base, 1.3)
};

struct KVBufferConstants {
  int MMA_N = 0, MMA_K = 0, num_mmas = 0, num_k_mmas2 = 0, input_frag_size = 0, simd_width = 0;
  int num_k_tiles = 0, reg_num_k_tiles = 0, warp_tile_rows = 32, num_repeats = 0;
  int smem_cols = 0, smem_stage_size = 0, smem_stage_bytes = 0, blocks_per_stage = 0, smem_total_cols = 0;
  int num_warps = 0, total_tiles = 0, tiles_per_warp = 0;
  int vm_instrs_per_load = 0;  ///< the reference's count
  int vm_exact = 0;        ///< instructions a wave really issues per load; 0 when the split is not uniform
  int waves_per_tile = 1;  ///< warps that share one copy tile
  int copies_per_wave_tile = 0;  ///< instructions of one warp in one copy tile
  int wtile_dim0 = 0, wtile_dim1 = 0, rows_per_k_mma = 0, rows_per_k_tile = 0, mma_total_rows = 0;
  int vgprs = 0;  ///< 32-bit registers of a lane

  bool uniform_split() const { return waves_per_tile > 1 || total_tiles % num_warps == 0; }
};

/// Requires positive BN, WN, BK, num_threads (a multiple of the wave), depth and a complete mma_shape.
KVBufferConstants kv_buffer_constants(const KVBufferParams& params);

/// The `k` or `v` object of `kiln plan`, under the documented names.
nlohmann::ordered_json to_json(const KVBufferConstants& constants);

/// 2.7: the V reader of one warp in decode.
struct VReader {
  int depth_per_warp = 0, smem_depth = 0;
  std::vector<int> base_offsets;  ///< elements, per warp along N
};
VReader v_reader(int output_depth, int BN, int bk_smem, int num_warps_n);
nlohmann::ordered_json to_json(const VReader& reader);

/// 2.4: LDS elements and bytes of one block of an AMD kernel.
struct LdsRequest {
  DType dtype = DType::bf16;
  int depth = 0, ov_depth = 0, BM = 0, BN = 0, bk_smem = 0, num_warps_n = 1;
  bool double_buffer = false, double_buffer_k_only = false, shared_kv = false, full_kv = true;
};
struct LdsBytes {
  int k = 0, v = 0, scratch = 0, p = 0, total = 0;
};
LdsBytes lds_bytes(const LdsRequest& request);

}  // namespace kiln
