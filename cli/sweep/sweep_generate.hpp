// The first step of a sweep: rules, generation and layout proofs of combinations, on all cores.
#pragma once

#include <cstddef>
#include <functional>
#include <kiln/kiln.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/sweep/sweep_grid.hpp"
#include "generator/layout/proof.hpp"

namespace kiln::cli {

/// What became of a combination. One with a plan is valid; one whose plan was `chosen` was generated as well.
struct Generated {
  std::optional<Plan> plan;
  bool refused = false;  ///< breaks a rule of configs; otherwise an `error` is a failure of kiln
  std::string error;
  std::string name;
  std::vector<layout::Proof> proofs;
  bool same_twice = false;  ///< a second generation gave the same bytes
};

/// Plans each combination; generates, twice, those with a plan that `chosen` wants. `chosen` is asked in the order of the
/// combinations, from the calling thread. The result is that of a loop over them, whatever the number of threads.
std::vector<Generated> generate_all(std::span<const Combination> combinations,
                                    const std::function<bool()>& chosen);

}  // namespace kiln::cli
