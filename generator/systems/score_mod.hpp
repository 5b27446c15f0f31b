// Score modifiers as emitted code, applied to the raw scores Q K' of a tile before the mask:
//   softcap   c * tanh(scale * s / c)
//   alibi     scale * s + slope(head) * (key - position)
//   expr      any expression over score, b, h, q, k and captured tensors (generator/expression)
//
// What stands in the score registers afterwards is in a unit of its own, so that softmax's multiplication by
// `scale_log2` inside the exponent's FMA does the rest for free: softcap leaves tanh(...) and softmax
// multiplies by c * log2 e; alibi divides its slope by the scale; only expr pays for the scale itself.
#pragma once

#include <optional>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/expression/emit.hpp"
#include "generator/systems/online_softmax.hpp"
#include "generator/systems/score_layout.hpp"

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// The captured tensors of a `score_mod` of kind expr, as the manifest has them.
std::vector<Manifest::Captured> captured_of(const ScoreMod& mod);

class Mask;
class ScoreModifier;

/// Appends kernel parameters that masks and modifiers read (bits, sides, captured tensors) and `params` has not yet.
void add_score_params(std::vector<KernelParam>& params, const Mask& mask, const ScoreModifier& modifier);

class ScoreModifier {
 public:
  /// How the target spells what a modifier needs; the prelude sections of those names are asked for by use().
  struct Dialect {
    expression::Names names;
    /// Section and function of a hardware tanh; empty: tanh from exp2 and rcp.
    std::string tanh = "tanh_approx";
  };

  ScoreModifier(const ScoreMod& mod, ScoreLayout layout, Dialect dialect);
  ScoreModifier(const ScoreMod& mod, ScoreLayout layout) : ScoreModifier(mod, std::move(layout), Dialect()) {}

  bool none() const { return mod_.kind == ScoreMod::Kind::none; }
  /// A score changes by its row, not by its value alone.
  bool names_rows() const { return mod_.kind == ScoreMod::Kind::alibi || mod_.kind == ScoreMod::Kind::expr; }
  /// True when a modified score may be -inf: softmax must expect rows without a maximum in every tile.
  bool may_hide() const { return mod_.kind == ScoreMod::Kind::expr; }
  /// Parameters that a kernel has of scale_log2 and scale, the softmax scale with and without log2 e;
  /// `natural`: its own code reads scale.
  std::vector<const char*> factors(bool natural = false) const;

  /// Registers that emitted code keeps through a tile, an estimate for planners: the compiler computes what
  /// depends on the column alone once for all rows, so an expression costs with its size.
  int live_registers() const;

  /// The parameter that holds the captured tensors of an expression; none without such.
  std::vector<KernelParam> params() const;

  /// Prelude sections, and the function of an expression.
  void use(Prelude& prelude) const;

  /// Emitted factors from what stands in the registers to log2 units and to natural units.
  std::string scale_log2() const;
  std::string scale() const;

  /// Makes a soft cap part of softmax's exponent (online_softmax.hpp) where the cap leaves room for a
  /// polynomial; emit_apply then has nothing to do. Other modifiers stay as they are.
  std::optional<LogitCurve> enter_exponent();

  /// Once per work item: the cap's constants, or slope_{r} of each row (from its head).
  void emit_rows(Writer& w, const ScoreContext& context) const;
  /// Modifies every score of the tile whose first key is `first_key`.
  void emit_apply(Writer& w, const ScoreContext& context, const std::string& first_key) const;

 private:
  ScoreMod mod_;
  ScoreLayout layout_;
  Dialect dialect_;
  std::optional<expression::Expression> expression_;
  bool in_exponent_ = false;
};

}  // namespace kiln
