// ScoreModifier: a config's score modifier (generator/modifiers) over a layout of scores, applied to the raw scores Q K'
// of a tile before the mask.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "generator/modifiers/modifier.hpp"

namespace kiln {

class Mask;
class ScoreModifier;

/// Appends kernel parameters that masks and modifiers read (bits, sides, captured tensors) and `params` has not yet.
void add_score_params(std::vector<KernelParam>& params, const Mask& mask, const ScoreModifier& modifier);

class ScoreModifier {
 public:
  ScoreModifier(const ScoreMod& mod, ScoreLayout layout, ScoreDialect dialect = ScoreDialect());

  bool none() const { return kind_->kind == ScoreMod::Kind::none; }
  /// A score changes by its place, not by its value alone.
  bool names_rows() const { return kind_->by_place; }
  /// Softmax must expect rows without a maximum in every tile.
  bool may_hide() const { return kind_->may_hide; }
  /// Parameters that a kernel has of scale_log2 and scale, the softmax scale with and without log2 e;
  /// `natural`: its own code reads scale.
  std::vector<const char*> factors(bool natural = false) const;

  int live_registers() const { return change_->live_registers(); }
  std::vector<KernelParam> params() const { return change_->params(); }
  /// Prelude sections, and the function of an expression.
  void use(Prelude& prelude) const { change_->use(prelude, dialect_); }

  /// Emitted factors from what stands in the registers to log2 units and to natural units.
  std::string scale_log2() const;
  std::string scale() const;

  /// Makes a soft cap part of softmax's exponent (online_softmax.hpp) where the cap leaves room for a
  /// polynomial; emit_apply then has nothing to do. Other modifiers stay as they are.
  std::optional<LogitCurve> enter_exponent();

  /// Once per work item: constants, and values of each row.
  void emit_rows(Writer& w, const ScoreContext& context) const { change_->emit_rows(w, context, dialect_); }
  /// Modifies every score of the tile whose first key is `first_key`.
  void emit_apply(Writer& w, const ScoreContext& context, const std::string& first_key) const;

 private:
  const ModifierKind* kind_;
  std::shared_ptr<const ScoreChange> change_;
  ScoreLayout layout_;
  ScoreDialect dialect_;
};

}  // namespace kiln
