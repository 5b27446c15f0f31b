// A score expression as emitted C++: one function from a scaled score and its place to the modified score.
#pragma once

#include <string>

#include "generator/expression/expression.hpp"

namespace kiln::expression {

/// What a dialect calls the functions that an expression needs; the defaults are those of NVIDIA's templates.
struct Names {
  std::string exp2 = "exp2_approx", log2 = "log2_approx", rcp = "rcp_approx";
  std::string sqrt = "sqrtf", floor = "floorf", abs = "fabsf", min = "fminf", max = "fmaxf";
  std::string int_abs = "abs", int_min = "min", int_max = "max";  ///< of integers
  std::string infinity = "kInfinity";
};

/// `expression` as the body of a function of the variables' names: lines that name what is used twice or is
/// long (x_0, x_1, ...), and a return. The text grows as the expression does. An element of a captured tensor is
/// captured_NAME(captured, i, j).
std::string to_cpp(const Expression& expression, const Names& names);

/// True when the text calls `exp2`, `log2` or `rcp` of Names.
bool needs_exp2(const Expression& expression);
bool needs_log2(const Expression& expression);
bool needs_rcp(const Expression& expression);

}  // namespace kiln::expression
