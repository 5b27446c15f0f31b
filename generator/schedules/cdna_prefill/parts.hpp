// What the main loops of cdna_prefill are made of.
#pragma once

#include "generator/schedules/cdna_prefill/plan.hpp"
#include "generator/schedules/common/kv_loop_text.hpp"
#include "generator/systems/cdna/product.hpp"

namespace kiln::cdna {

/// Once K(n) has landed: the scales of its keys, where they differ from row to row.
void emit_key_scales(Writer& w, const PrefillPlan& p);
/// Scores of the tile in s_acc become P, and O follows the maximum.
void emit_softmax(Writer& w, const PrefillPlan& p);
/// O' += V(n)' P', V at byte `lds_offset` from its first stage.
void emit_pv(Writer& w, const PrefillPlan& p, int lds_offset);
/// Starts the copies of the next K into `stage`, of all its columns.
void emit_load_k(Writer& w, const PrefillPlan& p, int stage);
/// S' = K(n) Q' from stage `stage`.
void emit_qk(Writer& w, const PrefillPlan& p, int stage);
/// Waits until all but `loads` of the youngest loads have landed, and for the other waves.
void emit_wait(Writer& w, const PrefillPlan& p, int loads);

/// How waits treat loads on their way, in words.
const char* waits_of(const PrefillPlan& p);
/// V's reader where it is K's first columns.
void emit_values_of_k(Writer& w, const PrefillPlan& p);

/// Block `i` of a tile (full_kv false): starts its load into `stage`; its products from there.
void emit_block_load(Writer& w, const PrefillPlan& p, int i, int stage);
void emit_block(Writer& w, const PrefillPlan& p, int i, int stage);

}  // namespace kiln::cdna
