// alibi: scale * s + slope(head) * (key - position).
#include <cmath>

#include "generator/modifiers/modifier.hpp"

namespace kiln {
namespace {

class Alibi final : public ScoreChange {
 public:
  int live_registers() const override { return 4; }

  void use(Prelude& prelude, const ScoreDialect& dialect) const override {
    prelude.use(dialect.names.exp2), prelude.use(dialect.names.rcp);
  }

  /// slope_{r} of each row, from its head.
  void emit_rows(Writer& w, const ScoreContext& c, const ScoreDialect& dialect) const override {
    w.comment(
        "ALiBi slopes: 2^(-8 (h + 1) / n) for n heads, n the power of two not above heads_q; every other one "
        "of "
        "2n heads beyond. In units of unscaled scores.");
    w.line("int alibi_heads = 1;");
    w.line("while (2 * alibi_heads <= {}) alibi_heads *= 2;", c.heads_q);
    w.line("const float alibi_unit = {}(scale);", dialect.names.rcp);
    for (std::size_t r = 0; r < c.rows.size(); ++r) {
      if (r > 0 && c.rows[r].head == c.rows[0].head) {
        w.line("const float slope_{} = slope_0;", r);
        continue;
      }
      w.line("const int alibi_{0} = ({1}) < alibi_heads ? 2 * ({1}) + 2 : 2 * (({1}) - alibi_heads) + 1;", r,
             c.rows[r].head);
      w.line("const float slope_{0} = {1}(-4.0f * (float)alibi_{0} / (float)alibi_heads) * alibi_unit;", r,
             dialect.names.exp2);
    }
  }

  void emit_apply(Writer& w, const ScoreTile& tile) const override {
    const ScoreLayout& layout = tile.layout;
    const ScoreContext& c = tile.context;
    w.comment("ALiBi: + slope * (key - position)");
    for (int r = 0; r < layout.rows; ++r) {
      w.line("const float bias_{0} = slope_{0} * (float)({1} - ({2} + {3} - {4}));", r, tile.first_column,
             c.rows[static_cast<std::size_t>(r)].query, c.seqlen_k, c.seqlen_q);
    }
    emit_scores(w, layout, [&](int i) {
      return fmt::format("{0} = fmaf(slope_{1}, {2}.0f, {0} + bias_{1});", layout.score(i), layout.row(i),
                         layout.column(i));
    });
  }
};

/// Press et al., section 3; other counts than powers of two interleave.
double slope(std::int64_t head, std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  if (head < power) return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(power));
  // Beyond the power of two: every other slope of twice as many heads.
  return std::exp2(-8.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(2 * power));
}

}  // namespace

const ModifierKind& alibi_kind() {
  static const ModifierKind kind{
      .name = "alibi",
      .kind = ScoreMod::Kind::alibi,
      .form = ModifierKind::Form::word,
      .by_place = true,
      .row_values = true,
      .may_hide = false,
      .approximate = false,
      .make = [](const ScoreMod&) -> std::shared_ptr<const ScoreChange> { return std::make_shared<Alibi>(); },
      .apply =
          [](double score, const ScoreMod&, const KeyPlace& place) {
            return score + place.of_head * static_cast<double>(place.key - place.position);
          },
      .of_head = slope,
  };
  return kind;
}

}  // namespace kiln
