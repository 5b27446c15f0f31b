// Every constant of an sm80_prefill kernel, derived once from the resolved config.
#pragma once

#include <optional>

#include "generator/config/quantization.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/online_softmax.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/sm80/kv_buffer.hpp"
#include "generator/systems/sm80/q_tile.hpp"
#include "generator/systems/sm80/token_scales.hpp"

namespace kiln::sm80 {

struct PrefillPlan {
  Config config;  ///< resolved

  int depth = 0, ov_depth = 0, BM = 0, BN = 0, BK = 0;
  int num_warps = 0, num_threads = 0, num_stages = 0;
  bool ragged = false;  ///< Q and O
  OperandKind kind = OperandKind::contiguous;
  int page_size = 0;  ///< rows of a page; 0: not paged
  RowResults results;
  bool part = false;  ///< of a sequence: positions are given at launch (part_kernels.hpp)
  bool q_in_registers =
      false;  ///< Q fragments stay in registers; otherwise they are read again for every tile
  int max_registers = 0;
  int smem_k = 0, smem_v = 0, smem_bytes = 0;  ///< Q lies at 0
  /// Of 8-bit rows, for which K and V are one tile of 16 bits: scales of its keys, and stages of bytes.
  int smem_scales = 0, smem_k_bytes = 0, smem_v_bytes = 0;

  std::optional<QTile> q, o;  ///< O is staged in the rows of Q
  std::optional<KVBuffer> k, v;
  std::optional<TokenScales> scales;
  std::optional<OnlineSoftmax> softmax;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  /// The emitted names that masks and score modifiers read.
  ScoreContext score_context() const {
    ScoreContext context;
    context.rows = {{"row_0", "head"}, {"row_0 + 8", "head"}};
    context.seqlen_q = aligned_rows();
    return context;
  }
  /// Row i stands at key position i + seqlen_k less this.
  const char* aligned_rows() const { return part ? "aligned_rows" : "seqlen_q"; }
  /// The first KV tile a block visits; num_tiles is one past its last.
  std::string first_tile() const { return mask->bounded_below() ? "first_tile" : "0"; }
  bool narrow() const { return k->narrow(); }
  /// One scale for a head, or for all.
  bool head_scale() const { return config.operand->quantization && !scales->any(); }
  std::string head_of_scales() const {
    return scale_of_head(*config.operand->quantization, "batch", "kv_head");
  }
  /// First row of the first KV tile.
  std::string first_key() const { return mask->bounded_below() ? "first_tile * " + std::to_string(BN) : "0"; }
  /// True when code names the lane's rows.
  bool needs_rows() const {
    return results.lse() || mask->by_place() || mask->has_bits() || modifier->names_rows();
  }
  /// True when a row may be without a visible key so far.
  bool may_hide_all() const { return mask->may_hide_all() || modifier->may_hide(); }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<PrefillPlan> plan_prefill(const Config& user, Violations& out);

/// The kernel's text.
KernelSource emit_prefill(const PrefillPlan& plan);

}  // namespace kiln::sm80
