// OnlineSoftmax: running row maximum and sum over KV tiles, with the accumulator layout that mma.sync and
// wgmma share: register i of a lane holds row (lane >> 2) + 8 * ((i >> 1) & 1) and column 8 * (i >> 2) + 2 *
// (lane & 3) + (i & 1), so a lane owns two rows and four neighbouring lanes (a quad) share them.
//
// Scores stay unscaled; the factor to log2 units is folded into the exponent's FMA: p = exp2(s * scale_log2 -
// base), where the row's base is m * scale_log2, rounded. The factor is the kernel's parameter, or a literal
// that a score modifier gives (score_mod.hpp).
//
// The largest P of a row is 2^r then, with r what the base's rounding lost. Sums of all tiles and parts have
// the same base, so r cancels in O and in the log-sum-exp; but it grows with the scores. Bases of 2^16 and
// more (steep rows) take a branch of the tile: s - m first, which is exact near m, then the product with base
// 0. So P is at most a little over 1 whatever the scores are, and a score of -3e38 is one like any other.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"

namespace kiln {

/// A logit that is not a multiple of its score, with a cheap form that emit_watched proves right: `near`
/// rises everywhere, is good where logits lie in [-bound, bound], and beyond lies beyond, too. So a sum shows
/// every score above, and scores below weigh nothing beside a maximum well above -bound.
struct LogitCurve {
  static constexpr double kWeightless =
      22;            ///< log2 units below a row's maximum where a score weighs nothing
  std::string log2;  ///< emitted logit in log2 units of score {0}; keeps -inf
  std::string near;  ///< emitted, the same by the cheap form, less {1}
  double bound = 0;  ///< log2 units
};

class OnlineSoftmax {
 public:
  struct Shape {
    int score_regs = 0;   ///< registers of S in a lane: BN / 2
    int output_regs = 0;  ///< registers of O in a lane: ov_depth / 2
    double rescale_threshold =
        8.0;  ///< grow of the maximum (log2 units) below which O keeps its old scale; 0: always rescale
    /// Parts of S whose sums emit_watched looks at one after the other, 0 where it is not used. Each needs
    /// score_regs / parts registers beside S, and a vote.
    int watched_parts = 0;
    double exp_offload = 0;  ///< fraction of exponentials computed on the FMA pipe
    /// Base-2 logarithm of P where a row's maximum is. FP8 keeps small P apart from 0 only if this is
    /// well above 0; it cancels in the division by the sum.
    double top = 0;
    /// P is multiplied by a weight of its key before it is rounded (with `top`): loaded from `v_scale_at`,
    /// two keys of each eight a lane. Row maxima are those of the product, in log2 units and less `top`;
    /// sums are of P without.
    bool weighted = false;
    /// In the first tile only the next `scaled_keys` keys have one, an emitted number; what stands for the
    /// others is anything.
    bool weights_end = false;
    /// For softmax by parts only: what the logits are, unless scores times the factor below. Row maxima
    /// are in log2 units then.
    std::optional<LogitCurve> curve;
    /// Rows may have no visible key for longer than their first tile (emit_watched, emit_packed).
    bool hides = false;
    /// Emitted factors from the score registers to log2 units and to natural units.
    std::string scale_log2 = "scale_log2", scale = "scale";
    /// Emitted logits (natural units) of the attention sink for the lane's rows; empty: no sink.
    std::vector<std::string> sink;
  };
  explicit OnlineSoftmax(const Shape& shape) : shape_(shape) {}

