// What a kernel may make of a score expression: an interval for each node that holds the result of every
// evaluation in floats, with products and sums fused or not, subnormals flushed or kept, and functions good to
// the bounds that docs/config.md states. Written from the language's definition; it shares no code with the
// emitter and none with the reference.
#pragma once

#include "generator/expression/expression.hpp"
#include "workbench/reference/score_expression.hpp"

namespace kiln::test {

/// Numbers from `low` to `high` (both may be infinite), none if low > high; besides, perhaps NaN. Booleans are
/// 0 and 1.
struct Interval {
  double low = 0, high = 0;
  bool nan = false;

  bool holds(double x) const { return x != x ? nan : low <= x && x <= high; }
  /// It says something about a kernel: one number, give or take a thousandth, or NaN.
  bool sharp() const;
};

Interval bounds(const expression::Expression& expression, double score, const ScorePlace& place);

}  // namespace kiln::test
