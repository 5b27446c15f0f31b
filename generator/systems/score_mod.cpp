#include "generator/systems/score_mod.hpp"

#include <algorithm>

#include <kiln/error.hpp>

#include "generator/systems/mask.hpp"

namespace kiln {
namespace {

constexpr double kLog2E = 1.4426950408889634074;

std::string float_text(double value) {
  std::string text = fmt::format("{:.9g}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text + "f";
}

expression::Expression parsed(const ScoreMod& mod) {
  auto result = expression::parse(mod.expr, mod.tensors);
  if (const auto* error =
          std::get_if<expression::ParseError>(&result))  // the config parser has let it through
    throw Error(ErrorCode::internal, "score_mod expr: " + expression::describe(*error, mod.expr));
  return std::get<expression::Expression>(std::move(result));
}

/// How a captured tensor is stored, and the function that makes a number of it; empty: none is needed.
struct Element {
  const char *stored, *result, *value;
};
Element element_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return {"u16", "float", "bf16_value"};
    case DType::fp16:
      return {"u16", "float", "fp16_value"};
    case DType::i32:
      return {"int", "int", ""};
    case DType::int8:
      return {"signed char", "int", ""};
    default:
      return {"float", "float", ""};
  }
}

// struct Captured, and captured_NAME(captured, i, j) for each tensor. The runtime fills the structure (add_captured).
void emit_captured(Writer& w, const std::vector<expression::UsedTensor>& tensors) {
  w.comment("tensors that score_mod names: strides in elements, and the last index of each dimension");
  w.open("struct Captured");
  for (const auto& [tensor, indices] : tensors) {
    w.line("const {}* {}_data;", element_of(tensor.dtype).stored, tensor.name);
    w.line("long long {}_stride[{}];", tensor.name, indices.size());
    w.line("int {}_last[{}];", tensor.name, indices.size());
  }
  w.close(";");
  w.comment("an index outside of a dimension takes the last element there");
  w.open("__device__ __forceinline__ long long inside(int i, int last)");
  w.line("return (u32)i <= (u32)last ? i : last;");
  w.close();
  for (const auto& [tensor, indices] : tensors) {
    const Element element = element_of(tensor.dtype);
    std::string parameters;
    for (std::size_t i = 0; i < indices.size(); ++i) parameters += fmt::format(", int i{}", i);
    w.open("__device__ __forceinline__ {} captured_{}(const Captured& captured{})", element.result,
           tensor.name, parameters);
    for (std::size_t i = 0; i < indices.size(); ++i)
      w.line("{} inside(i{}, captured.{}_last[{}]) * captured.{}_stride[{}];",
             i == 0 ? "long long at =" : "at +=", i, tensor.name, i, tensor.name, i);
    const std::string stored = fmt::format("captured.{}_data[at]", tensor.name);
    w.line("return {};", element.value[0] == '\0' ? stored : fmt::format("{}({})", element.value, stored));
    w.close();
  }
}

}  // namespace

std::vector<Manifest::Captured> captured_of(const ScoreMod& mod) {
  std::vector<Manifest::Captured> out;
  for (const auto& [tensor, indices] : parsed(mod).tensors) {
    out.push_back({tensor.name, tensor.dtype, {}});
    for (const auto& index : indices)
      out.back().indices.push_back(index ? std::string(expression::variable_name(*index)) : "");
  }
  return out;
}

ScoreModifier::ScoreModifier(const ScoreMod& mod, ScoreLayout layout, Dialect dialect)
    : mod_(mod), layout_(std::move(layout)), dialect_(std::move(dialect)) {
  if (mod_.kind == ScoreMod::Kind::expr) expression_ = parsed(mod_);
}

void add_score_params(std::vector<KernelParam>& params, const Mask& mask, const ScoreModifier& modifier) {
  std::vector<KernelParam> more = mask.params();
  for (KernelParam& param : modifier.params()) more.push_back(std::move(param));
  for (KernelParam& param : more) {
    const bool known = std::any_of(params.begin(), params.end(),
                                   [&](const KernelParam& other) { return other.role == param.role; });
    if (!known) params.push_back(std::move(param));
  }
}

std::vector<KernelParam> ScoreModifier::params() const {
  if (mod_.tensors.empty()) return {};
  return {{KernelParam::Kind::captured, "captured", {}}};
}

