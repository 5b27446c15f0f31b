// One mistake, one finding. A missing barrier shows in every pair of accesses it would have ordered: other lanes, warps,
// blocks and iterations, other instructions, copies of them in an unrolled loop or an inlined function. What reports a
// finding names its possible causes (Finding::causes); findings that share a name are counted as one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <kiln/emulator/emulator.hpp>

namespace kiln::emulator {

class Mistakes {
 public:
  /// Keeps the first `most` mistakes, and counts those.
  explicit Mistakes(std::size_t most) : most_(most) {}

  /// Whether a finding of that kind between these two lines of one program was added before; if so it is counted.
  bool again(const std::string& kind, int line, int other_line);
  /// Counts `f` in with what shares a cause with it, or keeps it. It may show that two findings are of one mistake.
  /// Whether it is a new mistake, or a new place of one.
  bool add(Finding f, const std::vector<std::string>& causes);
  /// The findings in the order of their first appearance; what only follows from another mistake is part of that.
  std::vector<Finding> take();

 private:
  using Place = std::tuple<std::string, int, int>;  ///< kernel, line, other line
  struct Entry {
    Finding finding;
    std::set<Place> places;
    std::size_t parent = 0;  ///< its own index, or the finding that it is part of
  };

  std::size_t root(std::size_t i) const;
  std::size_t merge(std::size_t a, std::size_t b);
  void attach_consequences();

  std::size_t most_, kept_ = 0;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> by_cause_;
  std::map<std::tuple<std::string, int, int>, std::size_t> by_lines_;
};

}  // namespace kiln::emulator
