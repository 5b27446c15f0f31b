// The FA4 configuration of sm_100a: every number of the kernel from a few keys, plus
// the constants of TMAConsumerPipeline (6.2), transaction bytes (6.5), the barrier map (6.7) and the PV split
// (6.6). Also the reference's sm_90 tile formula (7.7).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <kiln/types.hpp>
#include <nlohmann/json.hpp>

namespace kiln {

struct FA4Params {
  DType dtype = DType::bf16;
  int BM = 256, qk_depth = 128, ov_depth = 128;
  int nope_depth = -1;              ///< -1: ov_depth
  std::optional<DType> rope_dtype;  ///< set for rotary columns with their own buffers
  int page_size = 0;
  bool pair_cta = false, single_o = false;
  int bn_cap = 0;  ///< 0: none
  int splitk_partitions = 1;
  int scale_bytes = 0;  ///< of one per-row scale; 0 without quantisation
  bool order_barriers = false;
};

struct FA4Config {
  FA4Params params;
  int MMA_M = 0, MMA_K = 0, num_q = 0, m_pack = 1, swizzle_bytes = 0, gran = 0;
  bool use_ws = false;
  int padded_qk = 0, padded_ov = 0, padded_nope = 0, rope_depth = 0;
  int BN = 0;
  int tmem_s1 = 0, tmem_o0 = 0, tmem_o1 = 0, tmem_used = 0;
  bool shared_ring = false;
  bool v_in_k = false;  ///< V is the first columns of K's rows, in K's slots
  int slots = 0;        ///< tiles of K or V that fit, whoever shares them
  int num_kv_stages = 0, num_qk_stages = 1, num_pv_stages = 2;
  int v_chunks = 1;  ///< of V's columns, with barriers of their own
  int BK0 = 0, BK1 = 0, k_rows_per_cta = 0, v_cols_per_cta = 0;
  int staged_k_bytes = 0, full_k_bytes = 0, full_v_bytes = 0, rope_buffers = 0;
  int smem_bytes = 0;

  int element_bytes() const { return static_cast<int>(size_of(params.dtype)); }
  /// Why the configuration has no kernel, or empty.
  std::string problem() const;
  /// Transaction bytes of one barrier (6.5).
  int k_barrier_bytes() const;
  int first_k_barrier_bytes() const;  ///< with the Q chunk that rides on it
  int v_barrier_bytes() const;
  /// Bytes of a partial K chunk with `pages` valid pages.
  int partial_k_bytes(int pages) const;
  /// k-blocks of the last tile that are contracted.
  int valid_k(int keys_left) const;
};
FA4Config fa4_config(const FA4Params& params);

/// 6.7: first barrier of each group, in order.
struct BarrierMap {
  int s0_cons = 0, s1_cons = 0, c0 = 0, c1 = 0, s0_prod = 0, s1_prod = 0, q1 = 0, k = 0, v = 0, o_prod = 0,
      total = 0;
  std::vector<int> counts;  ///< arrival count of each barrier
};
BarrierMap fa4_barriers(const FA4Config& config);
/// 6.5: full and empty barrier of (stage, chunk) in a ring that starts at `first`.
constexpr int full_barrier(int first, int num_qk, int stage, int qk) {
  return first + num_qk * stage + qk;
}
constexpr int empty_barrier(int first, int num_kv, int num_qk, int stage, int qk) {
  return first + num_kv * num_qk + num_qk * stage + qk;
}

/// 6.6: PV in two pieces: k-blocks of each and the column offset of P's second piece in TMEM.
struct PvSplit {
  int first = 0, second = 0, p_column_offset = 0;
};
PvSplit pv_split(int BN, int mma_k, int element_bytes);

/// Chunks of the columns of a tile of latent rows, whole panels (V26): a product begins with the first that has come, and
/// each is freed by its last reader.
constexpr int latent_chunks(int padded_depth) {
  const int panels = padded_depth / 64;
  return panels % 3 == 0 ? 3 : panels % 2 == 0 ? 2 : 1;
}

/// 6.4: byte offset of a descriptor's step `kk`; K in chunks of `gran` columns and `rows` rows.
constexpr int k_descriptor_step(int kk, int mma_k, int gran, int element_bytes, int rows, int swizzle_bytes) {
  return kk * mma_k % gran * element_bytes + kk * mma_k / gran * rows * swizzle_bytes;
}
constexpr int v_descriptor_step(int kk, int mma_k, int swizzle_bytes) {
  return kk * mma_k * swizzle_bytes;
}
constexpr int v_page_dense_step(int kk, int mma_k, int mn, int element_bytes) {
  return kk * (mma_k / 8) * 8 * mn * element_bytes;
}

/// The `k` or `v` object of tma_consumer_pipeline in `kiln plan`.
nlohmann::ordered_json tma_consumer_json(const FA4Config& config, bool is_k);

/// 7.7: the reference's BN on sm_90. Not kiln's default (docs/schedules.md has faster tiles).
int reference_sm90_bn(int depth, int BM, int num_pipeline_stages = 4);

}  // namespace kiln
