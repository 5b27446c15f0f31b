// Every constant of an sm100_latent_pair kernel, derived once from the resolved config.
//
// Two blocks of a cluster take 128 packed query rows over a latent cache, 64 each. A tile of 128 keys is multiplied by
// both tensor cores together (cta_group::2, M 128): each block has half of the tile's rows of K, and half of V's columns
// of all its rows. So K is read once for 128 rows, and every tensor core runs at its full rate, which 64 rows alone do not
// reach.
//
//   product       A, in each block        B, in each block                    D, in each block
//   S = Q K'      its 64 rows of Q        64 keys x depth                     its 64 rows x 128 keys
//   O += P V      its 64 rows of P        128 keys x half of the columns      its 64 rows x a block of 256 columns
//
// D of 64 rows fills all lanes of tensor memory: lanes 64 to 127 have the same rows as lanes 0 to 63, and the second half
// of the columns. A row of softmax is therefore in two threads, which have the keys of one block's half each.
#pragma once

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

struct PairPlan : MultipliedType {
  Config config;    ///< resolved
  FA4Config rings;  ///< tile and stages of K and V in one block, as their pipelines take them

  static constexpr int kRows = 64;  ///< packed query rows of a block
  static constexpr int kBlocks = 2;
  static constexpr int kItemRows = kBlocks * kRows;
  static constexpr int kKeys = 128;     ///< of a tile
  static constexpr int kOwnKeys = 64;   ///< of these, whose rows of K a block has
  static constexpr int kColumns = 256;  ///< of O, of a product
  static constexpr int kPiece = 32;     ///< columns of O that a thread has in registers at once
  static constexpr int kThreads = 192;  ///< four warps of softmax, one for products, one for copies
  static constexpr int kScoreColumns = kKeys / 2;  ///< of tensor memory, that S takes

  int depth = 0, ov_depth = 0, num_kv_stages = 0;
  bool scales = false;    ///< of Q and of K's rows, one for a head
  int num_qk_stages = 1;  ///< chunks of K's columns, which come and are freed one by one
  int k_columns = 0;      ///< of depth: those in K's own tensor
  int rope = 0;           ///< the others, rotary columns in a tensor of their own
  RowResults results;

  sm90::SmemMap smem;
  int smem_q = 0, smem_k = 0, smem_v = 0, smem_p = 0, smem_exchange = 0, smem_table = 0, smem_barriers = 0,
      smem_flag = 0, smem_odd = 0, smem_tmem = 0;

  std::optional<sm90::MHAOperand> operand;  ///< of K: tiles of 64 keys, of which a block has every second
  std::optional<sm90::MHAOperand>
      v_operand;  ///< of V, in the same boxes: all keys of a tile, or half of them
  std::optional<TMAConsumerPipeline> k, v;
  std::optional<StreamK> stream;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  /// Columns of Q's tile.
  int padded_depth() const { return align_up(depth, kSpanColumns); }
  int padded_ov() const { return rings.padded_ov; }
  int k_steps() const { return ceil_div(depth, step_columns()); }
  int v_steps() const { return kKeys / step_columns(); }
  /// Products of V's columns, 256 each and the last 128 or 256.
  int out_blocks() const { return ceil_div(padded_ov(), kColumns); }
  int columns_of(int block) const { return std::min(kColumns, padded_ov() - block * kColumns); }
  /// Chunk of V's columns, with barriers of its own, that block `j` of O reads.
  int chunk_of(int j) const { return rings.v_chunks > 1 ? j : 0; }
  bool ends_chunk(int j) const { return rings.v_chunks > 1 || j + 1 == out_blocks(); }
  /// Times that the copies of V of a tile look pages up.
  int v_parts() const { return operand->paged_rows() > 0 ? 1 : 2; }
  /// Columns of tensor memory: S of two tiles, then O, half of its columns in half of the lanes.
  static constexpr int tmem_o() { return 2 * kScoreColumns; }
  TensorMemoryMap tmem() const { return {kScoreColumns, tmem_o(), tmem_o(), tmem_o() + padded_ov() / 2}; }
  TmemAccess scores_access() const { return {kScoreColumns, 128}; }
  TmemAccess output_access() const { return {kPiece, 128}; }
  int pieces() const { return padded_ov() / 2 / kPiece; }
  SmemTile row_tile() const { return {kRows, span_bytes(), element_bytes()}; }
  MMASmemDescriptor q_descriptor() const { return {row_tile(), true}; }
  MMASmemDescriptor p_descriptor() const { return {row_tile(), true}; }
  /// A block's part of an item: O as rows of floats, not divided by the sums, then (maximum, sum) of each row.
  int partial_floats() const { return kRows * ov_depth + 2 * kRows; }
  /// The emitted names that masks and score modifiers read.
  ScoreContext score_context() const {
    ScoreContext context;
    context.rows = {{"row_query[row]", "row_head[row]"}};
    context.batch = "s.batch";
    context.seqlen_q = stream->aligned_rows(), context.seqlen_k = "s.sequence.seqlen_k";
    return context;
  }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<PairPlan> plan_latent_pair(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_latent_pair(const PairPlan& plan);

}  // namespace kiln::sm100
