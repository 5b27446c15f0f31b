// Changes of the scaled scores before the mask, `score_mod`. One file a kind, and one line in registry.cpp: the config's
// reader, writer and schema, emitted code and the float64 reference follow. ScoreModifier (generator/systems/score_mod.hpp)
// is what a schedule's plan holds.
//
// What the score registers hold afterwards is in a unit of its own, so that softmax's multiplication by
// `scale_log2` inside the exponent's FMA does the rest for free: a soft cap leaves tanh(...) and softmax multiplies by
// c * log2 e; ALiBi divides its slope by the scale; only expressions pay for the scale itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/expression/emit.hpp"
#include "generator/systems/online_softmax.hpp"
#include "generator/systems/score_layout.hpp"

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

inline constexpr double kLog2E = 1.4426950408889634074;

/// How a target spells what a modifier needs; the prelude sections of those names are asked for by use().
struct ScoreDialect {
  expression::Names names;
  /// Section and function of a hardware tanh; empty: tanh from exp2 and rcp.
  std::string tanh = "tanh_approx";
};

/// One tile's scores.
struct ScoreTile {
  const ScoreLayout& layout;
  const ScoreContext& context;
  const ScoreDialect& dialect;
  std::string first_column;  ///< emitted: the key of the lane's column 0
};

/// The modifier of one config as emitted code. Unless overridden it does nothing.
class ScoreChange {
 public:
  ScoreChange() = default;
  ScoreChange(const ScoreChange&) = delete;
  ScoreChange& operator=(const ScoreChange&) = delete;
  virtual ~ScoreChange() = default;

  /// What a score in the registers is worth, in natural units, afterwards; none: the softmax scale.
  virtual std::optional<double> unit() const { return std::nullopt; }
  /// Registers that emitted code keeps through a tile, an estimate for planners.
  virtual int live_registers() const { return 0; }
  /// Kernel parameters beside the softmax scale.
  virtual std::vector<KernelParam> params() const { return {}; }
  virtual void use(Prelude&, const ScoreDialect&) const {}
  /// Once per work item: constants, and values of each row.
  virtual void emit_rows(Writer&, const ScoreContext&, const ScoreDialect&) const {}
  /// Changes every score of the tile (emit_scores).
  virtual void emit_apply(Writer&, const ScoreTile&) const {}

  /// The same as part of softmax's exponent, which has curve(); null: it has no such form.
  virtual std::shared_ptr<const ScoreChange> in_exponent(const ScoreDialect&) const { return nullptr; }
  virtual std::optional<LogitCurve> curve() const { return std::nullopt; }
};

/// Where a score stands, in plain arithmetic.
struct KeyPlace {
  std::int64_t position = 0;  ///< the row's, counted in keys
  std::int64_t key = 0;
  double of_head = 0;  ///< what the kind's of_head gives
};

struct ModifierKind {
  /// As the config has it: "NAME", {"NAME": N} with N > 0, or {"expr": ...}.
  enum class Form { word, number, expression };

  std::string_view name;
  ScoreMod::Kind kind;
  Form form;
  bool by_place;     ///< a score changes by its row, head or key, not by its value alone
  bool row_values;   ///< emitted code keeps a register for each row of a thread
  bool may_hide;     ///< a changed score may be -inf
  bool approximate;  ///< large scores show the error of the hardware's functions
  std::shared_ptr<const ScoreChange> (*make)(const ScoreMod&);
  /// Of the reference, written from the definition: the changed score; null: an expression, which has an interpreter.
  double (*apply)(double score, const ScoreMod&, const KeyPlace&);
  double (*of_head)(std::int64_t head, std::int64_t heads);  ///< null: nothing goes by the head

  bool is_expression() const { return form == Form::expression; }
};

/// All but `none`, in the order of messages.
std::span<const ModifierKind> modifier_kinds();
const ModifierKind& modifier_kind(const ScoreMod& mod);

const ModifierKind& softcap_kind();
const ModifierKind& alibi_kind();
const ModifierKind& expression_kind();

/// A literal of emitted code.
std::string float_text(double value);
/// Writes `statement(i)` for each score register i, several on a line.
void emit_scores(Writer& w, const ScoreLayout& layout, const std::function<std::string(int)>& statement);

}  // namespace kiln
