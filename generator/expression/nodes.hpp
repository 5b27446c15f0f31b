// The tree of an expression while it is built: equal parts once, types and ranges of integers settled as each node is made.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "generator/expression/expression.hpp"

namespace kiln::expression {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

/// What is wrong with the text, thrown.
struct Failure {
  ParseError error;
};

std::string_view type_text(Type type);

/// Nodes by number. Functions that take positions of operands in the text name these where they refuse; all others never
/// fail.
class Nodes {
 protected:
  [[noreturn]] static void fail(std::size_t position, std::string reason) {
    throw Failure{{position, std::move(reason)}};
  }

  const Node& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }
  /// The node, or one like it that is there: equal parts of an expression are computed once.
  int add(Node node);
  /// What `root` needs, in the same order; `root` is the last.
  Expression used(int root, const std::vector<UsedTensor>& tensors) const;
  int make(Op op, Type type, std::vector<int> args, std::int64_t lowest = 0, std::int64_t highest = 0);
  int to_real(int index, std::size_t position);
  void want_boolean(int index, std::size_t position) const;
  /// a op b in integers where the range allows, else in reals.
  int arithmetic(Op op, int a, int b, std::size_t at_a, std::size_t at_b);
  /// The integer that `index` is by its text, if it is one.
  std::optional<std::int64_t> integer_of(int index) const;
  int real_literal(double value);
  /// x^n: products by repeated squaring, so the sign of x counts; and one over that.
  int power(int x, std::int64_t n);
  /// a % n and idiv(a, n).
  int integer_division(Op op, int a, int b, std::size_t at_a, std::size_t at_b);
  int compare(Op op, int a, int b, std::size_t at_a, std::size_t at_b);
  int select(int condition, int a, int b, std::size_t at_condition, std::size_t at_a, std::size_t at_b);

 private:
  std::vector<Node> nodes_;
  std::map<std::tuple<Op, Type, double, Variable, int, std::vector<int>>, std::size_t> known_;
};

}  // namespace kiln::expression
