// Every constant of an sm90_prefill kernel, derived once from the resolved config.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/config/quantization.hpp"
#include "generator/schedules/common/prefill_work.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/online_softmax.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/sm90/mha_operand.hpp"
#include "generator/systems/sm90/smem_map.hpp"
#include "generator/systems/sm90/tma_consumer_pipeline.hpp"
#include "generator/systems/sm90/wgmma.hpp"

namespace kiln::sm90 {

struct PrefillPlan {
  Config config;  ///< resolved
  bool ping_pong = false;

  int depth, ov_depth, BM, BN, num_kv_stages, num_qk_stages;
  int k_fold = 1, v_fold = 1;   ///< panels of one tensor copy
  bool shared_ring = false;     ///< K and V take slots of one ring in turns: num_kv_stages are those slots
  int cluster = 1;              ///< blocks that share K and V: each loads its part of a tile for all of them
  int num_math_warpgroups;      ///< BM / 64
  int span_bytes;               ///< swizzle span of the tiles of Q, K and V as they are copied
  int rope = 0;                 ///< of depth: rotary columns in a tensor of their own
  int padded_depth, padded_ov;  ///< columns in shared memory, whole panels: those past the tensor's are zeros
  int o_span, v_span;           ///< of O's, and of V's as wgmma reads it
  int element_bytes = 2;        ///< of Q, and of K and V as the products take them
  bool ragged;                  ///< Q and O run over the rows of all sequences: every operand but contiguous
  RowResults results;
  bool part = false;    ///< of a sequence: positions are given at launch (part_kernels.hpp)
  bool narrow = false;  ///< K and V of one byte an element, widened on their way (convert.cpp)
  bool fp8 = false;     ///< Q, K and V of FP8: V is transposed on its way (transpose.cpp)
  DType math;           ///< type of the products
  int num_raw_stages = 0;
  bool packed = false;    ///< OnlineSoftmax::emit_packed
  bool dynamic;           ///< work items come from a counter, longest first (ragged: RaggedItems)
  int watched_parts = 0;  ///< of OnlineSoftmax::emit_watched; 0: every tile takes its maximum
  bool skips_tiles;       ///< warpgroups leave out last tiles that only later ones see
  bool separate_o;        ///< O has its own staging; otherwise it reuses Q's rows
  bool o_floats = false;  ///< O needs none: its floats leave as the accumulators hold them
  int producer_registers, math_registers;

  SmemMap smem;
  int smem_q, smem_k, smem_v, smem_o, smem_q_barriers, smem_k_barriers, smem_v_barriers, smem_work_barriers,
      smem_work, smem_items, smem_raw, smem_raw_barriers, smem_raw_scales, smem_scales;

  std::optional<MHAOperand> operand;
  std::optional<TMAConsumerPipeline> k, v;
  std::optional<StagedPipeline> work;  ///< ring of work items, dynamic only
  std::optional<StagedPipeline> raw;   ///< ring of tiles as copied: narrow K and V in turn, V of FP8
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile
  std::optional<OnlineSoftmax> softmax;
  std::optional<Wgmma> qk, pv;
  std::optional<Wgmma> qk_rope;  ///< where rope_apart()

  int num_threads() const { return 128 * (1 + num_math_warpgroups); }
  int math_warps() const { return 4 * num_math_warpgroups; }
  SmemTile q_tile() const { return {64, span_bytes, element_bytes}; }  ///< one warpgroup's rows
  SmemTile o_tile() const { return {64, o_span, 2}; }
  int q_bytes() const { return 64 * padded_depth * element_bytes; }  ///< of one warpgroup
  int o_bytes() const { return o_floats ? 0 : 64 * ov_depth * 2; }
  /// Distance between the Q rows of two warpgroups, and between their O rows where O takes Q's place.
  int q_stride() const { return separate_o ? q_bytes() : std::max(q_bytes(), o_bytes()); }
  int o_stride() const { return separate_o ? o_bytes() : q_stride(); }
  int panel_columns() const { return span_bytes / element_bytes; }
  /// Panels of a tile of K that come from K; those after them are rotary columns of a tensor of their own.
  int k_panels() const { return (padded_depth - rope) / panel_columns(); }
  int o_panel_columns() const { return o_span / 2; }
  /// Columns of K without those.
  int plain_columns() const { return depth - rope; }
  /// Those are of 16 bits beside K of bytes: no converter and no scale concerns them. Their copy goes to their panels of
  /// K's slot, and their products are of Q's type.
  bool rope_apart() const { return narrow && rope > 0; }
  bool is_rope_step(int step) const { return rope_apart() && step * step_elements() >= plain_columns(); }
  bool begins_rope(int step) const { return rope_apart() && step * step_elements() == plain_columns(); }

