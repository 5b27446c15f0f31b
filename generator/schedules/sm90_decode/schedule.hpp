// sm90_decode: few query rows against a long KV cache, on sm_90a. Bound by memory: everything serves the
// copies.
//
// - The query heads of a KV head (and query positions) are packed into BM rows, and the matrix products are
// turned
//   round (swap A and B): S' = K Q' and O' = V' P', so that 64 keys, not 64 rows of padding, fill the M side
//   of wgmma.
// - One producer warp (one each for K and V where pages are small) keeps num_kv_stages tiles of both in
//   flight, across the ends of work items; one consumer warpgroup computes. Small blocks, two to a
//   multiprocessor where they fit.
// - 64 query rows fill the M side themselves, as in prefill (rows_on_m.cpp).
// - Work is split over the keys by StreamK (generator/systems/stream_k.hpp); the last block of an item
// combines.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

std::unique_ptr<Schedule> make_sm90_decode(Config config, Violations& out);
/// Prefill of rows too wide for one warpgroup (latent caches, depths over 256), packed as decode packs them:
/// every item is one block's.
std::unique_ptr<Schedule> make_sm90_wide_prefill(Config config, Violations& out);

}  // namespace kiln
