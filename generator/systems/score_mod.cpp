#include "generator/systems/score_mod.hpp"

#include <algorithm>

#include "generator/systems/mask.hpp"

namespace kiln {

void add_score_params(std::vector<KernelParam>& params, const Mask& mask, const ScoreModifier& modifier) {
  std::vector<KernelParam> more = mask.params();
  for (KernelParam& param : modifier.params()) more.push_back(std::move(param));
  for (KernelParam& param : more) {
    const bool known = std::any_of(params.begin(), params.end(),
                                   [&](const KernelParam& other) { return other.role == param.role; });
    if (!known) params.push_back(std::move(param));
  }
}

ScoreModifier::ScoreModifier(const ScoreMod& mod, ScoreLayout layout, ScoreDialect dialect)
    : kind_(&modifier_kind(mod)),
      change_(kind_->make(mod)),
      layout_(std::move(layout)),
      dialect_(std::move(dialect)) {}

std::vector<const char*> ScoreModifier::factors(bool natural) const {
  std::vector<const char*> out;
  if (!change_->unit()) out.push_back("scale_log2");
  if (natural || !none()) out.push_back("scale");
  return out;
}

std::string ScoreModifier::scale_log2() const {
  const auto unit = change_->unit();
  return unit ? float_text(*unit * kLog2E) : "scale_log2";
}

std::string ScoreModifier::scale() const {
  const auto unit = change_->unit();
  return unit ? float_text(*unit) : "scale";
}

std::optional<LogitCurve> ScoreModifier::enter_exponent() {
  auto inside = change_->in_exponent(dialect_);
  if (!inside) return std::nullopt;
  change_ = std::move(inside);
  return change_->curve();
}

void ScoreModifier::emit_apply(Writer& w, const ScoreContext& c, const std::string& first_key) const {
  const std::string lane = layout_.lane_column.empty() ? "" : " + " + layout_.lane_column;
  change_->emit_apply(w, {layout_, c, dialect_, "(" + first_key + ")" + lane});
}

}  // namespace kiln
