// Every constant of an sm100_decode kernel, derived once from the resolved config.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/schedules/common/sm100_elements.hpp"
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

struct DecodePlan : MultipliedType {
  Config config;    ///< resolved
  FA4Config rings;  ///< tile and stages of K and V, as their pipelines take them

  int depth = 0, ov_depth = 0, BM = 0, num_kv_stages = 0;
  int k_columns = 0;      ///< of depth: those of `kv_dtype`
  int rope = 0;           ///< of depth: rotary columns that lie apart, of Q's type
  int num_qk_stages = 1;  ///< chunks of K's columns, which come and are freed one by one
  int places = 1;         ///< of bytes: tiles of FP16; of a latent cache 2 where they fit
  int BN = 128;           ///< keys of a tile: rows of the matrix instruction of S', 128 or 64
  RowResults results;
  /// K and V of one byte an element beside Q of two: four more warps turn tiles into 16 bits.
  bool narrow = false;
  DType math = DType::bf16;  ///< of all products
  bool head_scale = false;   ///< one scale of K and of V for a head, or for all
  bool token_scale = false;  ///< one for each key
  int numbers = 1;           ///< of K and V in a byte
  int block = 0;  ///< columns of a scale of a byte, which goes into what bytes become; 0: there is none
  /// V is the first columns of K's rows (a latent cache): one ring, and P lies in K's slot behind V's columns.
  bool v_in_k = false;
  /// Rows of K or V are too wide for tiles of 128 keys.
  bool wide = false;

  sm90::SmemMap smem;
  int smem_q = 0, smem_k = 0, smem_v = 0, smem_p = 0, smem_rows = 0, smem_exchange = 0, smem_table = 0,
      smem_barriers = 0, smem_flag = 0, smem_odd = 0, smem_tmem = 0;
  int smem_rope = 0;
  int smem_raw_k = 0, smem_raw_v = 0, smem_raw_scales = 0, smem_key_scales = 0;

  std::optional<sm90::MHAOperand> operand;
  std::optional<TMAConsumerPipeline> k, v;     ///< of what the products read
  std::optional<StagedPipeline> raw_k, raw_v;  ///< of bytes on their way to become that
  std::optional<StagedPipeline> rope_ring;     ///< of rotary columns beside bytes, which stay as they are
  std::optional<StreamK> stream;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  /// Softmax, a warp that issues products, one that copies; warps that convert.
  int num_threads() const { return narrow ? 320 : 192; }
  static constexpr int kRopeStages = 2;  ///< of rotary columns beside bytes

  /// Columns of Q's tile.
  int padded_depth() const { return rope_apart() ? k_columns + 64 * rope_panels() : (depth + 63) / 64 * 64; }
  int padded_ov() const { return rings.padded_ov; }
  /// Columns of V of a matrix instruction, and how many of those O has.
  int MV() const { return MV_of(padded_ov()); }
  static int MV_of(int padded_ov) { return padded_ov == 64 ? 64 : 128; }
  int out_blocks() const { return (padded_ov() + MV() - 1) / MV(); }
  /// Where V lies in K: the last block of O whose product reads chunk `chunk` of the slot. P's is read by all.
  int last_reader(int chunk) const {
    const int end = (chunk + 1) * k->panels_per_chunk() * 64;  // column
    return end > padded_ov() ? out_blocks() - 1 : (end - 1) / MV();
  }
  SmemTile q_tile() const { return {BM, span_bytes(), element_bytes()}; }
  SmemTile p_tile() const { return {BM, span_bytes(), element_bytes()}; }
  MMASmemDescriptor q_descriptor() const { return {q_tile(), true}; }
  MMASmemDescriptor p_descriptor() const { return {p_tile(), true}; }
  /// Of wide rows in 16 bits one slot of K and one of V will do; these, and latent ones, may come in chunks.
  bool has_single_slots() const { return wide && !narrow && !fp8; }
  bool has_chunks() const { return v_in_k || has_single_slots(); }
  /// Latent rows of bytes: a slot of them is a chunk of `chunk_columns` columns, the last of which may have fewer.
  bool latent_bytes() const { return narrow && v_in_k; }
  int chunk_columns() const { return (k_columns + 127) / 128 * 128 / num_qk_stages; }
  int columns_of_chunk(int chunk) const {
    return std::min(chunk_columns(), k_columns - chunk * chunk_columns());
  }
  int slot_bytes() const { return BN * chunk_columns(); }
  /// Rotary columns beside bytes. Where these have scales, which do not concern them, they have accumulators of their own.
  bool rope_apart() const { return rope > 0 && narrow; }
  bool rope_sums() const { return rope_apart() && scaled(); }
  int rope_panels() const { return (rope + 63) / 64; }
  int rope_bytes() const { return rope_panels() * rope_tile().panel_bytes(); }
  SmemTile rope_tile() const { return {BN, span_bytes(), element_bytes()}; }
  /// Bytes of a tile of K or V as it comes, where it is converted.
  int raw_bytes(bool of_k) const { return BN * row_bytes(of_k ? depth : ov_depth); }
  int row_bytes(int columns) const { return columns / numbers; }
  /// Of the scales of K's or V's keys, of slot 0.
  int raw_scales_at(bool of_k) const { return smem_raw_scales + (of_k ? 0 : num_kv_stages * 4 * BN); }
  /// Bytes of scales of a row of K or V.
  int scale_bytes(bool of_k) const { return ceil_div(of_k ? depth : ov_depth, block); }
  bool scaled() const { return head_scale || token_scale; }
  int k_steps() const { return ceil_div(rope_apart() ? k_columns : depth, step_columns()); }
  int v_steps() const { return BN / step_columns(); }
  /// Columns of tensor memory: S' of two tiles, what rotary columns add to each, then O'.
  int tmem_o() const { return (rope_sums() ? 4 : 2) * BM; }
  TensorMemoryMap tmem() const { return {BM, tmem_o(), tmem_o(), tmem_o() + out_blocks() * BM}; }
  TmemAccess scores_access() const { return {BM, BN}; }
  TmemAccess output_access() const { return {BM, MV()}; }
  /// Where softmax has 168 registers and P takes 32 of them, or 64 of 255 not yet packed, O' is rescaled in halves of
  /// 64 rows.
  bool rescales_by_halves() const {
    return BM == 64 && MV() == 128 && (narrow ? halves() : fp8 && !halves());
  }
  TmemAccess rescale_access() const {
    return rescales_by_halves() ? TmemAccess{BM / 2, MV()} : output_access();
  }
  /// Of 64 keys a warp has 16, each in two lanes with half of the packed rows each.
  bool halves() const { return BN == 64; }
  int key_lanes() const { return halves() ? 16 : 32; }
  /// Emitted: this thread's key of a tile.
  const char* own_key() const { return halves() ? "(16 * warp + lane % 16)" : "threadIdx.x"; }
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