int ScoreModifier::live_registers() const {
  const int loads = 8 * static_cast<int>(mod_.tensors.size());  // addresses of 64 bits for two rows
  if (expression_) return 12 + 5 * static_cast<int>(expression_->nodes.size()) / 2 + loads;
  return mod_.kind == ScoreMod::Kind::alibi ? 4 : 0;
}

void ScoreModifier::use(Prelude& prelude) const {
  switch (mod_.kind) {
    case ScoreMod::Kind::none:
      break;
    case ScoreMod::Kind::softcap:
      if (in_exponent_) {
        prelude.use("softcap_log2"), prelude.use("softcap_near");
      } else if (!dialect_.tanh.empty()) {
        prelude.use(dialect_.tanh);
      } else {
        prelude.use(dialect_.names.exp2), prelude.use(dialect_.names.rcp);
      }
      break;
    case ScoreMod::Kind::alibi:
      prelude.use(dialect_.names.exp2), prelude.use(dialect_.names.rcp);
      break;
    case ScoreMod::Kind::expr: {
      if (expression::needs_exp2(*expression_)) prelude.use(dialect_.names.exp2);
      if (expression::needs_log2(*expression_)) prelude.use(dialect_.names.log2);
      if (expression::needs_rcp(*expression_)) prelude.use(dialect_.names.rcp);
      Writer w;
      if (!mod_.tensors.empty()) emit_captured(w, expression_->tensors);
      for (const CapturedTensor& tensor : mod_.tensors)
        if (const std::string value = element_of(tensor.dtype).value; !value.empty()) prelude.use(value);
      w.comment("score_mod: {}", mod_.expr);
      w.open(
          "__device__ __forceinline__ float score_mod({}float score, int b, int h, int q, int k, int seqlen_q, "
          "int seqlen_k)",
          mod_.tensors.empty() ? "" : "const Captured& captured, ");
      w.raw(expression::to_cpp(*expression_, dialect_.names));
      w.close();
      prelude.add("score_mod", w.take());
      break;
    }
  }
}

std::vector<const char*> ScoreModifier::factors(bool natural) const {
  std::vector<const char*> out;
  if (scale_log2() == "scale_log2") out.push_back("scale_log2");
  if (natural || !none()) out.push_back("scale");
  return out;
}

std::string ScoreModifier::scale_log2() const {
  switch (mod_.kind) {
    case ScoreMod::Kind::softcap:
      return float_text(mod_.softcap * kLog2E);
    case ScoreMod::Kind::expr:
      return float_text(kLog2E);
    default:
      return "scale_log2";
  }
}

std::string ScoreModifier::scale() const {
  switch (mod_.kind) {
    case ScoreMod::Kind::softcap:
      return float_text(mod_.softcap);
    case ScoreMod::Kind::expr:
      return "1.0f";
    default:
      return "scale";
  }
}

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

}  // namespace

std::optional<LogitCurve> ScoreModifier::enter_exponent() {
  if (mod_.kind != ScoreMod::Kind::softcap || dialect_.tanh.empty()) return std::nullopt;
  const NearTanh* near = near_tanh(mod_.softcap);
  if (near == nullptr) return std::nullopt;
  in_exponent_ = true;
  return LogitCurve{"softcap_log2({0}, cap_scale, " + scale_log2() + ")",
                    "softcap_near({0}, cap_1, cap_3, cap_5, {1})", mod_.softcap * kLog2E * near->tanh};
}

