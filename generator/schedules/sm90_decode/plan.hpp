// Every constant of an sm90_decode kernel, derived once from the resolved config.
#pragma once

#include <optional>

#include "generator/config/quantization.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/sm90/mha_operand.hpp"
#include "generator/systems/sm90/smem_map.hpp"
#include "generator/systems/sm90/tma_consumer_pipeline.hpp"
#include "generator/systems/sm90/wgmma.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::sm90 {

struct DecodePlan {
  Config config;  ///< resolved

  int depth, ov_depth;
  /// Columns of K that its own map brings, in kv_dtype, and the rotary ones of Q's type that another brings
  /// behind them; 0: one map brings all.
  int k_depth, rope = 0;
  int BM, BN, num_kv_stages, ctas_per_sm;
  int num_qk_stages = 1;  ///< chunks of K's columns, multiplied and released one by one
  int shared_stages;      ///< of num_kv_stages: those of each of `ctas_per_sm` blocks a multiprocessor
  bool narrow = false;    ///< K and V of one byte an element, turned into fp16 on their way to the registers
  bool upright = false;   ///< query rows, 64 of them, on the M side of wgmma, not keys
  int warpgroups = 1;     ///< consumers; each has the scores of all rows and its share of V's columns
  bool seesaw = false;    ///< each of two has the scores of every other tile
  DType math;             ///< type of P V, and of Q K unless Q is FP8: dtype, or fp16 for narrow K and V
  bool fp8_q = false;     ///< Q K in FP8; narrow, but K goes to the tensor cores as it is
  bool shared_ring = false;        ///< K and V take slots of one ring in turns: num_kv_stages are those slots
  bool v_in_k = false;             ///< V is the first columns of K's rows: one ring, one copy
  int k_groups = 1, v_groups = 1;  ///< scales of a row of K and V, where keys have their own
  /// Two (for K, for V) where a tile takes many copies: one warp cannot issue those of both in time.
  int producer_warps = 1;
  int kv_bytes;                ///< bytes of an element of K and V
  int k_span, v_span;          ///< bytes of a row of a panel, its swizzle span
  int k_panels, v_panels;      ///< panels of a tile of K and V, zeros past the depth
  int k_fold = 1, v_fold = 1;  ///< panels of one tensor copy
  RowResults results;
  /// Parts of a fixed split are results of their own: part i has O and LSE behind those of part i - 1, of as
  /// many rows. For a launch that merges them.
  bool separate = false;
  /// Of such a kernel: registers leave room for a block of another launch on the multiprocessor.
  bool room_beside = false;

  /// The launch says whether a block has a multiprocessor to itself, with all stages of the rings, or shares
  /// it with another, each with `shared_stages`.
  bool residency_at_launch = false;
  /// Keys and values, in MB a multiprocessor, up to which it has.
  int alone_megabytes = 0;
  bool stages_at_launch() const { return shared_stages != num_kv_stages; }

  SmemMap smem;
  int smem_q, smem_k, smem_v, smem_p, smem_o, smem_max, smem_kept, smem_scales, smem_barriers, smem_flag,
      smem_cells;

