// sweep --random: configs drawn from the schema, each up the whole ladder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/types.hpp>

namespace kiln::cli {

struct RandomSweep {
  std::uint64_t seed = 0;
  double minutes = 1;
  std::size_t trials = 0;  ///< at most; 0: as many as the time holds
  std::vector<Target> targets;
};

/// Draws, plans, compiles and runs until the time is over. The exit status: 1 when anything failed.
int run_random_sweep(const RandomSweep& options, bool json);

}  // namespace kiln::cli