void ScoreModifier::emit_rows(Writer& w, const ScoreContext& c) const {
  if (in_exponent_) {
    const NearTanh& near = *near_tanh(mod_.softcap);
    const double unit = mod_.softcap * kLog2E;
    w.line("const float cap_u = scale * {}, cap_scale = 2.88539008f * cap_u;", float_text(1 / mod_.softcap));
    w.comment("tanh(u) = {} u {} u^3 + {} u^5 within {} where u = cap_u s lies within {}", near.a1, near.a3,
              near.a5, near.error, near.reach);
    w.line("const float cap_1 = {} * cap_u, cap_3 = {} * cap_u * cap_u * cap_u;", float_text(unit * near.a1),
           float_text(unit * near.a3));
    w.line("const float cap_5 = {} * cap_u * cap_u * cap_u * cap_u * cap_u;", float_text(unit * near.a5));
  } else if (mod_.kind == ScoreMod::Kind::softcap) {
    const char* unit = dialect_.tanh.empty() ? " * 2.88539008f" : "";
    w.line("const float cap_scale = scale * {}{};", float_text(1 / mod_.softcap), unit);
  }
  if (mod_.kind != ScoreMod::Kind::alibi) return;
  w.comment(
      "ALiBi slopes: 2^(-8 (h + 1) / n) for n heads, n the power of two not above heads_q; every other one "
      "of "
      "2n heads beyond. In units of unscaled scores.");
  w.line("int alibi_heads = 1;");
  w.line("while (2 * alibi_heads <= {}) alibi_heads *= 2;", c.heads_q);
  w.line("const float alibi_unit = {}(scale);", dialect_.names.rcp);
  for (std::size_t r = 0; r < c.rows.size(); ++r) {
    if (r > 0 && c.rows[r].head == c.rows[0].head) {
      w.line("const float slope_{} = slope_0;", r);
      continue;
    }
    w.line("const int alibi_{0} = ({1}) < alibi_heads ? 2 * ({1}) + 2 : 2 * (({1}) - alibi_heads) + 1;", r,
           c.rows[r].head);
    w.line("const float slope_{0} = {1}(-4.0f * (float)alibi_{0} / (float)alibi_heads) * alibi_unit;", r,
           dialect_.names.exp2);
  }
}

void ScoreModifier::emit_apply(Writer& w, const ScoreContext& c, const std::string& first_key) const {
  if (none() || in_exponent_) return;
  const std::string base =
      fmt::format("({}){}", first_key, layout_.lane_column.empty() ? "" : " + " + layout_.lane_column);
  std::vector<std::string> statements;
  const auto add = [&](std::string text) { statements.push_back(std::move(text)); };
  switch (mod_.kind) {
    case ScoreMod::Kind::none:
      break;
    case ScoreMod::Kind::softcap:
      w.comment("softcap: tanh(scale * s / c); softmax multiplies by c");
      for (int i = 0; i < layout_.registers; ++i) {
        const std::string s = layout_.score(i);
        if (!dialect_.tanh.empty()) {
          add(fmt::format("{0} = {1}({0} * cap_scale);", s, dialect_.tanh));
        } else {
          add(fmt::format("{0} = 1.0f - 2.0f * {1}(1.0f + {2}({0} * cap_scale));", s, dialect_.names.rcp,
                          dialect_.names.exp2));
        }
      }
      break;
    case ScoreMod::Kind::alibi:
      w.comment("ALiBi: + slope * (key - position)");
      for (int r = 0; r < layout_.rows; ++r) {
        w.line("const float bias_{0} = slope_{0} * (float)({1} - ({2} + {3} - {4}));", r, base,
               c.rows[static_cast<std::size_t>(r)].query, c.seqlen_k, c.seqlen_q);
      }
      for (int i = 0; i < layout_.registers; ++i) {
        const int r = layout_.row(i);
        add(fmt::format("{0} = fmaf(slope_{1}, {2}.0f, {0} + bias_{1});", layout_.score(i), r,
                        layout_.column(i)));
      }
      break;
    case ScoreMod::Kind::expr:
      w.comment("score_mod: {}", mod_.expr);
      w.line("const int mod_k = {};", base);
      for (int i = 0; i < layout_.registers; ++i) {
        const auto& row = c.rows[static_cast<std::size_t>(layout_.row(i))];
        add(fmt::format("{0} = score_mod({7}{0} * scale, {1}, {2}, {3}, mod_k + {4}, {5}, {6});",
                        layout_.score(i), c.batch, row.head, row.query, layout_.column(i), c.seqlen_q,
                        c.seqlen_k, mod_.tensors.empty() ? "" : "captured, "));
      }
      break;
  }
  std::string line;
  for (const std::string& statement : statements) {
    if (!line.empty() && line.size() + statement.size() > 104) w.line(line), line.clear();
    line += (line.empty() ? "" : " ") + statement;
  }
  if (!line.empty()) w.line(line);
}

}  // namespace kiln
