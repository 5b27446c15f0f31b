// Operands stand before their users, so one pass over the nodes computes them all.
#include "workbench/reference/score_expression.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kiln {
namespace {

using expression::Node;
using expression::Op;
using expression::Variable;

double variable(Variable name, double score, const ScorePlace& at) {
  switch (name) {
    case Variable::score:
      return score;
    case Variable::b:
      return static_cast<double>(at.b);
    case Variable::h:
      return static_cast<double>(at.h);
    case Variable::q:
      return static_cast<double>(at.q);
    case Variable::k:
      return static_cast<double>(at.k);
    case Variable::seqlen_q:
      return static_cast<double>(at.seqlen_q);
    case Variable::seqlen_k:
      return static_cast<double>(at.seqlen_k);
  }
  return 0;
}

/// Conditions are 0 and 1.
double compare(Op op, double x, double y) {
  switch (op) {
    case Op::less:
      return x < y ? 1 : 0;
    case Op::less_equal:
      return x <= y ? 1 : 0;
    case Op::greater:
      return x > y ? 1 : 0;
    case Op::greater_equal:
      return x >= y ? 1 : 0;
    case Op::equal:
      return x == y ? 1 : 0;
    case Op::not_equal:
      return x != y ? 1 : 0;
    case Op::logical_and:
      return x != 0 && y != 0 ? 1 : 0;
    default:
      return x != 0 || y != 0 ? 1 : 0;  // logical_or
  }
}

double function(Op op, double x, double y) {
  switch (op) {
    case Op::min:
      return std::fmin(x, y);
    case Op::max:
      return std::fmax(x, y);
    case Op::abs:
      return std::fabs(x);
    case Op::floor:
      return std::floor(x);
    case Op::exp:
      return std::exp(x);
    case Op::exp2:
      return std::exp2(x);
    case Op::log:
      return std::log(x);
    case Op::log2:
      return std::log2(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::pow:
      return std::exp2(y * std::log2(x));
    default:
      return compare(op, x, y);
  }
}

// Reals of a kernel are floats: so are the numbers it begins with. Both branches of a selection are computed:
// no operation has an effect.
double apply(const Node& node, double x, double y, double z) {
  switch (node.op) {
    case Op::literal:
      return node.type == expression::Type::real ? static_cast<double>(static_cast<float>(node.value))
                                                 : node.value;
    case Op::variable:
    case Op::load:
      return node.value;
    case Op::to_real:
      return static_cast<double>(static_cast<float>(x));
    case Op::negate:
      return -x;
    case Op::add:
      return x + y;
    case Op::subtract:
      return x - y;
    case Op::multiply:
      return x * y;
    case Op::divide:
      return x / y;
    case Op::modulo:
      return x - y * std::floor(x / y);
    case Op::idiv:
      return std::floor(x / y);
    case Op::logical_not:
      return x == 0 ? 1 : 0;
    case Op::select:
      return x != 0 ? y : z;
    default:
      return function(node.op, x, y);
  }
}

// An index outside of a dimension takes the last element there.
double element(const CapturedValues& tensor, const Node& load, const std::vector<double>& values) {
  std::int64_t place = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const auto index = static_cast<std::int64_t>(values[static_cast<std::size_t>(load.args[i])]);
    const std::int64_t last = tensor.shape[i] - 1;
    place = place * tensor.shape[i] + (index < 0 || index > last ? last : index);
  }
  return static_cast<double>(tensor.values.at(static_cast<std::size_t>(place)));
}

}  // namespace

double evaluate(const expression::Expression& expression, double score, const ScorePlace& place,
                const std::vector<CapturedValues>& captured) {
  thread_local std::vector<double> values;  // one call per score: no allocation after the first
  values.resize(expression.nodes.size());
  for (std::size_t i = 0; i < expression.nodes.size(); ++i) {
    const Node& node = expression.nodes[i];
    const auto operand = [&](std::size_t n) {
      return n < node.args.size() ? values[static_cast<std::size_t>(node.args[n])] : 0.0;
    };
    if (node.op == Op::variable) {
      values[i] = variable(node.variable, score, place);
    } else if (node.op == Op::load) {
      values[i] = element(captured.at(static_cast<std::size_t>(node.tensor)), node, values);
    } else {
      values[i] = apply(node, operand(0), operand(1), operand(2));
    }
  }
  return values.back();
}

}  // namespace kiln
