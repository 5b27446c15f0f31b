// The expression language of `score_mod: {"expr": ...}`: text -> typed tree. The generator emits the tree as
// C++, the float64 reference walks it (workbench/reference/score_expression.hpp); neither sees the text.
//
//   expr     := or [ "?" expr ":" expr ]
//   or       := and { "||" and }            and   := equality { "&&" equality }
//   compare  := sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
//   sum      := product { ("+" | "-") product }
//   product  := unary { ("*" | "/" | "%") unary }
//   unary    := ("-" | "+" | "!") unary | primary
//   primary  := number | name | name "(" expr { "," expr } ")" | name "[" expr { "," expr } "]" | "(" expr ")"
//
// Types: boolean, integer, real. `score` is real; b, h, q, k, seqlen_q, seqlen_k are integers. Integers
// become real where a real is wanted, nothing else converts. `/` divides reals; idiv(a, n) and a % n take a
// positive literal n and round towards minus infinity. Every integer node carries its range: arithmetic that
// could leave 32 bits is done in reals, so emitted code never overflows. pow(x, n) of an integer literal n is
// a product; of other exponents it is 2^(y log2 x), which is NaN for negative x.
//
// name[i, j] is an element of a captured tensor: a tensor that each launch is given. Indices are integers; one
// outside of its dimension, on either side, takes the last element there, so a dimension of one element is
// broadcast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <kiln/config.hpp>

namespace kiln::expression {

enum class Type { boolean, integer, real };

enum class Variable { score, b, h, q, k, seqlen_q, seqlen_k };

enum class Op {
  literal,
  variable,
  to_real,
  negate,
  add,
  subtract,
  multiply,
  divide,
  modulo,
  idiv,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  logical_not,
  select,  // condition, then, else
  load,    // an element of a captured tensor, by its indices
  min,
  max,
  abs,
  floor,
  exp,
  exp2,
  log,
  log2,
  sqrt,
  tanh,
  pow,
};

/// One node; operands come before the nodes that use them.
struct Node {
  Op op = Op::literal;
  Type type = Type::real;
  double value = 0;                      ///< of a literal; may be +-infinity when real
  Variable variable = Variable::score;   ///< of a variable
  int tensor = 0;                        ///< of a load: which of Expression::tensors
  std::vector<int> args;                 ///< indices of the operands
  std::int64_t lowest = 0, highest = 0;  ///< bounds of an integer
};

bool holds_integers(DType dtype);

/// A tensor that an expression names, with what the expression says of its shape.
struct UsedTensor {
  CapturedTensor tensor;
  /// One a dimension: the variable that every use has there, if it is the same one and nothing else.
  std::vector<std::optional<Variable>> indices;
  int rank() const { return static_cast<int>(indices.size()); }
};

struct Expression {
  std::vector<Node> nodes;          ///< the last one is the result, a real
  std::vector<UsedTensor> tensors;  ///< all that were declared, in their order
  bool uses(Variable variable) const;
};

struct ParseError {
  std::size_t position = 0;  ///< of the offending character, from 0
  std::string reason;        ///< one line
};

/// Longest text; operands are nested 64 deep at most.
constexpr std::size_t kMaxLength = 1024;

/// Most captured tensors of an expression, and dimensions of one.
constexpr std::size_t kMaxTensors = 4, kMaxRank = 4;

/// One line of printable ASCII over the variables and `tensors`, or an error: an unused tensor is one, too. Equal
/// parts become one node.
std::variant<Expression, ParseError> parse(std::string_view text,
                                           const std::vector<CapturedTensor>& tensors = {});

/// What is wrong with the name of a captured tensor; empty: nothing. Names are lower-case words of at most 32
/// characters that the language does not use itself.
std::string name_problem(std::string_view name);

/// "at column 7 ('foo'): reason" with columns from 1 and the word that stands there.
std::string describe(const ParseError& error, std::string_view text);

/// Names that an expression may use, for messages and documentation.
std::string_view variable_name(Variable variable);
std::string_view variable_names();
std::string_view function_names();

}  // namespace kiln::expression
