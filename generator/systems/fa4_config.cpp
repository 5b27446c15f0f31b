#include "generator/systems/fa4_config.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "generator/targets/target.hpp"

namespace kiln {
namespace {

constexpr int kTmemColumns = 512;

/// Of every target of the family.
int smem_budget() {
  return target_info(Target::sm_100a).smem_bytes;
}
int align_down(int x, int to) {
  return x < 0 ? 0 : x / to * to;
}
int align_to(int x, int to) {
  return (x + to - 1) / to * to;
}
int prev_pow2(int x) {
  return x <= 0 ? 0 : static_cast<int>(std::bit_floor(static_cast<unsigned>(x)));
}

/// BN from the columns that TMEM leaves after the O accumulators.
int tile_keys(const FA4Config& c, int o_cols) {
  const FA4Params& p = c.params;
  const int columns = p.single_o ? (kTmemColumns - o_cols) / 2 : kTmemColumns / 2 - o_cols;
  int BN = std::min(256, align_down(columns * c.m_pack, c.MMA_K));
  if (p.bn_cap > 0) BN = std::min(BN, p.bn_cap);
  if (BN > 0 && p.page_size > 0 && p.page_size % BN != 0 && BN % p.page_size != 0) BN = prev_pow2(BN);
  return BN;
}

/// Stages that fit the shared-memory budget, and whether K and V share them.
void fit_stages(FA4Config& c, int o_cols) {
  const FA4Params& p = c.params;
  const int size = c.element_bytes();
  const int rope_bytes = p.rope_dtype ? static_cast<int>(size_of(*p.rope_dtype)) : 0;
  const int q_row = p.rope_dtype ? c.padded_nope * size + c.rope_depth * rope_bytes : c.padded_qk * size;
  const int qk_derived = std::gcd(c.padded_qk / c.gran, c.padded_qk / c.MMA_K);
  const auto fixed_bytes = [&](int qk) {
    const int barriers = 8 + 2 * c.num_pv_stages + (c.num_q == 2 ? qk : 0) + (p.order_barriers ? 2 : 0) +
                         (c.num_q == 1 && p.splitk_partitions > 1 ? 1 : 0);
    return 4 + 8 * barriers + p.BM * q_row + p.BM * p.scale_bytes + 1024;
  };
  const int per_kv = c.BN * o_cols * size / (p.pair_cta ? 2 : 1) + 16;
  const int per_k = c.k_rows_per_cta * (c.rope_depth * rope_bytes + p.scale_bytes);
  const auto slot_bytes = [&](int slots) { return slots * per_kv + (slots + 1) / 2 * per_k; };
  const int room = smem_budget() - fixed_bytes(qk_derived);
  int slots = std::max(0, room / (per_kv + per_k / 2));
  if (slots > 0 && slot_bytes(slots) > room) --slots;

  c.slots = slots;
  c.shared_ring = (slots % 2 == 1 && !p.single_o) || c.use_ws;
  c.num_kv_stages = c.shared_ring ? slots : slots / 2;
  int extra = 0;
  if (!c.shared_ring && !p.rope_dtype) {
    extra = 16 * c.num_kv_stages * (qk_derived - 1);
    const bool fits = slot_bytes(slots) + extra <= room;
    c.num_qk_stages = fits ? qk_derived : 1;
    extra = fits ? extra : 0;
  }
  if (c.shared_ring && p.rope_dtype) c.rope_buffers = (c.num_kv_stages + 1) / 2;
  c.smem_bytes = fixed_bytes(c.num_qk_stages) + slot_bytes(slots) + extra;
}

}  // namespace

FA4Config fa4_config(const FA4Params& p) {
  FA4Config c;
  c.params = p;
  const int size = c.element_bytes();
  c.MMA_K = size == 1 ? 32 : 16;
  c.swizzle_bytes = is_fp8(p.dtype) ? 64 : 128;
  c.gran = c.swizzle_bytes / size;
  c.num_q = p.BM == 256 ? 2 : 1;
  c.MMA_M = p.pair_cta ? 256 : p.BM == 64 ? 64 : p.BM == 32 ? 32 : 128;
  c.use_ws = !p.pair_cta && c.MMA_M <= 64;
  c.m_pack = c.use_ws ? 128 / c.MMA_M : 1;
  c.padded_qk = align_to(p.qk_depth, c.gran);
  c.padded_ov = align_to(p.ov_depth, c.gran);
  c.padded_nope = align_to(p.nope_depth < 0 ? p.ov_depth : p.nope_depth, c.gran);
  c.rope_depth = p.rope_dtype ? c.padded_qk - c.padded_nope : 0;
  const int o_cols = std::max(c.padded_nope, c.padded_ov);
  c.BN = tile_keys(c, o_cols);
  c.k_rows_per_cta = p.pair_cta ? c.BN / 2 : c.BN;
  c.v_cols_per_cta = p.pair_cta ? c.padded_ov / 2 : c.padded_ov;

  const int s = c.BN / c.m_pack;
  c.tmem_s1 = s;
  c.tmem_o0 = 2 * s;
  c.tmem_o1 = p.single_o ? c.tmem_o0 : c.tmem_o0 + c.padded_ov;
  c.tmem_used = c.tmem_o1 + c.padded_ov;
  if (c.BN > 0) fit_stages(c, o_cols);

  c.BK0 = c.padded_qk / c.num_qk_stages;
  c.BK1 = c.BN;
  c.staged_k_bytes = c.k_rows_per_cta * c.BK0 * size;
  const int rope_bytes = p.rope_dtype ? static_cast<int>(size_of(*p.rope_dtype)) : 0;
  // V28: without rotary columns of their own a K tile is all of padded_qk.
  c.full_k_bytes = c.k_rows_per_cta *
                   (p.rope_dtype ? c.padded_nope * size + c.rope_depth * rope_bytes : c.padded_qk * size);
  c.full_v_bytes = c.BN * c.v_cols_per_cta * size;
  return c;
}

std::string FA4Config::problem() const {
  const FA4Params& p = params;
  if (p.BM != 32 && p.BM != 64 && p.BM != 128 && p.BM != 256) return "BM must be 32, 64, 128 or 256";
  if (BN < 64) return "no BN of at least 64 keys fits the 512 columns of tensor memory";
  if (tmem_used > kTmemColumns)
    return "tensor memory of " + std::to_string(tmem_used) + " columns exceeds 512";
  if (num_kv_stages < (use_ws ? 4 : 2)) return "fewer than two stages of K and V fit shared memory";
  if (smem_bytes > smem_budget())
    return "shared memory of " + std::to_string(smem_bytes) + " bytes exceeds " +
           std::to_string(smem_budget());
  if (p.pair_cta && !(p.qk_depth > 64 && p.qk_depth <= 128 && p.BM == 256))
    return "pair_cta wants BM 256 and 64 < depth <= 128";
  if (num_q == 1 && (p.pair_cta || p.qk_depth < 64 || p.qk_depth > 256))
    return "BM of at most 128 wants 64 <= depth <= 256";
  return "";
}

int FA4Config::k_barrier_bytes() const {
  return (params.pair_cta ? 2 : 1) * BK0 * k_rows_per_cta * element_bytes();
}
int FA4Config::first_k_barrier_bytes() const {
  return k_barrier_bytes() + (params.pair_cta ? 2 : 1) * (params.BM / num_q) * BK0 * element_bytes();
}
int FA4Config::v_barrier_bytes() const {
  return (params.pair_cta ? 2 : 1) * v_cols_per_cta * BN * element_bytes();
}
int FA4Config::partial_k_bytes(int pages) const {
  return BK0 * std::min(BN, params.page_size) * element_bytes() * pages;
}
int FA4Config::valid_k(int keys_left) const {
  return (std::min(keys_left, BN) + MMA_K - 1) / MMA_K;
}

BarrierMap fa4_barriers(const FA4Config& c) {
  BarrierMap map;
  const auto group = [&](int barriers, int count) {
    const int first = map.total;
    map.total += barriers;
    map.counts.insert(map.counts.end(), static_cast<std::size_t>(barriers), count);
    return first;
  };
  const int pair = c.params.pair_cta ? 2 : 1;
  const auto s_cons = [&] {
    const int first = group(c.num_pv_stages, 128 * pair);
    map.counts[static_cast<std::size_t>(first)] = 256 * pair;  // softmax and correction threads
    return first;
  };
  map.s0_cons = s_cons();
  map.s1_cons = s_cons();
  map.c0 = group(2, 128);
  map.c1 = group(2, 128);
  if (c.params.order_barriers) group(2, 128);
  map.s0_prod = group(1, 1);
  map.s1_prod = group(1, 1);
  map.q1 = group(c.num_q == 2 ? c.num_qk_stages : 0, 1);
  map.k = group(2 * c.num_qk_stages * c.num_kv_stages, 1);
  map.v = group(c.shared_ring ? 0 : 2 * c.num_kv_stages, 1);
  map.o_prod = group(2, 1);
  return map;
}

PvSplit pv_split(int BN, int mma_k, int element_bytes) {
  const int blocks = BN / mma_k;
  PvSplit split;
  split.first = blocks % 4 == 0 ? blocks / 4 * 3 : blocks / 2;
  split.second = blocks - split.first;
  split.p_column_offset = split.first * mma_k * element_bytes / 4;
  return split;
}

nlohmann::ordered_json tma_consumer_json(const FA4Config& c, bool is_k) {
  return {{"num_qk_stages_effective", is_k ? c.num_qk_stages : c.v_chunks},
          {"num_kv_stages", c.num_kv_stages},
          {"BMN", is_k ? c.k_rows_per_cta : c.v_cols_per_cta},
          {"BK", is_k ? c.BK0 : c.BK1},
          {"is_k_major", is_k},
          {"staged_k_bytes", c.staged_k_bytes},
          {"full_kv_bytes", is_k ? c.full_k_bytes : c.full_v_bytes},
          {"shared_ring", c.shared_ring}};
}

int reference_sm90_bn(int depth, int BM, int num_pipeline_stages) {
  if (depth == 64) return 64;
  const int registers = BM > 64 ? 224 : 256;
  const int reg = (4 * registers - 2 * depth - 16) / 3;
  const int smem = (113500 - BM * depth - 8 * num_pipeline_stages) / (depth * num_pipeline_stages);
  return std::max(64, prev_pow2(16 * (std::min(reg, smem) / 16)));
}

}  // namespace kiln
