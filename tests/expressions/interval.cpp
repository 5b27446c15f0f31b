#include "tests/expressions/interval.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kiln::test {
namespace {

using expression::Node;
using expression::Op;
using expression::Type;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kSmallest = std::numeric_limits<float>::min();  // the least that is never flushed
constexpr double kRounding = 0x1p-23;

const Interval kNothing{kInf, -kInf, false};

bool empty(const Interval& x) {
  return x.low > x.high;
}
Interval point(double x) {
  return {x, x, false};
}
Interval truth(bool may_be_false, bool may_be_true) {
  return {may_be_false ? 0.0 : 1.0, may_be_true ? 1.0 : 0.0, false};
}
void include(Interval& to, double x) {
  if (x != x) {
    to.nan = true;
  } else {
    to.low = std::min(to.low, x), to.high = std::max(to.high, x);
  }
}
Interval hull(const Interval& a, const Interval& b) {
  if (empty(a)) return {b.low, b.high, a.nan || b.nan};
  if (empty(b)) return {a.low, a.high, a.nan || b.nan};
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}

// A float near x, rounded with relative error `error`: flushed to 0 where it is small, infinite where it is
// too large. The unrounded value stays in: it is what a fused operation takes.
Interval rounded(Interval x, double error = kRounding) {
  if (empty(x)) return x;
  const auto widen = [&](double bound, double sign) {
    if (std::isinf(bound) || bound == 0) return bound;
    const double subnormal = std::fabs(bound) < kSmallest ? 0x1p-149 : 0.0;  // a step of those
    return bound + sign * (std::fabs(bound) * error + subnormal);
  };
  Interval out{widen(x.low, -1), widen(x.high, 1), x.nan};
  if (out.high > kLargest) out.high = kInf;
  if (out.low < -kLargest) out.low = -kInf;
  const double least = kSmallest * (1 + 4 * error);
  if (out.low > 0 && out.low < least) out.low = 0;
  if (out.high < 0 && out.high > -least) out.high = 0;
  return out;
}
Interval spread(Interval x, double absolute) {
  if (empty(x)) return x;
  return {x.low - absolute, x.high + absolute, x.nan};
}

Interval sum(const Interval& a, const Interval& b) {
  if (empty(a) || empty(b)) return {kInf, -kInf, true};
  Interval out = kNothing;
  out.nan = a.nan || b.nan;
  for (const double x : {a.low, a.high}) {
    for (const double y : {b.low, b.high}) include(out, x + y);
  }
  return out;
}
Interval negated(const Interval& x) {
  return empty(x) ? x : Interval{-x.high, -x.low, x.nan};
}
bool has_zero(const Interval& x) {
  return x.low <= 0 && x.high >= 0;
}
bool has_infinity(const Interval& x) {
  return x.low == -kInf || x.high == kInf;
}
Interval product(const Interval& a, const Interval& b) {
  if (empty(a) || empty(b)) return {kInf, -kInf, true};
  Interval out = kNothing;
  out.nan = a.nan || b.nan || (has_zero(a) && has_infinity(b)) || (has_zero(b) && has_infinity(a));
  for (const double x : {a.low, a.high}) {
    for (const double y : {b.low, b.high}) include(out, x == 0 || y == 0 ? 0.0 : x * y);
  }
  const bool numbers_meet_zero = has_zero(a) || has_zero(b);
  if (numbers_meet_zero && !empty(out)) include(out, 0);
  return out;
}

// Of a function that rises everywhere it is defined.
template <class Function>
Interval rising(const Interval& x, Function f) {
  if (empty(x)) return x;
  return {f(x.low), f(x.high), x.nan};
}

Interval reciprocal(const Interval& x) {
  if (empty(x)) return x;
  if (has_zero(x)) {
    Interval all{-kInf, kInf, x.nan};  // 0 has a sign that an interval does not know
    return all;
  }
  Interval out{1 / x.high, 1 / x.low, x.nan};
  // Above 2^126 the reciprocal is subnormal.
  if (x.high > 0x1p126 * 0.999) out.low = std::min(out.low, 0.0);
  if (x.low < -0x1p126 * 0.999) out.high = std::max(out.high, 0.0);
  return rounded(out, 2e-6);
}

Interval log2_of(const Interval& x) {
  if (empty(x)) return x;
  if (x.high < 0) return {kInf, -kInf, true};
  Interval out{x.low <= 0 ? -kInf : std::log2(x.low), x.high <= 0 ? -kInf : std::log2(x.high),
               x.nan || x.low < 0};
  if (x.high > 0 && x.low < kSmallest) out.low = -kInf;  // flushed
  return rounded(spread(out, 2e-6), 2e-6);
}
Interval exp2_of(const Interval& x) {
  return rounded(rising(x, [](double v) { return std::exp2(v); }), 2e-6);
}
Interval scaled(const Interval& x, double factor) {
  return rounded(product(x, point(factor)), 1e-7);
}

Interval least_of(const Interval& a, const Interval& b) {
  // A NaN beside a number loses.
  Interval out = kNothing;
  if (!empty(a) && !empty(b)) out = {std::min(a.low, b.low), std::min(a.high, b.high), false};
  if (a.nan || empty(a)) out = hull(out, {b.low, b.high, false});
  if (b.nan || empty(b)) out = hull(out, {a.low, a.high, false});
  out.nan = a.nan && b.nan;
  return out;
}

Interval comparison(Op op, const Interval& a, const Interval& b) {
  const bool numbers = !empty(a) && !empty(b), nan = a.nan || b.nan;
  switch (op) {
    case Op::less:
      return truth(nan || (numbers && a.high >= b.low), numbers && a.low < b.high);
    case Op::less_equal:
      return truth(nan || (numbers && a.high > b.low), numbers && a.low <= b.high);
    case Op::greater:
      return comparison(Op::less, b, a);
    case Op::greater_equal:
      return comparison(Op::less_equal, b, a);
    case Op::equal: {
      const bool meet = numbers && a.low <= b.high && b.low <= a.high;
      const bool same = meet && a.low == a.high && b.low == b.high;
      return truth(!same || nan, meet);
    }
    default: {
      const Interval equal = comparison(Op::equal, a, b);
      return truth(equal.high == 1, equal.low == 0);
    }
  }
}

double place_of(expression::Variable variable, double score, const ScorePlace& at) {
  using expression::Variable;
  switch (variable) {
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

Interval of_node(const Node& n, const Interval& x, const Interval& y, const Interval& z) {
  const bool real = n.type == Type::real;
  const auto result = [&](const Interval& exact) { return real ? rounded(exact) : exact; };
  switch (n.op) {
    case Op::literal:  // as a float, or as it is written where that is folded into another constant
      return real ? hull(rounded(point(n.value)), point(static_cast<float>(n.value))) : point(n.value);
    case Op::variable:
    case Op::load:            // random expressions have no tensors
      return point(n.value);  // not reached
    case Op::to_real:
      return rounded(x);
    case Op::negate:
      return negated(x);
    case Op::add:
      return result(sum(x, y));
    case Op::subtract:
      return result(sum(x, negated(y)));
    case Op::multiply:
      return result(product(x, y));
    case Op::divide:
      return rounded(product(x, reciprocal(y)), 2e-6);
    case Op::modulo: {
      if (x.low != x.high) return {0, y.low - 1, false};
      const double rest = std::fmod(x.low, y.low);
      return point(rest < 0 ? rest + y.low : rest);
    }
    case Op::idiv:
      return {std::floor(x.low / y.low), std::floor(x.high / y.low), false};
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal:
    case Op::equal:
    case Op::not_equal:
      return comparison(n.op, x, y);
    case Op::logical_and:
      return {std::min(x.low, y.low), std::min(x.high, y.high), false};
    case Op::logical_or:
      return {std::max(x.low, y.low), std::max(x.high, y.high), false};
    case Op::logical_not:
      return {1 - x.high, 1 - x.low, false};
    case Op::select:
      return hull(x.high == 1 ? y : kNothing, x.low == 0 ? z : kNothing);
    case Op::min:
      return least_of(x, y);
    case Op::max:
      return negated(least_of(negated(x), negated(y)));
    case Op::abs:
      if (empty(x)) return x;
      return {has_zero(x) ? 0 : std::min(std::fabs(x.low), std::fabs(x.high)),
              std::max(std::fabs(x.low), std::fabs(x.high)), x.nan};
    case Op::floor:
      return rising(x, [](double v) { return std::floor(v); });
    case Op::exp:
      return exp2_of(scaled(x, 1.4426950408889634));
    case Op::exp2:
      return exp2_of(x);
    case Op::log:
      return scaled(log2_of(x), 0.6931471805599453);
    case Op::log2:
      return log2_of(x);
    case Op::sqrt: {
      if (empty(x)) return x;
      if (x.high < 0) return {kInf, -kInf, true};
      return rounded({std::sqrt(std::max(0.0, x.low)), std::sqrt(x.high), x.nan || x.low < 0}, 1e-6);
    }
    case Op::tanh:
      return spread(rising(x, [](double v) { return std::tanh(v); }), 2e-6);
    case Op::pow:
      return exp2_of(rounded(product(y, log2_of(x))));
  }
  return kNothing;
}

}  // namespace

bool Interval::sharp() const {
  if (low > high) return nan;
  if (nan) return false;
  return low == high || high - low <= 1e-3 * std::max({1.0, std::fabs(low), std::fabs(high)});
}

Interval bounds(const expression::Expression& expression, double score, const ScorePlace& place) {
  std::vector<Interval> values;
  for (const Node& node : expression.nodes) {
    const auto operand = [&](std::size_t i) {
      return i < node.args.size() ? values[static_cast<std::size_t>(node.args[i])] : kNothing;
    };
    // A subnormal score may be flushed.
    values.push_back(node.op == Op::variable ? hull(point(place_of(node.variable, score, place)),
                                                    rounded(point(place_of(node.variable, score, place)), 0))
                                             : of_node(node, operand(0), operand(1), operand(2)));
  }
  return values.back();
}

}  // namespace kiln::test
