// The names that expressions have: variables and functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "generator/expression/expression.hpp"

namespace kiln::expression {

struct VariableInfo {
  std::string_view name;
  Variable variable;
  Type type;
  std::int64_t highest;
};
std::span<const VariableInfo> variables();

struct FunctionInfo {
  std::string_view name;
  Op op;
  int arguments;
};
std::span<const FunctionInfo> functions();

}  // namespace kiln::expression
