// Latent caches on sm_100a by pairs of blocks, decode and prefill: 128 packed query rows an item, 64 in each block, over
// tiles of K and V that the two share (plan.hpp).
//
//   what it can do, constants    plan.cpp
//   the kernel's text            templates/sm100_latent_pair.cuh, emit.cpp
//   copies of K and V            copies.cpp
#pragma once

#include "generator/schedules/schedule.hpp"

namespace kiln {

/// The default of configs of which `pairs_latent_rows` (generator/config/defaults.hpp) is true.
std::unique_ptr<Schedule> make_sm100_latent_pair(Config config, Violations& out);

}  // namespace kiln
