// The tuner's search: from a config as the planner fills it, one free key after the other, keeping what is
// better. Knows no device: what a kernel is worth is asked of a function.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <kiln/generator.hpp>

namespace kiln {

/// What measuring a kernel gave: a score, less is better, or why it does not count.
struct Measurement {
  std::optional<double> score;
  std::string problem;
};

struct Trial {
  std::string keys;  ///< "BN 96, num_kv_stages 3": what was set beside the user's own keys; "" at the start
  Config config;
  Measurement result;
};

struct Search {
  std::vector<Trial> trials;        ///< in the order tried, the planner's own choice first
  std::optional<std::size_t> best;  ///< of those that count
  bool finished = true;             ///< false: a limit ended the search before it came to rest
};

/// Keys that `config` sets stay as they are. At most `limit` kernels are measured, and none after `stop` said
/// true; kernels that differ in no key of their plan count as one.
Search search_kernels(const Config& config, std::size_t limit,
                      const std::function<Measurement(const Plan&, const std::string& keys)>& measure,
                      const std::function<bool()>& stop = {});

}  // namespace kiln
