// sm90_prefill: TMA producer warp, 1 to 3 consumer warpgroups with wgmma, softmax of one KV tile overlapped
// with the P*V of the one before. Persistent: each block walks work items (query tile, head,
// sequence) until none is left.
//
// Roles     warpgroup 0: one elected thread issues every copy; warpgroups 1..n: 64 query rows each.
// Order     KV tiles from the last to the first, so that masked tiles come first and the main loop has none.
// Barriers  q_full/q_empty per consumer warpgroup, K ring, V ring, and the ring that hands out work items.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

/// Entries of the registry. They differ in how the warpgroups share the tensor cores: `sm90_prefill` leaves
/// it to the hardware, `sm90_prefill_pingpong` hands the issue slot round with named barriers.
std::unique_ptr<Schedule> make_sm90_prefill(Config config, Violations& out);
std::unique_ptr<Schedule> make_sm90_prefill_pingpong(Config config, Violations& out);

}  // namespace kiln
