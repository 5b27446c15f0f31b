#include "generator/expression/emit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

namespace kiln::expression {
namespace {

std::string float_text(double value, const Names& names) {
  if (std::isinf(value)) return value > 0 ? names.infinity : "-" + names.infinity;
  std::string text = fmt::format("{:.9g}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text + "f";
}

/// C++'s operator between two operands; empty: it is none of those.
const char* infix_of(Op op) {
  static constexpr std::pair<Op, const char*> kOperators[] = {
      {Op::add, "+"},         {Op::subtract, "-"},     {Op::multiply, "*"},       {Op::less, "<"},
      {Op::less_equal, "<="}, {Op::greater, ">"},      {Op::greater_equal, ">="}, {Op::equal, "=="},
      {Op::not_equal, "!="},  {Op::logical_and, "&&"}, {Op::logical_or, "||"}};
  for (const auto& [known, text] : kOperators) {
    if (known == op) return text;
  }
  return "";
}

/// Text of a node longer than this gets a name, so that no line and no nesting of brackets grows without end.
constexpr std::size_t kLongest = 80;

// One statement a node that is used twice or is long, in the order of the nodes; others are text in their
// user's. Every node is emitted once.
class Emitter {
 public:
  Emitter(const Expression& expression, const Names& names)
      : nodes_(expression.nodes),
        tensors_(expression.tensors),
        names_(names),
        uses_(nodes_.size()),
        texts_(nodes_.size()) {
    for (const Node& node : nodes_) {
      for (const int arg : node.args) ++uses_[static_cast<std::size_t>(arg)];
    }
  }

  std::string body() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::string text = text_of(nodes_[i]);
      const bool leaf = nodes_[i].args.empty();
      const bool last = i + 1 == nodes_.size();
      if (!leaf && !last && (uses_[i] > 1 || text.size() > kLongest)) text = named(nodes_[i].type, text);
      texts_[i] = std::move(text);
    }
    return statements_ + fmt::format("return {};", texts_.back());
  }

 private:
  std::string named(Type type, const std::string& text) {
    const char* const types[] = {"bool", "int", "float"};
    std::string name = fmt::format("x_{}", temporaries_++);
    statements_ += fmt::format("const {} {} = {};\n", types[static_cast<int>(type)], name, text);
    return name;
  }
  /// Text that may stand twice.
  std::string name_of(int index) {
    std::string& text = texts_[static_cast<std::size_t>(index)];
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.args.empty() && !text.starts_with("x_")) text = named(node.type, text);
    return text;
  }

  /// A call of `name` on `first` and the operands of `n`.
  std::string call(const Node& n, const std::string& name, std::string first = "") const {
    std::string args = std::move(first);
    for (const int arg : n.args) args += (args.empty() ? "" : ", ") + texts_[static_cast<std::size_t>(arg)];
    return fmt::format("{}({})", name, args);
  }

  std::string arg(const Node& n, std::size_t i) const { return texts_[static_cast<std::size_t>(n.args[i])]; }
  std::string infix(const Node& n, const char* op) const {
    return fmt::format("({} {} {})", arg(n, 0), op, arg(n, 1));
  }

