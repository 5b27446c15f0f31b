// The parts of an sm90_decode kernel body, one file each.
#pragma once

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"
#include "generator/systems/online_softmax.hpp"

namespace kiln::sm90 {

/// Wrapper that packs two floats to this type.
const char* pack_of(DType type);
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

// K and V of one byte an element (sm90_decode_narrow.cpp): through registers, turned into FP16.
/// Q, converted to FP16 and permuted along the depth as the fragments of K are.
void emit_store_q_narrow(Writer& w, const DecodePlan& p);
/// Its rotary columns, as they are, behind the others.
void emit_store_q_rope(Writer& w, const DecodePlan& p);
/// Q of FP8, as it is.
void emit_store_q_fp8(Writer& w, const DecodePlan& p);
/// S' of the tile, between the wait for K and the commit; releases K.
void emit_qk_narrow(Writer& w, const DecodePlan& p);
/// A fragments of V' of the tile, `v_<block>_<step>[4]`; before P is ready, so that the loads overlap.
void emit_pv_narrow(Writer& w, const DecodePlan& p);
/// O' of the whole item, rounded, to the staging rows.
void emit_output_narrow(Writer& w, const DecodePlan& p);
/// Scales of K's keys, k_scale_<block>_<half>, of the slot in use.
void emit_key_scales(Writer& w, const DecodePlan& p, int block);

// K and V of one byte with several scales a row (sm90_decode_grouped.cpp).
/// Address of this lane's first scale of a group, of the slot in use, K's (`k`) or V's.
std::string scale_address(const DecodePlan& p, bool k, int group);
/// Bytes from there to the scale of this lane's key 64 keys on.
int scale_block_bytes(const DecodePlan& p);
void emit_grouped_lane(Writer& w);
void emit_store_q_grouped(Writer& w, const DecodePlan& p);
void emit_qk_grouped(Writer& w, const DecodePlan& p);
/// P of keys 64 * block to 64 * block + 63, times the scales of each group of V's columns.
void emit_store_p_grouped(Writer& w, const DecodePlan& p, int block);
void emit_pv_grouped(Writer& w, const DecodePlan& p);

// Rows on the M side of wgmma (sm90_decode_upright.cpp), where there are 64 of them.
/// The softmax of 64 rows on the M side.
OnlineSoftmax softmax_of(const DecodePlan& p);
/// S, O, P, maxima and sums as registers hold them, and their start values.
void emit_upright_state(Writer& w, const DecodePlan& p);
void emit_upright_reset(Writer& w, const DecodePlan& p);
/// The products of S with chunk `qk` of K, between fence and commit.
void emit_upright_qk(Writer& w, const DecodePlan& p, int qk);
/// P of the tile.
void emit_upright_probabilities(Writer& w, const DecodePlan& p);
void emit_upright_pv(Writer& w, const DecodePlan& p);
/// Row sums over the lanes of a row.
void emit_upright_sums(Writer& w);
/// O of the whole item, rounded, to the staging rows; and as a part.
void emit_upright_output(Writer& w, const DecodePlan& p);
void emit_upright_part(Writer& w, const DecodePlan& p);

// Latent rows, scores once (sm90_decode/seesaw.cpp).
void emit_seesaw_state(Writer& w, const DecodePlan& p);
/// All tiles of a segment.
void emit_seesaw(Writer& w, const DecodePlan& p);
/// After emit_upright_sums: those of both warpgroups.
void emit_seesaw_sums(Writer& w, const DecodePlan& p);

/// Body of a warp that keeps the ring of K, of V or both full.
void emit_decode_producer(Writer& w, const DecodePlan& p, bool k, bool v);
/// Body of the first four warps: scores, softmax, output.
void emit_decode_consumer(Writer& w, const DecodePlan& p);
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
/// End of a segment: the output of a whole item, or a partial result, its arrival and the combination.
void emit_decode_epilogue(Writer& w, const DecodePlan& p);

}  // namespace kiln::sm90
