// Every constant of an sm100_decode kernel, derived once from the resolved config.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "generator/schedules/schedule.hpp"
#include "generator/systems/fa4_config.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/sm100/tma_consumer_pipeline.hpp"
#include "generator/systems/sm100/tmem_access.hpp"
#include "generator/systems/sm90/mha_operand.hpp"
#include "generator/systems/sm90/smem_map.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::sm100 {

struct DecodePlan {
  Config config;    ///< resolved
  FA4Config rings;  ///< tile and stages of K and V, as their pipelines take them

  int depth = 0, ov_depth = 0, BM = 0, num_kv_stages = 0;
  int num_qk_stages = 1;  ///< chunks of a latent slot, which come and are freed one by one
  int BN = 128;           ///< keys of a tile: rows of the matrix instruction of S', 128 or 64
  RowResults results;
  /// K and V of one byte an element: four more warps turn tiles into FP16, which is the type of all products then.
  bool narrow = false;
  DType math = DType::bf16;
  bool head_scale = false;   ///< one scale of K and of V for a head, or for all
  bool token_scale = false;  ///< one for each key
  /// V is the first columns of K's rows (a latent cache): one ring, and P lies in K's slot behind V's columns.
  bool v_in_k = false;

  sm90::SmemMap smem;
  int smem_q = 0, smem_k = 0, smem_v = 0, smem_p = 0, smem_rows = 0, smem_exchange = 0, smem_table = 0,
      smem_barriers = 0, smem_flag = 0, smem_odd = 0, smem_tmem = 0;
  int smem_raw_k = 0, smem_raw_v = 0, smem_raw_scales = 0, smem_key_scales = 0;

  std::optional<sm90::MHAOperand> operand;
  std::optional<TMAConsumerPipeline> k, v;     ///< of what the products read
  std::optional<StagedPipeline> raw_k, raw_v;  ///< of bytes on their way to become that
  std::optional<StreamK> stream;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  /// Softmax, a warp that issues products, one that copies; warps that convert.
  int num_threads() const { return narrow ? 320 : 192; }
  static constexpr int kRowBytes = 128;  ///< of a swizzle span

  int padded_depth() const { return rings.padded_qk; }
  int padded_ov() const { return rings.padded_ov; }
  /// Columns of V of a matrix instruction, and how many of those O has.
  int MV() const { return padded_ov() == 64 ? 64 : 128; }
  int out_blocks() const { return (padded_ov() + MV() - 1) / MV(); }
  /// Where V lies in K: the last block of O whose product reads chunk `chunk` of the slot. P's is read by all.
  int last_reader(int chunk) const {
    const int end = (chunk + 1) * k->panels_per_chunk() * 64;  // column
    return end > padded_ov() ? out_blocks() - 1 : (end - 1) / MV();
  }
  SmemTile q_tile() const { return {BM, kRowBytes, 2}; }
  SmemTile p_tile() const { return {BM, kRowBytes, 2}; }
  MMASmemDescriptor q_descriptor() const { return {q_tile(), true}; }
  MMASmemDescriptor p_descriptor() const { return {p_tile(), true}; }
  /// Bytes of a tile of K or V as it comes, where it is converted.
  int raw_bytes(bool of_k) const { return BN * (of_k ? depth : ov_depth); }
  /// Of the scales of K's or V's keys, of slot 0.
  int raw_scales_at(bool of_k) const { return smem_raw_scales + (of_k ? 0 : num_kv_stages * 4 * BN); }
  bool scaled() const { return head_scale || token_scale; }
  int k_steps() const { return depth / 16; }
  int v_steps() const { return BN / 16; }
  /// Columns of tensor memory: S' of two tiles, then O'.
  int tmem_o() const { return 2 * BM; }
  TensorMemoryMap tmem() const { return {BM, tmem_o(), tmem_o(), tmem_o() + out_blocks() * BM}; }
  TmemAccess scores_access() const { return {BM, BN}; }
  TmemAccess output_access() const { return {BM, MV()}; }
  /// Of 64 keys a warp has 16, each in two lanes with half of the packed rows each.
  bool halves() const { return BN == 64; }
  int key_lanes() const { return halves() ? 16 : 32; }
  /// Packed rows whose scores a lane holds, and the emitted index of its r-th.
  int score_rows() const { return scores_access().registers(); }
  std::string score_row(const std::string& r) const { return halves() ? "score_row + " + r : r; }
  /// Rows whose maxima a warp finds at once, one a lane: of 16 rows two lanes have the same.
  int fold_rows() const { return std::min(score_rows(), key_lanes()); }
  int own_rows() const { return score_rows() / fold_rows(); }
  /// Emitted: the lane's first such row; the others follow fold_rows() apart.
  std::string own_row() const {
    return BM < 32 ? "lane / 2" : own_rows() > 1 && halves() ? "lane + lane / 16 * 16" : "lane";
  }
  std::string one_copy() const { return BM < 32 ? "lane % 2 == 0" : "true"; }
  /// A part: O as rows of floats, not divided by the sums, then (maximum, sum) of each row.
  int partial_floats() const { return BM * ov_depth + 2 * BM; }
  /// The emitted names that masks and score modifiers read.
  ScoreContext score_context() const {
    ScoreContext context;
    for (int r = 0; r < score_rows(); ++r) {
      const std::string row = score_row(std::to_string(r));
      context.rows.push_back({fmt::format("row_query[{}]", row), fmt::format("row_head[{}]", row)});
    }
    context.batch = "s.batch";
    context.seqlen_q = stream->aligned_rows(), context.seqlen_k = "s.sequence.seqlen_k";
    return context;
  }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<DecodePlan> plan_decode(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);

}  // namespace kiln::sm100