  // Narrow K and V, and V of FP8: what is copied goes through the other warps of warpgroup 0.
  bool converts() const { return narrow || fp8; }
  static constexpr int kConverterWarps = 3, kConverterThreads = 32 * kConverterWarps;
  int raw_span() const { return panel_columns(); }  ///< bytes of a row of a panel of bytes
  /// Narrow tiles come in panels of raw_span columns; where those of a page's rows do not fill the 128 bytes at
  /// which boxes begin, in single rows of all `columns`, each with room to the next whole 128 bytes.
  bool raw_rows = false;
  int raw_pitch(int columns) const { return raw_rows ? align_up(columns, 128) : raw_span(); }
  int raw_slot_bytes() const {
    const int columns = fp8 ? padded_ov : std::max(plain_columns(), ov_depth);
    return BN * (raw_rows ? raw_pitch(columns) : columns);
  }
  bool scales() const { return config.operand->quantization.has_value(); }
  /// Keys have scales of their own, which travel with the tiles.
  bool scales_by_token() const { return scales_by_row(config.operand->quantization); }
  /// Those of 8-bit K and V under a wider Q are in the slots of K and V, where converters leave them; in FP8
  /// both are copied to K's slot, since P takes V's before it is rounded.
  bool narrow_tokens() const { return narrow && scales_by_token(); }
  bool fp8_tokens() const { return fp8 && scales_by_token(); }
  /// Scales of keys come as tiles, by tensor copies on the barriers of what they belong to. Readers want
  /// those of a tile side by side: in pieces of 16 keys converters spill.
  bool scale_tiles() const {
    return raw_groups() == 1 && scales_by_head(config.operand->quantization) && operand->maps_scales() &&
           operand->scale_tile_bytes() == scale_bytes();
  }
  /// One scale for a head, or for all.
  bool head_scale() const { return scales() && !scales_by_token(); }
  /// The scale of K is part of softmax's factor, where scores are not modified before it and it concerns all columns.
  bool scale_joins_factor() const { return head_scale() && modifier->none() && !rope_apart(); }
  /// Index of the head's scale.
  std::string head_of_scales() const {
    return scale_of_head(*config.operand->quantization, "work.batch", "work.kv_head");
  }
  /// Of a tile's keys, in a slot of a ring.
  int scale_bytes() const { return scales_by_token() ? 4 * BN : 0; }
  /// Scales of a row of `columns`: one, or of n elements each, the last of as many as are left.
  static int groups_of(const Config& c, int columns) {
    const auto& scales = c.operand->quantization;
    const bool several = scales && scales->granularity == Quantization::Granularity::per_block;
    return several ? ceil_div(columns, scales->block) : 1;
  }
  /// The most that a row of K or V has. Where they are several converters take them apart (row_scales.cpp).
  int raw_groups() const { return narrow ? groups_of(config, std::max(plain_columns(), ov_depth)) : 1; }
  /// Parts of a sum over columns of K with a unit each.
  int k_groups() const { return narrow ? groups_of(config, plain_columns()) : 1; }
  int k_scale_bytes() const { return k_groups() * scale_bytes(); }
  /// Scales of a tile as they are copied, those of a group side by side.
  int raw_scale_bytes() const { return raw_groups() * scale_bytes(); }
  /// The items of a ragged batch are found by a warp: one of its own, unless converters take its place.
  bool own_item_warp() const { return ragged && !converts(); }
  /// Copies take a whole warp: a lane for each page or scale, or for each sequence where it finds items.
  bool warp_produces() const {
    return operand->table() || (scales_by_token() && !scale_tiles()) || (ragged && !own_item_warp());
  }
  /// Warps that tell whoever writes work items that they have read a slot.
  int work_readers() const {
    return (q_frees_work_slots() ? 0 : math_warps()) + (converts() ? kConverterWarps : 0) +
           (own_item_warp() ? 1 : 0);
  }
  /// A member of the emitted `work`, as it is read far from where the item was taken: that of a ragged batch
  /// from shared memory, since registers are short.
  std::string late(std::string_view member) const {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kPlaces{
        {{"m_start", "item[0].x"},
         {"head", "item[0].y"},
         {"batch", "item[0].z"},
         {"q_start", "item[1].x"},
         {"seqlen_q", "item[1].y"},
         {"k_start", "item[1].z"},
         {"seqlen_k", "item[1].w"}}};
    for (const auto& [name, place] : kPlaces)
      if (ragged && name == member) return std::string(place);
    return fmt::format("work.{}", member);
  }
  /// The first of a warp's 16 rows in the block, as it is read there. Beside O of more than 128 columns the numbers of
  /// warp and warpgroup have no registers to wait in (bench/NOTES.md 157): from the thread's number again.
  std::string late_row() const {
    return short_of_registers() ? "16 * ((int)(threadIdx.x / 32) - 4)" : "64 * consumer + 16 * warp";
  }
  /// The KV head, likewise.
  std::string late_kv_head() const {
    return short_of_registers() ? fmt::format("{} / (heads_q / heads_kv)", late("head")) : "work.kv_head";
  }
  bool short_of_registers() const {
    return hidden.on() && ((depth > 128 && o_floats) || (ov_depth > 128 && !converts()));
  }
  /// KV tiles of one head that stay in the L2 cache while a section of the batch is read.
  int section_tiles() const {
    constexpr int kSectionBytes = 32 << 20;
    return kSectionBytes / (BN * (depth + ov_depth) * static_cast<int>(size_of(*config.kv_dtype)));
  }