  /// A reciprocal of a literal is exact enough and costs nothing.
  std::string quotient(const Node& n) const {
    const Node& divisor = node(n.args[1]);
    const Node& inner = divisor.op == Op::to_real ? node(divisor.args[0]) : divisor;
    if (inner.op == Op::literal && inner.value != 0 && std::isfinite(inner.value) &&
        std::fabs(inner.value) > 1e-30 && std::fabs(inner.value) < 1e30) {
      return fmt::format("({} * {})", arg(n, 0), float_text(1 / inner.value, names_));
    }
    return fmt::format("({} * {}({}))", arg(n, 0), names_.rcp, arg(n, 1));
  }
  /// The exponent of a literal that is a power of two; -1 for all else.
  int power_of_two(int index) const {
    const Node& divisor = node(index);
    const auto value = divisor.op == Op::literal ? static_cast<std::uint32_t>(divisor.value) : 0u;
    return std::has_single_bit(value) ? std::countr_zero(value) : -1;
  }
  /// C++ rounds towards 0, these towards minus infinity: a dividend that may be negative is corrected. The low bits of a
  /// number, and a shift of it, round that way by themselves.
  std::string modulo(const Node& n) {
    if (const int bits = power_of_two(n.args[1]); bits >= 0)
      return fmt::format("({} & {})", arg(n, 0), (std::uint32_t{1} << bits) - 1);
    if (node(n.args[0]).lowest >= 0) return infix(n, "%");
    const std::string rest = named(Type::integer, infix(n, "%"));
    return fmt::format("({0} < 0 ? {0} + {1} : {0})", rest, arg(n, 1));
  }
  std::string floor_divide(const Node& n) {
    if (const int bits = power_of_two(n.args[1]); bits >= 0)
      return fmt::format("({} >> {})", arg(n, 0), bits);
    if (node(n.args[0]).lowest >= 0) return infix(n, "/");
    return fmt::format("({0} / {1} - ({0} % {1} < 0 ? 1 : 0))", name_of(n.args[0]), arg(n, 1));
  }
  std::string real_of(const Node& n) const {
    const Node& inner = node(n.args[0]);
    return inner.op == Op::literal ? float_text(inner.value, names_) : fmt::format("(float){}", arg(n, 0));
  }

  std::string text_of(const Node& n) {
    const bool real = n.type == Type::real;
    switch (n.op) {
      case Op::literal:
        return real ? float_text(n.value, names_) : fmt::format("{}", static_cast<std::int64_t>(n.value));
      case Op::variable:
        return std::string(variable_name(n.variable));
      case Op::to_real:
        return real_of(n);
      case Op::negate:
        return fmt::format("(-{})", arg(n, 0));
      case Op::divide:
        return quotient(n);
      case Op::modulo:
        return modulo(n);
      case Op::idiv:
        return floor_divide(n);
      case Op::logical_not:
        return fmt::format("(!{})", arg(n, 0));
      case Op::select:
        return fmt::format("({} ? {} : {})", arg(n, 0), arg(n, 1), arg(n, 2));
      case Op::load:
        return call(n, "captured_" + tensors_[static_cast<std::size_t>(n.tensor)].tensor.name, "captured");
      case Op::min:
        return call(n, real ? names_.min : names_.int_min);
      case Op::max:
        return call(n, real ? names_.max : names_.int_max);
      case Op::abs:
        return call(n, real ? names_.abs : names_.int_abs);
      case Op::floor:
        return call(n, names_.floor);
      case Op::sqrt:
        return call(n, names_.sqrt);
      default:
        return infix_of(n.op)[0] != '\0' ? infix(n, infix_of(n.op)) : by_powers(n);
    }
  }

  /// Functions that the hardware has for base 2.
  std::string by_powers(const Node& n) const {
    switch (n.op) {
      case Op::exp:
        return fmt::format("{}({} * 1.44269504f)", names_.exp2, arg(n, 0));
      case Op::exp2:
        return call(n, names_.exp2);
      case Op::log:
        return fmt::format("({}({}) * 0.693147181f)", names_.log2, arg(n, 0));
      case Op::log2:
        return call(n, names_.log2);
      case Op::tanh:
        // Both ends come out right: 1 / (1 + inf) = 0 and 1 / (1 + 0) = 1.
        return fmt::format("(1.0f - 2.0f * {}(1.0f + {}({} * 2.88539008f)))", names_.rcp, names_.exp2,
                           arg(n, 0));
      case Op::pow:
        return fmt::format("{}({} * {}({}))", names_.exp2, arg(n, 1), names_.log2, arg(n, 0));
      default:
        return {};
    }
  }

  const Node& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }

  const std::vector<Node>& nodes_;
  const std::vector<UsedTensor>& tensors_;
  const Names& names_;
  std::vector<int> uses_;
  std::vector<std::string> texts_;
  std::string statements_;
  int temporaries_ = 0;
};

bool has(const Expression& expression, std::initializer_list<Op> ops) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(),
                     [&](const Node& n) { return std::find(ops.begin(), ops.end(), n.op) != ops.end(); });
}

}  // namespace

std::string to_cpp(const Expression& expression, const Names& names) {
  return Emitter(expression, names).body();
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
