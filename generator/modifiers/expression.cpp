// expr: any expression over score, b, h, q, k and captured tensors (generator/expression).
#include <kiln/error.hpp>

#include "generator/modifiers/captured.hpp"
#include "generator/modifiers/modifier.hpp"

namespace kiln {
namespace {

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

class ScoreExpression final : public ScoreChange {
 public:
  explicit ScoreExpression(const ScoreMod& mod) : mod_(mod), expression_(parsed(mod)) {}

  std::optional<double> unit() const override { return 1; }

  /// The compiler computes what depends on the column alone once for all rows, so an expression costs with its size.
  int live_registers() const override {
    const int loads = 8 * static_cast<int>(mod_.tensors.size());  // addresses of 64 bits for two rows
    return 12 + 5 * static_cast<int>(expression_.nodes.size()) / 2 + loads;
  }

  /// The parameter that holds the captured tensors; none without such.
  std::vector<KernelParam> params() const override {
    if (mod_.tensors.empty()) return {};
    return {{KernelParam::Kind::captured, "captured", {}}};
  }

  void use(Prelude& prelude, const ScoreDialect& dialect) const override {
    if (expression::needs_exp2(expression_)) prelude.use(dialect.names.exp2);
    if (expression::needs_log2(expression_)) prelude.use(dialect.names.log2);
    if (expression::needs_rcp(expression_)) prelude.use(dialect.names.rcp);
    Writer w;
    if (!mod_.tensors.empty()) emit_captured(w, expression_.tensors);
    for (const CapturedTensor& tensor : mod_.tensors)
      if (const std::string value = element_of(tensor.dtype).value; !value.empty()) prelude.use(value);
    w.comment("score_mod: {}", mod_.expr);
    w.open(
        "__device__ __forceinline__ float score_mod({}float score, int b, int h, int q, int k, int seqlen_q, "
        "int seqlen_k)",
        mod_.tensors.empty() ? "" : "const Captured& captured, ");
    w.raw(expression::to_cpp(expression_, dialect.names));
    w.close();
    prelude.add("score_mod", w.take());
  }

  void emit_apply(Writer& w, const ScoreTile& tile) const override {
    const ScoreLayout& layout = tile.layout;
    const ScoreContext& c = tile.context;
    w.comment("score_mod: {}", mod_.expr);
    w.line("const int mod_k = {};", tile.first_column);
    emit_scores(w, layout, [&](int i) {
      const auto& row = c.rows[static_cast<std::size_t>(layout.row(i))];
      return fmt::format("{0} = score_mod({7}{0} * scale, {1}, {2}, {3}, mod_k + {4}, {5}, {6});",
                         layout.score(i), c.batch, row.head, row.query, layout.column(i), c.seqlen_q,
                         c.seqlen_k, mod_.tensors.empty() ? "" : "captured, ");
    });
  }

 private:
  ScoreMod mod_;
  expression::Expression expression_;
};

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

const ModifierKind& expression_kind() {
  static const ModifierKind kind{
      .name = "expr",
      .kind = ScoreMod::Kind::expr,
      .form = ModifierKind::Form::expression,
      .by_place = true,
      .row_values = false,
      .may_hide = true,
      .approximate = false,
      .make = [](const ScoreMod& mod) -> std::shared_ptr<const ScoreChange> {
        return std::make_shared<ScoreExpression>(mod);
      },
      .apply = nullptr,
      .of_head = nullptr,
  };
  return kind;
}

}  // namespace kiln
