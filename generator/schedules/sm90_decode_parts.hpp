// The parts of an sm90_decode kernel body, one file each.
#pragma once

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_decode_plan.hpp"

namespace kiln::sm90 {

/// Wrapper that packs two floats to this type.
const char* pack_of(DType type);
/// Query row (column of S' and O') of index `c` of a lane: a literal plus 2 * (lane & 3).
constexpr int row_of(int c) {
  return 8 * (c / 2) + c % 2;
}
/// One M block of registers, 16-bit, transposed to shared memory (rows are query rows); times
/// `factor`[column] unless that is empty.
void emit_transposed(Writer& w, const DecodePlan& p, const std::string& at, const std::string& acc,
                     const char* pack, const std::string& factor);

/// Body of the last warp: keeps the rings of K and V full.
void emit_decode_producer(Writer& w, const DecodePlan& p);
/// Body of the first four warps: scores, softmax, output.
void emit_decode_consumer(Writer& w, const DecodePlan& p);
/// End of a segment: the output of a whole item, or a partial result, its arrival and the combination.
void emit_decode_epilogue(Writer& w, const DecodePlan& p);

}  // namespace kiln::sm90
