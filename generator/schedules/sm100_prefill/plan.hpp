// Every constant of an sm100_prefill kernel, derived once from the resolved config.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

#include "generator/schedules/common/prefill_work.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/fa4_config.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/sm100/row_softmax.hpp"
#include "generator/systems/sm100/tma_consumer_pipeline.hpp"
#include "generator/systems/sm100/tmem_access.hpp"
#include "generator/systems/sm90/mha_operand.hpp"
#include "generator/systems/sm90/smem_map.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm100 {

/// Where a block's next work item comes from: the next of its own, every role counting; a counter in global memory, which
/// a warp asks; the items of blocks that have not started, which a warp cancels.
enum class Scheduler { fixed, counter, launch_control };

/// Registers of a thread: of softmax, correction, and the warps that issue products and copies.
struct RoleRegisters {
  int softmax = 184, correction = 88, issue = 56;
  /// A warpgroup of softmax for each tile of queries and one of each other role share what the launch has: 128 a thread
  /// of 512, 168 of 384.
  constexpr bool fit(int tiles = 2) const {
    return tiles * softmax + correction + issue <= (tiles == 2 ? 4 * 128 : 3 * 168);
  }
};

struct PrefillPlan {
  Config config;  ///< resolved
  FA4Config fa4;  ///< tile, tensor memory, rings

  int depth = 0, ov_depth = 0, BN = 0;
  double exp_offload = 0;  ///< share of exponentials on the FMA pipe
  RowResults results;
  bool fp8 = false;     ///< Q, K, V and P are E4M3
  bool scales = false;  ///< Q, K and V have scales, of a tensor, a head or a head of a sequence
  bool ragged = false;  ///< Q and O run over the rows of all sequences: every operand but contiguous
  Scheduler scheduler = Scheduler::fixed;

  sm90::SmemMap smem;
  int smem_q = 0, smem_k = 0, smem_v = 0, smem_factors = 0, smem_barriers = 0, smem_k_barriers = 0,
      smem_v_barriers = 0, smem_work_barriers = 0, smem_work = 0, smem_answer = 0, smem_tmem = 0;

  std::optional<sm90::MHAOperand> operand;
  std::optional<TMAConsumerPipeline> k, v;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  static constexpr int kRows = 128;                ///< of a tile of queries
  static constexpr int kPanelBytes = kRows * 128;  ///< of O: 64 columns
  /// Who tells the warp that finds work items that it has read one: softmax, correction, products, copies.
  int item_readers() const { return 4 * tiles() + 4 + 1 + 1; }
  /// Tiles of queries of a block.
  int tiles() const { return fa4.num_q; }
  /// Blocks that take an item together.
  int blocks() const { return fa4.params.pair_cta ? 2 : 1; }
  /// M and N of the products: of a pair all whole spans of V, half of which each block has.
  int product_rows() const { return kRows * blocks(); }
  int product_columns() const { return blocks() == 2 ? fa4.padded_ov : ov_depth; }
  int block_rows() const { return tiles() * kRows; }
  // Warpgroups: softmax of each tile, correction, and one of whose warps issue products and copies, and find work items.
  int softmax_threads() const { return 128 * tiles(); }
  int threads() const { return softmax_threads() + 256; }
  int products_warp() const { return softmax_threads() / 32 + 4; }
  int copies_warp() const { return products_warp() + 1; }
  int finder_warp() const { return products_warp() + 2; }
  RoleRegisters registers;

  SmemTile q_tile() const { return {kRows, fa4.swizzle_bytes, fa4.element_bytes()}; }
  MMASmemDescriptor q_descriptor() const { return {q_tile(), true}; }
  int q_panels() const { return fa4.padded_qk / fa4.gran; }
  int o_panels() const { return fa4.padded_ov / fa4.gran; }
  int q_bytes() const { return q_panels() * q_tile().panel_bytes(); }  ///< of one tile
  /// Bytes from one tile of Q to the other; O of a tile leaves through its Q's place.
  int q_stride() const { return std::max(q_bytes(), o_panels() * kPanelBytes); }
  TensorMemoryMap tmem() const { return {fa4.tmem_s1, fa4.tmem_o0, fa4.tmem_o1, fa4.tmem_used}; }
  /// A thread's accessors of tensor memory: of its row of S at once, of its row of O in pieces.
  TmemAccess scores_access() const { return {BN, kRows}; }
  /// These are smaller where pages and the repair of rows need their registers.
  TmemAccess output_access() const { return {ov_depth % 32 == 0 && !guards_pages() ? 32 : 16, kRows}; }
  bool guards_pages() const { return hidden.on() && operand->table(); }
  /// Keys of P after which products with V begin: all but the last 32, or all where P is one piece.
  int first_keys() const { return fa4.num_pv_stages == 1 ? BN : BN - 32; }
  int k_steps() const { return (depth + fa4.MMA_K - 1) / fa4.MMA_K; }
  int v_steps() const { return BN / fa4.MMA_K; }
  PrefillWork work() const { return {block_rows(), BN, blocks(), ragged, has_finder(), &*mask}; }
  /// The largest score of a row comes with the scores, where nothing changes most tiles of them.
  bool max_by_load() const {
    return target_info(config.target).load_reduces && modifier->none() && !mask->has_bits();
  }
  /// The scale of scores is part of softmax's factor, where they are not modified before it.
  bool scale_joins_factor() const { return scales && modifier->none(); }
  /// Emitted factors of a score to log2 and natural units.
  std::string scale_log2() const { return scale_joins_factor() ? "factor" : modifier->scale_log2(); }
  std::string natural_scale() const {
    return scale_joins_factor() ? "(factor * 0.693147181f)" : modifier->scale();
  }
  RowSoftmax softmax() const { return RowSoftmax({BN, scale_log2(), fp8, exp_offload}); }
  /// A warp finds work items for all roles, the longest first.
  bool has_finder() const { return scheduler != Scheduler::fixed; }
  /// KV tiles of one head that stay in the L2 cache while a section of a ragged batch is read (bench/NOTES.md 9).
  int section_tiles() const {
    constexpr int kSectionBytes = 32 << 20;
    return kSectionBytes / (BN * (depth + ov_depth) * fa4.element_bytes());
  }
  /// Masks, modifiers or results name the row that a thread of softmax has.
  bool names_rows() const {
    return results.lse() || mask->by_place() || mask->has_bits() || modifier->names_rows();
  }
  /// The emitted names that masks and score modifiers read.
  ScoreContext score_context() const {
    ScoreContext context;
    context.rows = {{"row", "work.head"}};
    context.batch = "work.batch", context.seqlen_q = "work.seqlen_q", context.seqlen_k = "work.seqlen_k";
    return context;
  }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<PrefillPlan> plan_prefill(Config config, Violations& out);

/// A step of that (registers.cpp): the division of registers that spills none.
RoleRegisters role_registers(const PrefillPlan& plan, const Config& config);

/// The kernel's text.
KernelSource emit_prefill(const PrefillPlan& plan);

}  // namespace kiln::sm100
