// OnlineSoftmax over the accumulators of K Q^T on CDNA: a lane owns one query, and the lanes of the other
// groups (lane ^ 32, and lane ^ 16 with 16x16 instructions) hold further keys of the same one. The row
// maximum is therefore a tree in the lane and one or two exchanges; sums stay in the lane until the end.
//
// Scores stay unscaled; scale * log2(e) is folded into the exponent's FMA: p = exp2(s * scale_log2 - base). A
// row's base is m * scale_log2, rounded, or 0 of scores less m where that is large
// (systems/online_softmax.hpp).
#pragma once

#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/systems/cdna/mfma.hpp"

namespace kiln::cdna {

class OnlineSoftmax {
 public:
  struct Shape {
    Mfma qk, pv;
    int score_tiles = 0;   ///< accumulators of S: BN / M
    int output_tiles = 0;  ///< accumulators of O
    /// Growth of the maximum (log2 units) below which O keeps its old scale; 0: always rescale.
    double rescale_threshold = 8.0;
    std::string pack;  ///< the floats of a register of P, to that register
    /// log2 of the factor of P: FP8 has few steps below 1. It cancels in O / row_sum.
    int p_shift = 0;
    /// Emitted factors from scores to log2 units and to natural units.
    std::string scale_log2 = "scale_log2", scale = "scale";
    std::string sink;                 ///< logit of the row's sink; empty: none
    std::vector<std::string> in_sum;  ///< factor of each register of P in the row's sum; none: 1
  };
  explicit OnlineSoftmax(Shape shape) : shape_(std::move(shape)) {}

  void use(Prelude& prelude) const;
  /// row_max and row_sum, reset.
  void emit_reset(Writer& w) const;
  /// New maximum of the tile in s_acc; sets `rescale` (wave-uniform), alpha and shift.
  void emit_max(Writer& w) const;
  /// O *= alpha where the maximum grew.
  void emit_rescale(Writer& w) const;
  /// s_acc = exp2(...), added to row_sum.
  void emit_exp(Writer& w) const;
  /// p, from s_acc: the B operand of V^T P^T.
  void emit_pack(Writer& w) const;
  /// After the last tile: row_sum over the lane groups, inv_sum (0 for a row without visible keys).
  void emit_finish(Writer& w) const;
  /// The row's log-sum-exp, after emit_finish.
  std::string lse() const;

 private:
  int registers() const { return shape_.score_tiles * shape_.qk.accum(); }
  std::string score(int i) const;
  std::string summand(int i) const;
  /// What the row's sums are relative to, in natural units.
  std::string natural_max() const;
  /// `what` of the other lane groups folded into `value`, one exchange each.
  void emit_fold(Writer& w, const std::string& value, const std::string& combine) const;
  Shape shape_;
};

}  // namespace kiln::cdna
