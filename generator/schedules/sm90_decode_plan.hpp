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
  int depth_panels, ov_panels;  ///< 64 columns each, zeros past the depth
  bool lse, sink, causal;
  int window = 0;      ///< sliding window in keys, 0: none
  double softcap = 0;  ///< 0: none

  SmemMap smem;
  int smem_q, smem_k, smem_v, smem_p, smem_o, smem_max, smem_barriers, smem_flag;

  std::optional<TMAConsumerPipeline> k, v;
  std::optional<MHAOperand> operand;
  std::optional<StreamK> stream;
  std::optional<Wgmma> qk, pv;

  static constexpr int kConsumerThreads = 128;
  static constexpr int kPanelColumns = 64;
  int num_threads() const { return kConsumerThreads + 32; }
  int key_blocks() const { return BN / 64; }    ///< M blocks of S'
  int out_blocks() const { return ov_panels; }  ///< M blocks of O'
  int s_regs() const { return BM / 2; }         ///< of one M block, a lane
  int columns() const { return BM / 4; }        ///< query rows that a lane has a part of
  int padded_ov() const { return ov_panels * kPanelColumns; }
  int panel_rows_bytes(int rows) const { return rows * 128; }
  SmemTile q_tile() const { return {BM, 128, 2}; }
  SmemTile p_tile() const { return {BM, 128, 2}; }
  /// A partial result: O' as the registers hold it, then (maximum, sum) of each row.
  int partial_floats() const { return BM * padded_ov() + 2 * BM; }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<DecodePlan> plan_decode(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);

}  // namespace kiln::sm90
