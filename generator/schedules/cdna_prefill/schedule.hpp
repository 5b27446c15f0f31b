// cdna_prefill: prefill on gfx90a, gfx942 and gfx950.
//
// A block owns BM query rows of one head of one sequence, M rows a wave, and walks the KV tiles from the
// first to the last that its rows see. K and V come straight to LDS by buffer loads with counted waits. Per
// tile: S' = K Q' (a lane owns one query), mask (only where a row's limit falls into the tile), online
// softmax, O' += V' P' with P in registers. Two block barriers a tile: K has landed and everyone is done with
// the tile before; V has landed.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

std::unique_ptr<Schedule> make_cdna_prefill(Config config, Violations& out);

}  // namespace kiln
