// The parts of an sm90_prefill kernel body, one file each.
#pragma once

#include <string>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_prefill/plan.hpp"

namespace kiln::sm90 {

/// Who goes through the work items.
enum class ItemReader { producer, consumer, converter };
/// The loop over work items, `work` being each in turn: its head, and what ends its body. The loop's state is
/// declared before it.
void emit_open_items(Writer& w, const PrefillPlan& p, ItemReader reader);
void emit_close_items(Writer& w, const PrefillPlan& p, ItemReader reader);
/// Body of the warp that finds the items of a ragged batch, where that is not the producer.
void emit_item_warp(Writer& w, const PrefillPlan& p);

/// Body of warpgroup 0: one thread issues every copy.
void emit_producer(Writer& w, const PrefillPlan& p);
/// Widens K and V of one byte an element (sm90_prefill_convert.cpp): what it needs, and the body of the other
/// warps of warpgroup 0.
void use_converter(Prelude& prelude, const PrefillPlan& p);
void emit_converter(Writer& w, const PrefillPlan& p);
/// Scales of n elements on the way (row_scales.cpp): those of a tile of K or V apart, once they have come; where behind
/// those of a row, of the columns of `panel`, lies what the elements of a thread's chunk take; and its arithmetic.
void emit_split_scales(Writer& w, const PrefillPlan& p, bool k);
std::string part_offset(const PrefillPlan& p, int panel);
void use_scaled_converter(Prelude& prelude);
/// The same three warps where Q, K and V are FP8 (sm90_prefill_transpose.cpp): they turn V round.
void use_transposer(Prelude& prelude, const PrefillPlan& p);
void emit_transposer(Writer& w, const PrefillPlan& p);
/// L1 proof of what they store.
layout::Proof transposer_proof(const PrefillPlan& p);
/// A consumer's rows of Q, converted in place once they have come.
void emit_widen_q(Writer& w, const PrefillPlan& p);
/// L1 proof of the tile of K or V that the converters store.
layout::Proof converter_proof(const PrefillPlan& p, const char* name, int depth);
/// Where a consumer's O goes on its way through shared memory, and the end of its work item (epilogue.cpp).
void emit_output_addresses(Writer& w, const PrefillPlan& p);
void emit_epilogue(Writer& w, const PrefillPlan& p);
/// Body of warpgroups 1..n: 64 query rows each.
void emit_consumer(Writer& w, const PrefillPlan& p);

}  // namespace kiln::sm90
