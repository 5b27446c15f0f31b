// Which members of a sweep are enough: a subset in which all values of a few keys meet.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/sweep/sweep_grid.hpp"

namespace kiln::cli {

/// A small subset of `combinations` (indices, the most useful first) in which every `strength` values of
/// different keys that occur together in some combination occur together; in a grid with fewer keys that
/// vary, every combination of those. Greedy, the same for the same input.
std::vector<std::size_t> covering_subset(const std::vector<const Combination*>& combinations,
                                         std::size_t strength);

}  // namespace kiln::cli
