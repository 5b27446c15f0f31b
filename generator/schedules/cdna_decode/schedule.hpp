// cdna_decode_streaming: decode on gfx90a, gfx942 and gfx950.
//
// The query heads of a KV head, times the query positions, are the 16 rows of one tile. Keys of a tile are
// dealt to the waves for S' = K Q', output columns for O' += V' P', so P crosses through LDS. One strip of K
// or V is in LDS at a time: the least LDS, so the most blocks on a CU. Work is split over the keys by
// StreamK; the last block of an item combines its parts in order.
//
// cdna_decode: the same, with whole tiles of K and V in LDS (KVBuffer), in one or two stages, or with V in
// the columns of K (MLA). For rows that streaming does not take: 192/128, 576/512.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

/// The default where streams_decode (generator/config/defaults.hpp) says so; the other one elsewhere.
std::unique_ptr<Schedule> make_cdna_decode_streaming(Config config, Violations& out);
std::unique_ptr<Schedule> make_cdna_decode(Config config, Violations& out);

}  // namespace kiln
