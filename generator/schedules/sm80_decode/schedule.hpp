// sm80_decode: few query rows against a long KV cache with mma.sync and cp.async. Bound by memory: everything
// serves the copies.
//
// - The query heads of a KV head (and query positions) are packed into the 16 rows of the matrix instruction.
// - Warps do not wait for each other: each takes its own WN keys of every tile through stages of its own, K
// and
//   V in separate groups, so that the copies of K(n + stages) start as soon as S = Q K(n)' is done.
// - Copies run ahead across the ends of work items, so that an item's epilogue costs no bandwidth.
// - V in K's rows (MLA) and depths over 256 have their own form, with tiles of the block: wide.hpp.
// - Work is split over the keys by StreamK (generator/systems/stream_k.hpp); the last block of an item
//   combines.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

std::unique_ptr<Schedule> make_sm80_decode(Config config, Violations& out);
/// Prefill over the same wide rows (latent caches, depths over 256), many query rows packed alike: every item
/// is one block's.
std::unique_ptr<Schedule> make_sm80_wide_prefill(Config config, Violations& out);

}  // namespace kiln