  void use(Prelude& prelude) const;
  /// row_max_{0,1}, row_sum_{0,1} and the factors alpha_{0,1}, reset for a tile of queries.
  void emit_reset(Writer& w) const;
  /// New maximum of the tile in s_acc; sets `rescale` (warp-uniform) and alpha_{0,1}, updates row_max and
  /// row_sum. `masked`: rows may have no visible key so far.
  void emit_max(Writer& w, bool masked, bool first) const;
  /// s_acc = exp2(...) for registers [begin, end), adding to row_sum. Masked scores must become exact zeros,
  /// which the FMA-pipe exponential does not give: `masked` tiles use none.
  void emit_exp(Writer& w, int begin, int end, bool masked) const;
  /// s_acc times the weights of its keys, after emit_exp.
  void emit_weigh(Writer& w, bool first) const;
  /// e = exp2(S - maximum so far) and the row sums, for a tile that is not the first, instead of emit_max and
  /// emit_exp: the tile's own maximum is not taken. A sum above 2^rescale_threshold shows that it grew; only
  /// then (rarely after the first tiles) a new maximum is found, and what was computed before it is scaled.
  /// Exact either way: S stays as it is until its part has passed.
  void emit_watched(Writer& w) const;
  /// The same for P of FP8: `u32 next[score_regs / 4]` is P as the A operand of P V. Instead of a sum, P that
  /// would not have fitted shows that the maximum grew, and S is all there still.
  void emit_packed(Writer& w) const;
  /// P of FP8 in `to` from scores `begin` to `end` of e or s_acc (`from`, which begins with score `first`),
  /// four bytes a register, in the order of emit_packed.
  static void emit_pack_e4m3(Writer& w, const char* to, const char* from, int begin, int end, int first = 0);
  /// O *= alpha, when any row of the warp grew past the threshold.
  void emit_rescale(Writer& w) const;
  /// After the last tile: row_sum over the quad and with the sink, inv_sum_{0,1} (0 for a row without visible
  /// keys).
  void emit_finish(Writer& w) const;
  /// After emit_finish: natural log-sum-exp of row `r`, an expression; -inf for a row without visible keys.
  /// Needs log2_approx.
  std::string lse(int r) const;

 private:
  /// Row maxima are logits in log2 units, and the bases themselves; else the largest scores.
  bool in_log2() const { return shape_.weighted || shape_.curve; }
  /// emit_watched finds steep rows by infinite sums: where no key is hidden, which would add NaN.
  bool sums_show_steep() const { return shape_.watched_parts > 0 && !in_log2() && !shape_.hides; }
  /// fmaxf, or what keeps a NaN where the exponentials do not.
  const char* max_of() const { return shape_.exp_offload > 0 ? "max_nan" : "fmaxf"; }
  std::string base(int r) const;                            ///< of row `r`, in log2 units, before `top`
  std::string rescale_factor(int r, const char* to) const;  ///< factor of sums from row_max_{r} to `to`_{r}
  std::string natural_max(int r) const;               ///< what sums of row `r` are relative to, natural units
  std::string logit(std::string_view score) const;    ///< of a score, in log2 units
  std::string maximum(std::string_view score) const;  ///< row_max of a row whose largest score it is
  /// shift_{0,1} of this tile's P; s_acc of steep rows becomes what is above their maximum.
  void emit_shift(Writer& w, bool masked) const;
  /// steep_{0,1}, what is subtracted from scores of steep rows, and shift_{0,1} of what is left.
  void emit_steep(Writer& w) const;
  /// Whether the curve's cheap form does for rows whose maxima lie between `least` and `most`, a condition.
  std::string near_does(std::string_view least, std::string_view most) const;
  /// Score `i` in log2 units less its row's `name`_{r}, by the cheap form of the curve or not.
  std::string exponent(int i, std::string_view name, bool near) const;
  /// max_{0,1}: of a lane's scores `begin` to `end`; then of a row, with its maximum so far.
  void emit_part_max(Writer& w, int begin, int end) const;
  void emit_new_max(Writer& w, int r) const;
  void emit_watched_part(Writer& w, int begin, int end) const;
  /// shift_{0,1} by the maximum so far, finite where keys may be hidden; whether row `r` is steep by it.
  void emit_old_shift(Writer& w) const;
  std::string steep_row(int r) const;
  /// P, packed; `again` with the maximum that emit_new_shift was given.
  void emit_packed_exp(Writer& w, bool again) const;
  /// shift_{0,1} after a new maximum was found; scores `begin` to `end` of steep rows become what is above it.
  void emit_new_shift(Writer& w, int begin, int end) const;
  void emit_subtract(Writer& w, int begin, int end) const;  ///< steep_{0,1} from these scores
  /// `v_scale_{i/4}`: the weights of scores i to i + 3.
  void emit_weights(Writer& w, int i, bool first) const;
  /// With their logarithms the logits of the products: l_0 to l_3.
  void emit_weighted_logits(Writer& w, int i, bool first) const;
  Shape shape_;
};

}  // namespace kiln
