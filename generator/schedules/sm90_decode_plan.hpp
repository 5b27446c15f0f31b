// Every constant of an sm90_decode kernel, derived once from the resolved config.
#pragma once

#include <optional>

#include "generator/schedules/schedule.hpp"
#include "generator/systems/sm90/mha_operand.hpp"
#include "generator/systems/sm90/smem_map.hpp"
#include "generator/systems/sm90/tma_consumer_pipeline.hpp"
#include "generator/systems/sm90/wgmma.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::sm90 {

struct DecodePlan {
  Config config;  ///< resolved

  int depth, ov_depth, BM, BN, num_kv_stages, ctas_per_sm;
  bool narrow = false;   ///< K and V of one byte an element, turned into fp16 on their way to the registers
  bool upright = false;  ///< query rows, 64 of them, on the M side of wgmma, not keys
  DType math;            ///< type of the matrix products: dtype, or fp16 for narrow K and V
  /// Two (for K, for V) where a tile takes many copies: one warp cannot issue those of both in time.
  int producer_warps = 1;
  int kv_bytes;            ///< bytes of an element of K and V
  int k_span, v_span;      ///< bytes of a row of a panel, its swizzle span
  int k_panels, v_panels;  ///< panels of a tile of K and V, zeros past the depth
  bool lse, sink, causal;
  int window = 0;      ///< sliding window in keys, 0: none
  double softcap = 0;  ///< 0: none

  SmemMap smem;
  int smem_q, smem_k, smem_v, smem_p, smem_o, smem_max, smem_scales, smem_barriers, smem_flag, smem_cells;

  std::optional<TMAConsumerPipeline> k, v;
  std::optional<MHAOperand> operand;
  std::optional<StreamK> stream;
  StagedPipeline cells{"cell", 2, 1};  ///< cells of the stream-K plan handed to the consumers
  std::optional<Wgmma> qk, pv;

  static constexpr int kConsumerThreads = 128;
  int num_threads() const { return kConsumerThreads + 32 * producer_warps; }
  int key_blocks() const { return BN / 64; }                  ///< M blocks of S'
  int out_blocks() const { return (padded_ov() + 63) / 64; }  ///< M blocks of O'
  int s_regs() const { return BM / 2; }                       ///< of one M block, a lane
  int columns() const { return BM / 4; }                      ///< query rows that a lane has a part of
  int padded_depth() const { return k_panels * k_span / kv_bytes; }
  int padded_ov() const { return v_panels * v_span / kv_bytes; }
  int q_panels() const { return padded_depth() / 64; }
  bool scales_by_token() const {
    return config.operand->quantization &&
           config.operand->quantization->granularity == Quantization::Granularity::per_token;
  }
  bool scales() const { return config.operand->quantization.has_value(); }
  SmemTile q_tile() const { return {BM, 128, 2}; }
  SmemTile p_tile() const { return {BM, 128, 2}; }
  /// A partial result: O as rows of floats, not divided by the sums, then (maximum, sum) of each row.
  int partial_floats() const { return BM * padded_ov() + 2 * BM; }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<DecodePlan> plan_decode(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);

}  // namespace kiln::sm90
