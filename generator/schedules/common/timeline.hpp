// What a schedule's main loop looks like over time: a model from the plan's own tile sizes and the target's
// rates, for pictures (`kiln inspect --html`, docs/). It shows order, overlap and what bounds the loop; it is
// no measurement.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace kiln {

struct TimelineSpan {
  enum class Kind { copy, scores, softmax, output };
  int lane = 0;
  double begin = 0, end = 0;  ///< clock cycles of the multiprocessor
  Kind kind = Kind::copy;
  std::string text;
};

/// What serves one request at a time, in the order they are made.
struct TimelineUnit {
  double free = 0;
  /// When a request that is `ready` by then begins.
  double take(double ready, double cost) {
    const double begin = std::max(ready, free);
    free = begin + cost;
    return begin;
  }
};

struct Timeline {
  std::vector<std::string> lanes;  ///< top to bottom
  std::vector<TimelineSpan> spans;
  std::string note;  ///< the rates assumed, one line
  bool empty() const { return spans.empty(); }
};

}  // namespace kiln
