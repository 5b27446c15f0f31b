#include "generator/expression/names.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/ascii.hpp"
#include "base/grid.hpp"

namespace kiln::expression {
namespace {

constexpr std::int64_t kMaxSequence = (std::int64_t{1} << 24) - 1;  // exact in a float, too

constexpr VariableInfo kVariables[] = {
    {"score", Variable::score, Type::real, 0},
    {"b", Variable::b, Type::integer, kMostOfGridAxis},
    {"h", Variable::h, Type::integer, kMostOfGridAxis},
    {"q", Variable::q, Type::integer, kMaxSequence},
    {"k", Variable::k, Type::integer, kMaxSequence},
    {"seqlen_q", Variable::seqlen_q, Type::integer, kMaxSequence},
    {"seqlen_k", Variable::seqlen_k, Type::integer, kMaxSequence},
};

constexpr FunctionInfo kFunctions[] = {
    {"where", Op::select, 3}, {"min", Op::min, 2},   {"max", Op::max, 2},   {"abs", Op::abs, 1},
    {"floor", Op::floor, 1},  {"exp", Op::exp, 1},   {"exp2", Op::exp2, 1}, {"log", Op::log, 1},
    {"log2", Op::log2, 1},    {"sqrt", Op::sqrt, 1}, {"tanh", Op::tanh, 1}, {"pow", Op::pow, 2},
    {"idiv", Op::idiv, 2},
};

}  // namespace

std::span<const VariableInfo> variables() {
  return kVariables;
}
std::span<const FunctionInfo> functions() {
  return kFunctions;
}

std::string name_problem(std::string_view name) {
  const bool starts = !name.empty() && name[0] >= 'a' && name[0] <= 'z';
  const bool word = std::all_of(name.begin(), name.end(),
                                [](char c) { return is_ascii_word(c) && !(c >= 'A' && c <= 'Z'); });
  if (!starts || !word || name.size() > 32)
    return "wants a name of at most 32 lower-case letters, digits and underscores that starts with a letter";
  const auto is_name = [&](const auto& info) { return info.name == name; };
  if (name == "inf" || std::any_of(std::begin(kVariables), std::end(kVariables), is_name) ||
      std::any_of(std::begin(kFunctions), std::end(kFunctions), is_name))
    return "is a name that expressions have already";
  return "";
}

std::string_view variable_name(Variable variable) {
  return kVariables[static_cast<std::size_t>(variable)].name;
}
std::string_view variable_names() {
  return "score, b, h, q, k, seqlen_q, seqlen_k";
}
std::string_view function_names() {
  return "where, min, max, abs, floor, exp, exp2, log, log2, sqrt, tanh, pow, idiv";
}

}  // namespace kiln::expression
