// Every score modifier. A new one is one line here.
#include <algorithm>
#include <array>

#include "generator/modifiers/modifier.hpp"

namespace kiln {
namespace {

const ModifierKind& no_modifier() {
  static const ModifierKind none{
      "none",
      ScoreMod::Kind::none,
      ModifierKind::Form::word,
      false,
      false,
      false,
      false,
      [](const ScoreMod&) -> std::shared_ptr<const ScoreChange> { return std::make_shared<ScoreChange>(); },
      [](double score, const ScoreMod&, const KeyPlace&) { return score; },
      nullptr,
  };
  return none;
}

}  // namespace

std::span<const ModifierKind> modifier_kinds() {
  static const std::array kinds{
      alibi_kind(),
      softcap_kind(),
      expression_kind(),
  };
  return kinds;
}

const ModifierKind& modifier_kind(const ScoreMod& mod) {
  const auto all = modifier_kinds();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const ModifierKind& k) { return k.kind == mod.kind; });
  return found == all.end() ? no_modifier() : *found;
}

std::string float_text(double value) {
  std::string text = fmt::format("{:.9g}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text + "f";
}

void emit_scores(Writer& w, const ScoreLayout& layout, const std::function<std::string(int)>& statement) {
  std::string line;
  for (int i = 0; i < layout.registers; ++i) {
    const std::string text = statement(i);
    if (!line.empty() && line.size() + text.size() > 104) w.line(line), line.clear();
    line += (line.empty() ? "" : " ") + text;
  }
  if (!line.empty()) w.line(line);
}

}  // namespace kiln
