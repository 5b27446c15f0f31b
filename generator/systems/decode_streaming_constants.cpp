#include "generator/systems/decode_streaming_constants.hpp"

#include <algorithm>

namespace kiln {

DecodeStreamingConstants decode_streaming_constants(const DecodeStreamingParams& p) {
  const int size = static_cast<int>(size_of(p.dtype)), simd = 16 / size;
  const int mma_n = p.mma_shape[1], mma_k = p.mma_shape[2];
  DecodeStreamingConstants c;
  c.MMA_N = mma_n, c.MMA_K = mma_k, c.simd_width = simd;
  c.input_frag_size = mma_k * mma_n / 64;
  c.num_warps_n = p.BN / p.WN;
  c.num_warps = p.num_threads / 64;
  c.num_mmas = ceil_div(p.transpose ? p.WN : p.depth / c.num_warps_n, mma_n);
  c.num_k_mmas2 = ceil_div(p.BK, mma_k);
  c.num_strips = ceil_div(p.transpose ? p.depth : p.BN, p.BK);
  c.strip_rows = p.transpose ? p.BN : p.BK;
  c.strip_cols = p.transpose ? p.BK : p.depth;
  c.total_dma_tiles = (c.strip_rows / c.warp_tile_rows) * (c.strip_cols / p.BK);
  c.tiles_per_warp = ceil_div(c.total_dma_tiles, c.num_warps);
  const int vectors = c.strip_rows * c.strip_cols / simd;
  c.tc = c.strip_cols / simd;
  c.tr = std::min(p.num_threads, vectors) / c.tc;
  c.vectors_per_thread = vectors / p.num_threads;
  c.staging_rows = c.num_mmas * c.num_k_mmas2;
  c.smem_bytes = c.strip_rows * c.strip_cols * size;
  return c;
}

nlohmann::ordered_json to_json(const DecodeStreamingConstants& c, bool transpose) {
  nlohmann::ordered_json out{{"MMA_N", c.MMA_N},
                             {"MMA_K", c.MMA_K},
                             {"simd_width", c.simd_width},
                             {"warp_tile_rows", c.warp_tile_rows},
                             {"input_frag_size", c.input_frag_size},
                             {"_num_warps_n", c.num_warps_n},
                             {"num_mmas", c.num_mmas},
                             {"num_k_mmas2", c.num_k_mmas2},
                             {"mma_layout", {c.num_mmas * c.num_k_mmas2, c.input_frag_size}},
                             {"_strip_rows", c.strip_rows},
                             {"_strip_cols", c.strip_cols},
                             {"_total_dma_tiles", c.total_dma_tiles},
                             {"_tiles_per_warp", c.tiles_per_warp},
                             {transpose ? "k_tr" : "v_tr", c.tr},
                             {transpose ? "k_tc" : "v_tc", c.tc},
                             {"vectors_per_thread", c.vectors_per_thread},
                             {"num_strips", c.num_strips},
                             {"smem_bytes", c.smem_bytes}};
  if (!transpose) out["staging_rows"] = c.staging_rows;
  return out;
}

}  // namespace kiln