  std::optional<TMAConsumerPipeline> k, v;
  std::optional<MHAOperand> operand;
  std::optional<StreamK> stream;
  StagedPipeline cells{"cell", 2, 1};  ///< cells of the stream-K plan handed to the consumers
  std::optional<Wgmma> qk, pv, pv_shared, qk_rope;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  /// Shared memory of a block that has a multiprocessor to itself, or with room beside it for another kind,
  /// and of each of `ctas_per_sm`. Both ask for so much that no block more fits: one more, the next launch's,
  /// would leave another multiprocessor with too few (bench/NOTES.md 71, 114).
  int smem_bytes() const;
  int shared_smem_bytes() const;
  /// What they use of it.
  int shared_smem_used() const {
    return smem.bytes() -
           (num_kv_stages - shared_stages) * (k->slot_bytes() + (v_in_k ? 0 : v->slot_bytes()));
  }
  /// Whether some column of O is not finite: behind this block's share of a sum.
  int smem_odd() const { return smem_flag + 12; }
  std::string odd_flag() const { return fmt::format("*(int*)(smem_bytes + {})", smem_odd()); }
  /// Rows of floats need no staging.
  bool o_floats() const { return *config.out_dtype == DType::f32; }
  /// K's barriers and slots are V's, too.
  bool one_ring() const { return v_in_k || shared_ring; }
  int consumer_threads() const { return 128 * warpgroups; }
  /// Two consumer warpgroups take registers from a third, of which one warp produces.
  int num_threads() const { return warpgroups > 1 ? 384 : consumer_threads() + 32 * producer_warps; }
  static constexpr int kKept = 24;  ///< numbers of a warp's item that wait in shared memory (seesaw)
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = 224;
  /// Blocks that have nothing else to do add up an item's parts together: rows each, or units of rows and columns.
  bool shares_rows() const { return stream->splits() && warpgroups == 1; }
  /// `range` is worked out where the warps have the registers of their role: before, it would be kept in memory.
  bool range_by_role() const { return warpgroups > 1; }
  /// Columns of V and O of one warpgroup.
  int ov_columns() const { return padded_ov() / warpgroups; }
  /// O leaves by way of Q's rows, which a latent cache leaves no room beside.
  bool o_in_q() const { return warpgroups > 1 && !o_floats(); }
  /// Q's rows are as long as those of O in their place: a thread writes of Q what it has read of O.
  bool keeps_chunks() const { return o_in_q() && 64 * q_panels() == ov_depth; }
  /// Long rows of Q of 16 bits come one a warp.
  bool q_by_rows() const { return !narrow && !grouped() && q_panels() > 4 && !keeps_chunks(); }
  int key_blocks() const { return BN / 64; }                  ///< M blocks of S'
  int out_blocks() const { return (padded_ov() + 63) / 64; }  ///< M blocks of O'
  int s_regs() const { return BM / 2; }                       ///< of one M block, a lane
  int columns() const { return BM / 4; }                      ///< query rows that a lane has a part of
  int padded_depth() const { return k_panels * k_span / kv_bytes; }
  int padded_ov() const { return v_panels * v_span / kv_bytes; }
  int rope_panels() const { return (rope + 63) / 64; }
  /// Rotary columns have products and sums of their own: behind narrow ones. Else they are K's next panels.
  bool rope_apart() const { return rope > 0 && narrow; }
  int q_panels() const { return (fp8_q ? k_panels : padded_depth() / 64) + rope_panels(); }
  /// The first step of the contraction in chunk `chunk` of K; all of them for the chunk after the last.
  int qk_step(int chunk) const {
    return chunk == num_qk_stages ? qk_steps() : chunk * (padded_depth() / num_qk_stages / (fp8_q ? 32 : 16));
  }
  /// Steps of the contraction over the depth that lie in it.
  int qk_steps() const { return fp8_q ? (depth + 31) / 32 : depth / 16; }
  /// Registers of K's fragments: of whole rows, or of a panel of long ones.
  int k_fragment_registers() const { return (padded_depth() + rope > 512 ? k_span : padded_depth()) / 4; }
  int q_bytes() const { return BM * q_tile().span_bytes * q_panels(); }
  /// Keys have scales of their own, one a row or several.
  bool scales_by_token() const { return scales_by_row(config.operand->quantization); }
  /// Several scales a row: products of their own for each group of columns (grouped.cpp).
  bool grouped() const { return k_groups > 1 || v_groups > 1; }
  /// K reaches the tensor cores through registers.
  bool k_in_registers() const { return narrow && !fp8_q; }
  /// They come as tiles, by tensor copies of K's and V's barriers.
  bool scale_tiles() const { return scales_by_head(config.operand->quantization) && operand->maps_scales(); }
  /// Scales of a tile of K or V in its stage, one after the other group by group.
  int scale_bytes(bool of_k) const {
    if (!scales_by_token()) return 0;
    return scale_tiles() ? operand->scale_tile_bytes() : 4 * BN * (of_k ? k_groups : v_groups);
  }
  /// Bytes of chunk `chunk` of a tile of K or V that come by tensor copies: rotary columns with the last chunk.
  int copied_bytes(const TMAConsumerPipeline& pipeline, int chunk) const {
    const bool last = chunk + 1 == pipeline.num_qk_stages_effective();
    return pipeline.staged_k_bytes() + (last ? pipeline.full_kv_bytes() - pipeline.rope_offset() : 0) +
           (scale_tiles() ? 4 * BN : 0);
  }
  /// The warp that fetches a cell has asked for slots of all K of the cell before, so the others are past
  /// their first tiles of it, or, where that was the short last one, of the one before it, and have read its
  /// slot.
  bool cell_slots_free() const { return num_kv_stages + 2 <= StreamK::kLeastCell; }
  bool scales() const { return config.operand->quantization.has_value(); }
  /// One scale for a head, or for all.
  bool head_scale() const { return scales() && !scales_by_token(); }
  /// That scale joins the factor of the exponent, its sign Q: where nothing stands between products and it.
  bool scale_in_factor() const { return head_scale() && modifier->none() && rope == 0; }
  /// True when masks or modifiers look at query and head of a row in every tile: kept in query_C, head_C.
  bool names_rows() const { return mask->has_bits() || modifier->names_rows(); }
  /// Rows of scores that a lane holds, and the packed row that one of them is, an expression.
  int lane_rows() const { return upright ? 2 : columns(); }
  std::string lane_row(int c) const;
  /// The emitted names that masks and score modifiers read: packed rows differ in position and head.
  ScoreContext score_context() const;
  SmemTile q_tile() const { return fp8_q ? SmemTile{BM, k_span, 1} : SmemTile{BM, 128, 2}; }
  SmemTile p_tile() const { return {BM, 128, 2}; }
  /// The constant words of their descriptors, as literals.
  std::string q_high() const { return fmt::format("{:#x}u", k_major_descriptor(q_tile()).high); }
  std::string p_high() const { return fmt::format("{:#x}u", k_major_descriptor(p_tile()).high); }
  SmemTile rope_tile() const { return {BN, 128, 2}; }
  /// A partial result: O as rows of floats, not divided by the sums, then (maximum, sum) of each row.
  int partial_floats() const { return BM * padded_ov() + 2 * BM; }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<DecodePlan> plan_decode(Config config, Violations& out, bool separate = false);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);

}  // namespace kiln::sm90
