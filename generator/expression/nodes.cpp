#include "generator/expression/nodes.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kiln::expression {
namespace {

constexpr int kLargestPower = 1024;  ///< exponents up to here make products

}  // namespace

std::string_view type_text(Type type) {
  return type == Type::boolean ? "true or false" : type == Type::integer ? "an integer" : "a real number";
}

int Nodes::add(Node node) {
  const auto [found, added] = known_.try_emplace(
      {node.op, node.type, node.value, node.variable, node.tensor, node.args}, nodes_.size());
  if (added) nodes_.push_back(std::move(node));
  return static_cast<int>(found->second);
}

Expression Nodes::used(int root, const std::vector<UsedTensor>& tensors) const {
  std::vector<int> place(static_cast<std::size_t>(root) + 1, -1);
  place.back() = 0;
  for (int i = root; i >= 0; --i) {
    if (place[static_cast<std::size_t>(i)] < 0) continue;
    for (const int arg : node(i).args) place[static_cast<std::size_t>(arg)] = 0;
  }
  Expression out;
  out.tensors = tensors;
  for (int i = 0; i <= root; ++i) {
    if (place[static_cast<std::size_t>(i)] < 0) continue;
    place[static_cast<std::size_t>(i)] = static_cast<int>(out.nodes.size());
    out.nodes.push_back(node(i));
    for (int& arg : out.nodes.back().args) arg = place[static_cast<std::size_t>(arg)];
  }
  return out;
}

int Nodes::make(Op op, Type type, std::vector<int> args, std::int64_t lowest, std::int64_t highest) {
  Node result;
  result.op = op, result.type = type, result.args = std::move(args);
  result.lowest = lowest, result.highest = highest;
  return add(std::move(result));
}

int Nodes::to_real(int index, std::size_t position) {
  if (node(index).type == Type::boolean) {
    fail(position, "a number is wanted here, not true or false: where(condition, a, b) makes one of it");
  }
  return node(index).type == Type::real ? index : make(Op::to_real, Type::real, {index});
}

void Nodes::want_boolean(int index, std::size_t position) const {
  if (node(index).type != Type::boolean)
    fail(position, fmt::format("a condition is wanted here, not {}", type_text(node(index).type)));
}

int Nodes::arithmetic(Op op, int a, int b, std::size_t at_a, std::size_t at_b) {
  if (node(a).type == Type::integer && node(b).type == Type::integer && op != Op::divide) {
    const Node x = node(a), y = node(b);
    std::int64_t low = 0, high = 0;
    switch (op) {
      case Op::add:
        low = x.lowest + y.lowest, high = x.highest + y.highest;
        break;
      case Op::subtract:
        low = x.lowest - y.highest, high = x.highest - y.lowest;
        break;
      case Op::multiply: {
        const auto [lo, hi] = std::minmax(
            {x.lowest * y.lowest, x.lowest * y.highest, x.highest * y.lowest, x.highest * y.highest});
        low = lo, high = hi;
        break;
      }
      case Op::min:
        low = std::min(x.lowest, y.lowest), high = std::min(x.highest, y.highest);
        break;
      default:
        low = std::max(x.lowest, y.lowest), high = std::max(x.highest, y.highest);
        break;
    }
    const bool picked = op == Op::min || op == Op::max;
    if (picked || (low >= -kInt32Max && high <= kInt32Max)) return make(op, Type::integer, {a, b}, low, high);
  }
  const int left = to_real(a, at_a), right = to_real(b, at_b);
  return make(op, Type::real, {left, right});
}

std::optional<std::int64_t> Nodes::integer_of(int index) const {
  const Node& n = node(index);
  if (n.op == Op::negate || n.op == Op::to_real) {
    const auto inner = integer_of(n.args[0]);
    return inner && n.op == Op::negate ? -*inner : inner;
  }
  if (n.op != Op::literal || !(std::fabs(n.value) <= kLargestPower) || n.value != std::floor(n.value))
    return std::nullopt;
  return static_cast<std::int64_t>(n.value);
}

int Nodes::real_literal(double value) {
  Node literal;
  literal.value = value;
  return add(std::move(literal));
}

int Nodes::power(int x, std::int64_t n) {
  if (n == 0) return real_literal(1);
  int product = -1, square = x;
  for (std::int64_t rest = std::abs(n); rest > 0; rest /= 2) {
    if (rest % 2 == 1) product = product < 0 ? square : make(Op::multiply, Type::real, {product, square});
    if (rest > 1) square = make(Op::multiply, Type::real, {square, square});
  }
  return n > 0 ? product : make(Op::divide, Type::real, {real_literal(1), product});
}

int Nodes::integer_division(Op op, int a, int b, std::size_t at_a, std::size_t at_b) {
  if (node(a).type != Type::integer)
    fail(at_a, fmt::format("an integer is wanted here, not {}: floor(x / y) divides reals",
                           type_text(node(a).type)));
  const Node divisor = node(b);
  if (divisor.type != Type::integer || divisor.op != Op::literal || divisor.value < 1)
    fail(at_b, "the divisor of an integer division is a positive integer literal");
  const auto n = static_cast<std::int64_t>(divisor.value);
  if (op == Op::modulo) return make(op, Type::integer, {a, b}, 0, n - 1);
  const auto quotient = [n](std::int64_t x) { return x >= 0 ? x / n : -((-x + n - 1) / n); };
  return make(op, Type::integer, {a, b}, quotient(node(a).lowest), quotient(node(a).highest));
}

int Nodes::compare(Op op, int a, int b, std::size_t at_a, std::size_t at_b) {
  if (node(a).type == Type::integer && node(b).type == Type::integer) return make(op, Type::boolean, {a, b});
  const int left = to_real(a, at_a), right = to_real(b, at_b);
  return make(op, Type::boolean, {left, right});
}

int Nodes::select(int condition, int a, int b, std::size_t at_condition, std::size_t at_a, std::size_t at_b) {
  want_boolean(condition, at_condition);
  if (node(a).type == Type::boolean && node(b).type == Type::boolean)
    return make(Op::select, Type::boolean, {condition, a, b});
  if (node(a).type == Type::integer && node(b).type == Type::integer) {
    return make(Op::select, Type::integer, {condition, a, b}, std::min(node(a).lowest, node(b).lowest),
                std::max(node(a).highest, node(b).highest));
  }
  const int left = to_real(a, at_a), right = to_real(b, at_b);
  return make(Op::select, Type::real, {condition, left, right});
}

}  // namespace kiln::expression
