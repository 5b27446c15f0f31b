// The steps between a config and the plan of an sm100_decode kernel: what only they share.
#pragma once

#include <string_view>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/schedules/sm100_decode/plan.hpp"

namespace kiln::sm100 {

// ---- meaning.cpp

/// Long queries of wide or latent rows are packed as those of decode are.
bool is_prefill(const Config& c);
/// The schedule's name: sm100_decode or sm100_wide_prefill.
std::string_view name_of(const Config& c);
/// What the schedule supports; violations otherwise.
bool check_meaning(const Config& c, Violations& out);
/// Bytes that become 16 bits on their way.
bool widens_bytes(const Config& m);

// ---- tiles.cpp

/// Keys of a tile, rows of the matrix instruction of S': as asked where both will do.
int keys_of_tile(const Config& m);
/// Both do.
inline bool has_both_tiles(const Config& m) {
  return *m.v_from_k && is_fp8(m.dtype);
}

/// Packed rows, keys, threads, the swizzle.
bool choose_tile(DecodePlan& p, Config& c, const Refusals& refuse);

// ---- storage.cpp

/// Stages and chunks of K and V, and where all of it lies in shared memory.
bool choose_stages(DecodePlan& p, Config& c, const Refusals& refuse);

/// Columns in whole swizzle spans.
inline int whole_spans(int columns) {
  return align_up(columns, kSpanColumns);
}

}  // namespace kiln::sm100