  /// Items without keys hand Q's rows over, too, where O takes their place; those of full attention over rows
  /// of one length are all of that kind or none is, and then there is nothing to wait for.
  bool hands_over_empty() const { return !separate_o && (mask->bounded_above() || ragged); }
  /// Where every item goes through Q's rows the producer, which has them back from all consumers before it
  /// publishes the next item, knows that they have read the slot it writes. Of converters it knows that only
  /// by what they do for items with keys.
  bool q_frees_work_slots() const { return !separate_o && !ragged; }
  bool work_slots_free() const { return q_frees_work_slots() && !converts(); }
  /// Whether some KV tile may be seen whole by the 64 rows of a warpgroup: not under a window shorter than a
  /// tile and the rows' spread.
  bool whole_tiles() const { return !mask->bounded_below() || mask->most_common_keys(64) >= BN; }
  /// Work items are taken per cluster.
  std::string first_tile() const {
    return cluster == 1 ? "blockIdx.x" : fmt::format("blockIdx.x / {}", cluster);
  }
  std::string tile_step() const {
    return cluster == 1 ? "gridDim.x" : fmt::format("gridDim.x / {}", cluster);
  }
  PrefillWork work_items() const { return {BM, BN, cluster, ragged, dynamic, &*mask, part}; }
  /// The last KV tile an item visits (they go from the highest down).
  std::string first_block() const { return work_items().first_block(); }
  /// The emitted names that masks and score modifiers read, inside a work item.
  ScoreContext score_context() const {
    ScoreContext context;
    context.rows = {{"row_0", "work.head"}, {"row_0 + 8", "work.head"}};
    context.batch = "work.batch", context.seqlen_q = aligned_rows(), context.seqlen_k = "work.seqlen_k";
    return context;
  }
  /// Row i stands at key position i + seqlen_k less this: the sequence's own rows, or of a part of it what the launch
  /// says (part_kernels.hpp).
  const char* aligned_rows() const { return PrefillWork{.part = part}.aligned_rows(); }
  /// True when code of the consumers names the lane's rows.
  bool needs_rows() const {
    return results.lse() || o_floats || mask->by_place() || mask->has_bits() || modifier->names_rows();
  }
  /// True when a row may be without a visible key after any tile, not only at the ends of its range.
  bool hides_anywhere() const { return mask->has_bits() || modifier->may_hide(); }
  int step_elements() const { return 32 / element_bytes; }
  int k_steps() const { return depth / step_elements(); }  ///< wgmma steps of QK
  int v_steps() const { return BN / step_elements(); }     ///< wgmma steps of PV
  int p_registers() const { return BN / 8 * element_bytes; }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<PrefillPlan> plan_prefill(Config config, bool ping_pong, Violations& out);

/// The kernel's text.
KernelSource emit_prefill(const PrefillPlan& plan);

}  // namespace kiln::sm90
