// DecodeStreamingKVBuffer's derived constants: one strip of K or V in LDS at a time.
#pragma once

#include "generator/systems/kv_buffer_constants.hpp"

namespace kiln {

struct DecodeStreamingParams {
  DType dtype = DType::bf16;
  std::array<int, 3> mma_shape{};
  int BN = 0, WN = 0, BK = 0, num_threads = 0;
  int depth = 0;          ///< of K; for V the output depth
  bool transpose = true;  ///< K when true, V when false
};

struct DecodeStreamingConstants {
  int MMA_N = 0, MMA_K = 0, simd_width = 0, warp_tile_rows = 32;
  int input_frag_size = 0, num_warps_n = 0, num_warps = 0, num_mmas = 0, num_k_mmas2 = 0, num_strips = 0;
  int strip_rows = 0, strip_cols = 0, total_dma_tiles = 0, tiles_per_warp = 0;
  int tr = 0, tc = 0;          ///< thread grid of the register path: k_tr x k_tc or v_tr x v_tc
  int vectors_per_thread = 0;  ///< 16-byte vectors of the register path
  int staging_rows = 0;        ///< V: rows of the staging registers; must equal vectors_per_thread
  int smem_bytes = 0;
};

DecodeStreamingConstants decode_streaming_constants(const DecodeStreamingParams& params);
nlohmann::ordered_json to_json(const DecodeStreamingConstants& constants, bool transpose);

}  // namespace kiln
