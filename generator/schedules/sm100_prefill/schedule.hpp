// sm100_prefill: the two-tile pipeline of Blackwell. Two tiles of 128 query rows share every tile of K and V; products
// go through tensor memory, and while the tensor cores work for one tile the other one's softmax runs.
// Blocks with one tile, for wide rows, and pairs of those have a warpgroup of softmax less: docs/schedules.md.
//
// Roles     warps 0-3, 4-7: softmax of tile 0, 1, a row a thread; 8-11: correction of O, then its way out;
//           12: one elected thread issues every product; 13: one elected thread issues every copy; 14, 15: none.
// Order     S0 <- Q0 K(n)', O1 += P1 V(n+1), S1 <- Q1 K(n)', O0 += P0 V(n); KV tiles from the last to the first.
// Hand-overs by mbarriers alone; products release slots and announce S and O by tcgen05.commit.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

std::unique_ptr<Schedule> make_sm100_prefill(Config config, Violations& out);

}  // namespace kiln
