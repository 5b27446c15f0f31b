// softcap: c * tanh(scale * s / c).
#include <cmath>

#include "generator/modifiers/modifier.hpp"

namespace kiln {
namespace {

// tanh(u) by a1 u + a3 u^3 + a5 u^5 for |u| <= reach (minimax, by Remez exchange); tanh.approx is good to
// 4.9e-4. Each rises everywhere: its derivative has no real root.
struct NearTanh {
  double reach, tanh, a1, a3, a5, error;
  double least;  ///< bound in log2 units (LogitCurve) from which on it is taken
};
constexpr double kWide = LogitCurve::kWeightless + 8, kNarrow = LogitCurve::kWeightless;
constexpr NearTanh kNearTanh[] = {{0.2, 0.19737532, 0.99999963, -0.33325994, 0.12963494, 1.1e-8, kWide},
                                  {0.35, 0.33637554, 0.99999021, -0.33268411, 0.12248038, 4.9e-7, kWide},
                                  {0.55, 0.50052021, 0.99987216, -0.32982897, 0.10879920, 9.9e-6, kNarrow},
                                  {0.6, 0.53704957, 0.99979379, -0.32855241, 0.10491175, 1.8e-5, kNarrow}};

/// The most exact one that leaves room between scores that weigh nothing and a row's maximum; null: none.
/// Beyond a cap of 1000 softcap_log2's difference would lose more than 1e-4.
const NearTanh* near_tanh(double cap) {
  if (cap > 1000) return nullptr;
  for (const NearTanh& near : kNearTanh)
    if (cap * kLog2E * near.tanh >= near.least) return &near;
  return nullptr;
}

/// As part of softmax's exponent: scores stay as they are.
class SoftcapInExponent final : public ScoreChange {
 public:
  SoftcapInExponent(double cap, const NearTanh& near) : cap_(cap), near_(near) {}

  std::optional<double> unit() const override { return cap_; }
  void use(Prelude& prelude, const ScoreDialect&) const override {
    prelude.use("softcap_log2"), prelude.use("softcap_near");
  }
  std::optional<LogitCurve> curve() const override {
    const double log2_unit = cap_ * kLog2E;
    return LogitCurve{"softcap_log2({0}, cap_scale, " + float_text(log2_unit) + ")",
                      "softcap_near({0}, cap_1, cap_3, cap_5, {1})", log2_unit * near_.tanh};
  }
  void emit_rows(Writer& w, const ScoreContext&, const ScoreDialect&) const override {
    const double unit = cap_ * kLog2E;
    w.line("const float cap_u = scale * {}, cap_scale = 2.88539008f * cap_u;", float_text(1 / cap_));
    w.comment("tanh(u) = {} u {} u^3 + {} u^5 within {} where u = cap_u s lies within {}", near_.a1, near_.a3,
              near_.a5, near_.error, near_.reach);
    w.line("const float cap_1 = {} * cap_u, cap_3 = {} * cap_u * cap_u * cap_u;", float_text(unit * near_.a1),
           float_text(unit * near_.a3));
    w.line("const float cap_5 = {} * cap_u * cap_u * cap_u * cap_u * cap_u;", float_text(unit * near_.a5));
  }

 private:
  double cap_;
  const NearTanh& near_;
};

class Softcap final : public ScoreChange {
 public:
  explicit Softcap(double cap) : cap_(cap) {}

  std::optional<double> unit() const override { return cap_; }

  void use(Prelude& prelude, const ScoreDialect& dialect) const override {
    if (!dialect.tanh.empty()) {
      prelude.use(dialect.tanh);
    } else {
      prelude.use(dialect.names.exp2), prelude.use(dialect.names.rcp);
    }
  }

  void emit_rows(Writer& w, const ScoreContext&, const ScoreDialect& dialect) const override {
    const char* unit = dialect.tanh.empty() ? " * 2.88539008f" : "";
    w.line("const float cap_scale = scale * {}{};", float_text(1 / cap_), unit);
  }

  void emit_apply(Writer& w, const ScoreTile& tile) const override {
    w.comment("softcap: tanh(scale * s / c); softmax multiplies by c");
    const ScoreDialect& dialect = tile.dialect;
    emit_scores(w, tile.layout, [&](int i) {
      const std::string s = tile.layout.score(i);
      if (!dialect.tanh.empty()) return fmt::format("{0} = {1}({0} * cap_scale);", s, dialect.tanh);
      return fmt::format("{0} = 1.0f - 2.0f * {1}(1.0f + {2}({0} * cap_scale));", s, dialect.names.rcp,
                         dialect.names.exp2);
    });
  }

  /// Where the cap leaves room for a polynomial.
  std::shared_ptr<const ScoreChange> in_exponent(const ScoreDialect& dialect) const override {
    const NearTanh* near = dialect.tanh.empty() ? nullptr : near_tanh(cap_);
    if (near == nullptr) return nullptr;
    return std::make_shared<SoftcapInExponent>(cap_, *near);
  }

 private:
  double cap_;
};

}  // namespace

const ModifierKind& softcap_kind() {
  static const ModifierKind kind{
      .name = "softcap",
      .kind = ScoreMod::Kind::softcap,
      .form = ModifierKind::Form::number,
      .by_place = false,
      .row_values = false,
      .may_hide = false,
      .approximate = true,
      .make = [](const ScoreMod& mod) -> std::shared_ptr<const ScoreChange> {
        return std::make_shared<Softcap>(mod.value);
      },
      .apply = [](double score, const ScoreMod& mod,
                  const KeyPlace&) { return mod.value * std::tanh(score / mod.value); },
      .of_head = nullptr,
  };
  return kind;
}

}  // namespace kiln
