// The parts of an sm90_decode kernel body, one file each.
#pragma once

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"
#include "generator/systems/online_softmax.hpp"

namespace kiln::sm90 {

/// Query row (column of S' and O') of index `c` of a lane: a literal plus 2 * (lane & 3).
constexpr int row_of(int c) {
  return 8 * (c / 2) + c % 2;
}
/// Once per item: where the tiles lie that some row sees in part, and what masks and modifiers ask of the
/// rows.
void emit_limits(Writer& w, const DecodePlan& p);
/// Raw products of tile n, s_acc, to modified and masked scores.
void emit_scores(Writer& w, const DecodePlan& p);
/// One M block of registers, 16-bit, transposed to shared memory (rows are query rows); times
/// `factor`[column] unless that is empty.
void emit_transposed(Writer& w, const DecodePlan& p, const std::string& at, const std::string& acc,
                     const char* pack, const std::string& factor);

/// A loop over the 16-byte chunks of Q: `x` is chunk `c` of packed row `r`, zeros past the last row and past
/// the `real` chunks of a row, which begin at column `first`.
void open_query_chunks(Writer& w, const DecodePlan& p, int chunks, int real, int first = 0);

/// Q of 16 bits as it is, all of it on its way at once.
void emit_copy_q(Writer& w, const DecodePlan& p);
/// Every warp's part of Q is in shared memory.
void emit_query_there(Writer& w, const DecodePlan& p);

// Rows on the M side of wgmma (rows_on_m.cpp), where there are 64 of them.
/// The softmax of 64 rows on the M side.
OnlineSoftmax softmax_of(const DecodePlan& p);
/// The products of S with chunk `qk` of K, between fence and commit.
void emit_upright_qk(Writer& w, const DecodePlan& p, int qk);
void emit_upright_pv(Writer& w, const DecodePlan& p);

// Latent rows, scores once (sm90_decode/seesaw.cpp).
void emit_seesaw_state(Writer& w, const DecodePlan& p);
/// All tiles of a segment.
void emit_seesaw(Writer& w, const DecodePlan& p);
/// After the sums over the lanes of a row: those of both warpgroups.
void emit_seesaw_sums(Writer& w, const DecodePlan& p);

/// Body of a warp that keeps the ring of K, of V or both full.
void emit_decode_producer(Writer& w, const DecodePlan& p, bool k, bool v);
/// Maximum `top` and sum of `row` (expressions) in, the inverse sum out; `writer` (a condition) says which
/// threads write the log-sum-exp.
void emit_finish_row(Writer& w, const DecodePlan& p, const std::string& row, const std::string& top,
                     const std::string& sum, const std::string& inverse, const std::string& writer);
/// Where the row of O of the emitted `packed` begins.
std::string output_address(const DecodePlan& p);
/// Where part `i` (an expression) of the item at hand begins, after StreamK::emit_parts.
std::string part_of_item(const std::string& i);
/// Parts that all blocks add up (sm90_decode/shared_combine.cpp): this one; it is there; and the rest.
void emit_shared_part(Writer& w, const DecodePlan& p);
void emit_shared_arrival(Writer& w, const DecodePlan& p);
void emit_shared_combine(Writer& w, const DecodePlan& p);

}  // namespace kiln::sm90
