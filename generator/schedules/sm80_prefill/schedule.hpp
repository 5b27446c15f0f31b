// sm80_prefill: multi-stage cp.async pipeline, mma.sync, every warp does everything.
//
// A block owns BM query rows of one head of one sequence, 16 rows a warp, and walks the KV tiles from the
// first to the last that its rows see. Per tile: start the copies of the tile `num_kv_stages - 1` ahead, S =
// Q K', mask (only where a row's limit falls into the tile), online softmax, O += P V. One block barrier a
// tile; with a single stage two, and the copy of V overlaps S, that of the next K overlaps P V. 8-bit keys
// and values are widened in between, each thread those it copied, with two barriers a tile.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

std::unique_ptr<Schedule> make_sm80_prefill(Config config, Violations& out);

}  // namespace kiln
