// Every constant of a cdna_prefill kernel, derived once from the resolved config.
#pragma once

#include <optional>

#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/cdna_tensors.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/cdna/kv_buffer.hpp"
#include "generator/systems/cdna/online_softmax.hpp"
#include "generator/systems/cdna/q_tile.hpp"
#include "generator/systems/cdna/row_scales.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"

namespace kiln::cdna {

/// How K and V pass through LDS.
enum class PrefillLoop {
  tiles,     ///< K and V tiles in stages of their own
  v_in_k,    ///< V is read from the columns of K's tile
  pingpong,  ///< as tiles, the waves in two groups half a tile apart
  blocks,    ///< blocks of bk_smem columns of K, then of V, through one ring of stages (full_kv false)
};

struct PrefillPlan {
  Config config;  ///< resolved
  PrefillLoop loop = PrefillLoop::tiles;

  Mfma mfma;
  int depth = 0, ov_depth = 0, BM = 0, BN = 0, BK = 0;
  int ov_columns = 0;  ///< of O in registers: ov_depth up to whole groups of V's fragments
  int num_warps = 0, num_threads = 0;
  int k_stages = 0, v_stages = 0;
  RowResults results;
  bool part = false;  ///< of a sequence: positions are given at launch (part_kernels.hpp)
  std::optional<Quantization::Granularity> scales;  ///< of 8-bit operands: per tensor, or per KV head
  RowScales row_scales;                             ///< of 8-bit K and V under a 16-bit Q: by row
  OperandKind kind = OperandKind::contiguous;
  bool counted = true;                            ///< waits count loads; otherwise they drain
  bool staged = false;                            ///< loads pass through registers (`dma` reg_staged)
  int max_registers = 0;                          ///< VGPRs of a lane, AGPRs included
  int smem_rope = 0, smem_v = 0, smem_bytes = 0;  ///< K lies at 0

  std::optional<QTile> q;
  std::optional<KVBuffer> k, v;
  std::optional<KVBuffer> k_rope;  ///< K's last columns where they have a tensor of their own
  int k_loads() const { return loads_of(*k, k_rope); }
  /// The wait for V(n) also waits for the next tile's K: only the first K has a wait of its own.
  bool drains_ahead() const {
    return loop == PrefillLoop::tiles && !staged && !counted && k_stages == 2 && v_stages == 1;
  }
  int v_slices = 1;         ///< parts of the output columns whose fragments are read one after the other
  int v_slice_columns = 0;  ///< columns of one
  std::optional<OnlineSoftmax> softmax;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  /// The emitted names that masks and score modifiers read.
  ScoreContext score_context() const {
    ScoreContext context;
    context.rows = {{"row", "head"}};
    context.seqlen_q = aligned_rows();
    return context;
  }
  /// Row i stands at key position i + seqlen_k less this.
  const char* aligned_rows() const { return part ? "aligned_rows" : "seqlen_q"; }
  /// The first KV tile a block visits; num_tiles is one past its last.
  std::string first_tile() const { return mask->bounded_below() ? "first_tile" : "0"; }

  int ring_stages() const { return k_stages; }
  int tile_blocks() const { return k->blocks() + v->blocks(); }
  /// Tiles in the text of the loop body: until stages repeat.
  int loop_tiles() const {
    return loop == PrefillLoop::blocks ? tiles_of_ring(ring_stages(), tile_blocks()) : k_stages;
  }
  std::vector<const char*> tensors() const { return tensor_names(v_in_k(), k_rope.has_value()); }
  bool v_in_k() const { return loop == PrefillLoop::v_in_k; }
  /// K and V of a tile have stages of their own.
  bool own_stages() const { return loop == PrefillLoop::tiles || loop == PrefillLoop::pingpong; }

  /// Queries lie end to end, with cu_seqlens_q; contiguous ones have a batch axis.
  bool ragged_q() const { return operand_form(kind).ragged_q; }
  /// K and V are found through a table.
  bool table() const { return operand_form(kind).table(); }
  bool q_bytes() const { return is_fp8(config.dtype); }
  bool kv_bytes() const { return size_of(*config.kv_dtype) == 1; }
  /// Parameters of the kernel that scores are scaled by.
  std::vector<const char*> factors() const { return modifier->factors(results.lse()); }
  ScoreLayout scores() const { return mfma.score_layout(BN / mfma.shape.m); }
  /// Rows of one wave.
  int WM() const { return mfma.shape.n; }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken. The schedule is the named one of
/// cdna_prefill and cdna_prefill_pingpong, the first where none is named.
std::optional<PrefillPlan> plan_prefill(const Config& user, Violations& out);

/// The kernel's text.
KernelSource emit_prefill(const PrefillPlan& plan);

}  // namespace kiln::cdna
