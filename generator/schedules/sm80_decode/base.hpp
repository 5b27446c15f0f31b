// What the decode kernels of sm_80 have in common: packed query rows, 16 to a matrix instruction, two of them
// a lane; a stream-K walk over segments; the result of a row and the combination of an item's parts.
#pragma once

#include <functional>
#include <optional>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/online_softmax.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::sm80 {

struct DecodeBase {
  Config config;  ///< resolved

  int BM = 16, BN = 0, depth = 0, ov_depth = 0;
  int num_threads = 0, num_stages = 0, ctas_per_sm = 1;
  int smem_bytes = 0;  ///< the last 16 hold arrivals at an item
  RowResults results;

  std::optional<MHAOperand> operand;
  std::optional<OnlineSoftmax> softmax;
  std::optional<StreamK> stream;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  bool ragged() const { return operand_form(config.operand->kind).ragged_q; }
  DType out() const { return *config.out_dtype; }
  /// The emitted names that masks and score modifiers read: packed rows differ in position and head.
  ScoreContext score_context() const;
  /// A partial result: O, then maximum and sum of each row.
  int partial_floats() const { return BM * ov_depth + 2 * BM; }
  int smem_flag() const { return smem_bytes - 16; }
  /// Whether some column of O is not finite, emitted.
  std::string odd_flag() const { return fmt::format("*(int*)(smem_bytes + {})", smem_flag() + 8); }
  Resources resources() const;
  nlohmann::ordered_json operand_constants() const;

  /// Once BM, BN and smem_bytes stand: blocks a multiprocessor and the systems, for a warp that has
  /// `keys` of a tile and `output_columns` of O. `c`: the resolved config, not yet in place.
  void set_row_systems(const Config& c, int keys, int output_columns);
};

/// Parameters in order; `cache`: those of K and V and their scales.
std::vector<KernelParam> kernel_params(const DecodeBase& p, std::vector<KernelParam> cache);
/// `problem` and `group`.
void emit_problem(Writer& w, const DecodeBase& p);
/// Of this lane's packed rows r = 0, 1: packed_r, position_r, real_r, and q_row_r at column `step` * (lane &
/// 3). `row`: expression of the warp's first row, empty for 0, for which row_r is named as well.
void emit_query_rows(Writer& w, const DecodeBase& p, const std::string& row, int step);
/// Where the tiles lie that some row sees in part.
void emit_limits(Writer& w, const DecodeBase& p);
/// Modified and masked scores of the `keys` keys from first_key on.
void emit_mask(Writer& w, const DecodeBase& p, int keys);
/// Maxima and sums of the rows, and the registers of O, at a segment's start.
void emit_reset(Writer& w, const DecodeBase& p, int output_registers);
/// Lambdas finish(row, maximum, sum, first), the factor that makes O of a packed row its output (`first`
/// stores the LSE; `scaled`: `v_factor` is part of it), and output_row(row), its first element.
void emit_finish(Writer& w, const DecodeBase& p, bool scaled);
/// Of a segment that is a part, whose result is in the workspace: counts its arrival; the last combines.
void emit_arrival(Writer& w, const DecodeBase& p);
/// Rows that V of keys has reached which the mask hides from them.
void emit_repair(Writer& w, const DecodeBase& p);

/// Sections of both kernels' text.
void use_common(Prelude& prelude, const DecodeBase& p);
/// The kernel: `products`, instructions to expect; `facts`, of the head; `body`, the function's text.
KernelSource decode_source(const DecodeBase& p, const Prelude& prelude,
                           const std::vector<KernelParam>& params, int products, bool kv_bytes,
                           const std::string& facts, const std::function<void(Writer&)>& body);

}  // namespace kiln::sm80
