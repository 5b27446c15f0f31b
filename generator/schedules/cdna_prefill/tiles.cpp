// The main loop of cdna_prefill over whole tiles: K and V in stages of their own, or V in the columns of K.
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_prefill/parts.hpp"

namespace kiln::cdna {

// S' = K(n) Q'
void emit_qk(Writer& w, const PrefillPlan& p, int stage) {
  w.comment("S' = K(n) Q'");
  p.k->kv_mma_op().emit_registers(w);
  emit_scores_product(w, {*p.k, stage * p.k->stage_bytes(), "q_reg", "s_acc", true}, p.row_scales,
                      p.scores());
  if (p.k_rope) emit_rope_product(w, *p.k_rope, stage * p.k_rope->stage_bytes(), p.k->num_k_tiles());
}

void emit_load_k(Writer& w, const PrefillPlan& p, int stage) {
  p.k->emit_load_from_dram(w, stage);
  if (p.k_rope) p.k_rope->emit_load_from_dram(w, stage);
}

void emit_key_scales(Writer& w, const PrefillPlan& p) {
  p.row_scales.emit_keys(w, p.scores(), fmt::format("n * {}", p.BN),
                         operand_form(p.kind).block() ? "block_rows" : "seqlen_k");
}

void emit_softmax(Writer& w, const PrefillPlan& p) {
  p.row_scales.emit_apply(w, p.scores());
  p.modifier->emit_apply(w, p.score_context(), fmt::format("n * {}", p.BN));
  p.mask->emit_apply_where_cut(w, p.score_context(), p.BN);
  p.row_scales.emit_weigh(w, p.scores(), p.modifier->scale_log2());
  w.comment("P = exp2(S - max), O follows the maximum");
  p.softmax->emit_max(w);
  p.softmax->emit_rescale(w);
  p.softmax->emit_exp(w);
  p.row_scales.emit_signs(w, p.scores());
  if (p.row_scales.in_p()) p.row_scales.emit_apply(w, p.scores(), "P");
  p.softmax->emit_pack(w);
}

void emit_pv(Writer& w, const PrefillPlan& p, int lds_offset) {
  w.comment("O' += V(n)' P'");
  const KVBuffer& v = *p.v;
  const int slice_bytes = p.v_slice_columns / v.stage().block_cols * v.stage().block_bytes();
  for (int i = 0; i < p.v_slices; ++i) {
    if (p.v_slices > 1) {
      w.open("");
      w.comment("columns {} .. {}", i * p.v_slice_columns, (i + 1) * p.v_slice_columns - 1);
    }
    v.kv_mma_op().emit_registers(w);
    emit_product(
        w, {v, lds_offset + i * slice_bytes, "p", "o_acc", false, 0, i * p.v_slice_columns / p.mfma.shape.m});
    if (p.v_slices > 1) w.close();
    if (i + 1 < p.v_slices) w.line("SCHEDULE_FENCE();");
  }
}

void emit_wait(Writer& w, const PrefillPlan& p, int loads) {
  w.line("WAIT_LOADS_AND_SYNC({});", p.counted ? loads : 0);
}

namespace {

void emit_tile(Writer& w, const PrefillPlan& p, int stage) {
  const int k_stage = p.k_stages == 2 ? stage : 0, v_stage = p.v_stages == 2 ? stage : 0;
  const int vm_k = p.k_loads(), vm_v = p.v->vm_exact();
  w.banner("KV tile n in stage {}", stage);
  if (p.drains_ahead()) {
    w.line("SYNC();  // every wave has finished tile n - 1, and before its last product it waited for K(n)");
  } else {
    w.comment("{} landed, and every wave has finished tile n - 1",
              p.counted || p.v_stages == 1 ? "K(n) has" : "K(n) and V(n) have");
    emit_wait(w, p, p.v_stages == 2 ? vm_v : 0);
  }
  emit_key_scales(w, p);
  if (p.v_stages == 1) p.v->emit_load_from_dram(w, 0);
  if (p.k_stages == 2) {
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p, 1 - k_stage);
    if (p.v_stages == 2) p.v->emit_load_from_dram(w, 1 - v_stage);
    w.close();
  }
  open_if_visible(w, *p.mask, p.BN);
  emit_qk(w, p, k_stage);
  emit_softmax(w, p);
  w.close();
  if (p.k_stages == 2 && p.counted) {
    w.comment("V(n) has landed; what was started after it may still fly");
    w.open("if (n + 1 < num_tiles)");
    emit_wait(w, p, vm_k + (p.v_stages == 2 ? vm_v : 0));
    w.reopen("else");
    emit_wait(w, p, 0);
    w.close();
  } else if (p.k_stages == 2) {
    if (p.v_stages == 1) w.comment("V(n) has landed, and K(n + 1)"), emit_wait(w, p, 0);
  } else {
    w.comment("V(n) has landed, and every wave has finished K(n)");
    emit_wait(w, p, 0);
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p, 0);
    w.close();
  }
  open_if_visible(w, *p.mask, p.BN);
  emit_pv(w, p, v_stage * p.v->stage_bytes());
  w.close();
  w.line("if (++n == num_tiles) break;");
}

// K(n) serves both products.
void emit_tile_v_in_k(Writer& w, const PrefillPlan& p, int stage) {
  w.banner("KV tile n in stage {}", stage);
  w.comment("K(n) has landed, and every wave has finished tile n - 1");
  emit_wait(w, p, 0);
  emit_key_scales(w, p);
  if (p.k_stages == 2) {
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p, 1 - stage);
    w.close();
  }
  open_if_visible(w, *p.mask, p.BN);
  emit_qk(w, p, stage);
  emit_softmax(w, p);
  emit_pv(w, p, stage * p.k->stage_bytes());
  w.close();
  if (p.k_stages == 1) {
    w.open("if (n + 1 < num_tiles)");
    w.line("SYNC();  // every wave has finished K(n)");
    emit_load_k(w, p, 0);
    w.close();
  }
  w.line("if (++n == num_tiles) break;");
}

}  // namespace

void emit_first_loads(Writer& w, const PrefillPlan& p) {
  if (p.loop == PrefillLoop::blocks) return emit_blocks_first_loads(w, p);
  emit_load_k(w, p, 0);
  const bool pingpong = p.loop == PrefillLoop::pingpong;
  if ((p.loop == PrefillLoop::tiles && p.v_stages == 2) || pingpong) p.v->emit_load_from_dram(w, 0);
  if (!pingpong) return;
  w.open("if ({} + 1 < num_tiles)", p.first_tile());
  p.k->emit_load_from_dram(w, 1);
  w.close();
}

void emit_tile_loop(Writer& w, const PrefillPlan& p) {
  if (p.staged) return emit_staged_loop(w, p);
  if (p.loop == PrefillLoop::blocks) return emit_blocks_loop(w, p);
  for (int stage = 0; stage < p.k_stages; ++stage) {
    p.loop == PrefillLoop::v_in_k ? emit_tile_v_in_k(w, p, stage) : emit_tile(w, p, stage);
  }
}

}  // namespace kiln::cdna
