#include "generator/expression/emit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kiln::expression {
namespace {

constexpr std::string_view kVariableText[] = {"score", "b", "h", "q", "k", "seqlen_q", "seqlen_k"};

std::string float_text(double value, const Names& names) {
  if (std::isinf(value)) return value > 0 ? names.infinity : "-" + names.infinity;
  std::string text = fmt::format("{:.9g}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text + "f";
}

class Emitter {
 public:
  Emitter(const Expression& expression, const Names& names) : expression_(expression), names_(names) {}

  std::string text(int index) const {
    const Node& n = expression_.nodes[static_cast<std::size_t>(index)];
    const auto arg = [&](std::size_t i) { return text(n.args[i]); };
    const auto infix = [&](const char* op) { return fmt::format("({} {} {})", arg(0), op, arg(1)); };
    const auto call = [&](const std::string& name) { return fmt::format("{}({})", name, arg(0)); };
    const bool real = n.type == Type::real;
    switch (n.op) {
      case Op::literal:
        return real ? float_text(n.value, names_) : fmt::format("{}", static_cast<std::int64_t>(n.value));
      case Op::variable:
        return std::string(kVariableText[static_cast<std::size_t>(n.variable)]);
      case Op::to_real: {
        const Node& inner = expression_.nodes[static_cast<std::size_t>(n.args[0])];
        return inner.op == Op::literal ? float_text(inner.value, names_) : fmt::format("(float){}", arg(0));
      }
      case Op::negate:
        return fmt::format("(-{})", arg(0));
      case Op::add:
        return infix("+");
      case Op::subtract:
        return infix("-");
      case Op::multiply:
        return infix("*");
      case Op::divide: {
        // A reciprocal of a literal is exact enough and costs nothing.
        const Node& divisor = expression_.nodes[static_cast<std::size_t>(n.args[1])];
        const Node& inner = divisor.op == Op::to_real
                                ? expression_.nodes[static_cast<std::size_t>(divisor.args[0])]
                                : divisor;
        if (inner.op == Op::literal && inner.value != 0 && std::isfinite(inner.value) &&
            std::fabs(inner.value) > 1e-30 && std::fabs(inner.value) < 1e30) {
          return fmt::format("({} * {})", arg(0), float_text(1 / inner.value, names_));
        }
        return fmt::format("({} * {}({}))", arg(0), names_.rcp, arg(1));
      }
      // Round towards minus infinity: the sign of a dividend that may be negative is mended by hand.
      case Op::modulo:
        if (lowest(n.args[0]) >= 0) return infix("%");
        return fmt::format("((({0}) % {1} + {1}) % {1})", arg(0), arg(1));
      case Op::idiv:
        if (lowest(n.args[0]) >= 0) return infix("/");
        return fmt::format("(({0}) / {1} - (({0}) % {1} < 0 ? 1 : 0))", arg(0), arg(1));
      case Op::less:
        return infix("<");
      case Op::less_equal:
        return infix("<=");
      case Op::greater:
        return infix(">");
      case Op::greater_equal:
        return infix(">=");
      case Op::equal:
        return infix("==");
      case Op::not_equal:
        return infix("!=");
      case Op::logical_and:
        return infix("&&");
      case Op::logical_or:
        return infix("||");
      case Op::logical_not:
        return fmt::format("(!{})", arg(0));
      case Op::select:
        return fmt::format("({} ? {} : {})", arg(0), arg(1), arg(2));
      case Op::min:
      case Op::max: {
        const std::string name = n.op == Op::min ? (real ? names_.min : "min") : (real ? names_.max : "max");
        return fmt::format("{}({}, {})", name, arg(0), arg(1));
      }
      case Op::abs:
        return call(real ? names_.abs : "abs");
      case Op::floor:
        return call(names_.floor);
      case Op::exp:
        return fmt::format("{}({} * 1.44269504f)", names_.exp2, arg(0));
      case Op::exp2:
        return call(names_.exp2);
      case Op::log:
        return fmt::format("({}({}) * 0.693147181f)", names_.log2, arg(0));
      case Op::log2:
        return call(names_.log2);
      case Op::sqrt:
        return call(names_.sqrt);
      case Op::tanh:
        // Both ends come out right: 1 / (1 + inf) = 0 and 1 / (1 + 0) = 1.
        return fmt::format("(1.0f - 2.0f * {}(1.0f + {}({} * 2.88539008f)))", names_.rcp, names_.exp2,
                           arg(0));
      case Op::pow:
        return fmt::format("{}({} * {}({}))", names_.exp2, arg(1), names_.log2, arg(0));
    }
    return {};
  }

 private:
  std::int64_t lowest(int index) const { return expression_.nodes[static_cast<std::size_t>(index)].lowest; }

  const Expression& expression_;
  const Names& names_;
};

bool has(const Expression& expression, std::initializer_list<Op> ops) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(),
                     [&](const Node& n) { return std::find(ops.begin(), ops.end(), n.op) != ops.end(); });
}

}  // namespace

std::string to_cpp(const Expression& expression, const Names& names) {
  return Emitter(expression, names).text(static_cast<int>(expression.nodes.size()) - 1);
}

bool needs_exp2(const Expression& expression) {
  return has(expression, {Op::exp, Op::exp2, Op::tanh, Op::pow});
}
bool needs_log2(const Expression& expression) {
  return has(expression, {Op::log, Op::log2, Op::pow});
}
bool needs_rcp(const Expression& expression) {
  return has(expression, {Op::tanh, Op::divide});
}

}  // namespace kiln::expression
