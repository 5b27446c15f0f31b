// The KV tiles of cdna_decode: whole tiles of K and V in LDS (KVBuffer), or of K alone, whose first columns
// are V (MLA). A wave reads its keys of K, then its output columns of V.
#include "generator/schedules/cdna_decode/plan.hpp"
#include "generator/systems/cdna/product.hpp"

namespace kiln::cdna {
namespace {

/// Where a wave's columns of V begin: bytes of whole blocks, and columns within one that waves share.
struct FirstColumn {
  std::string bytes, column;
};
FirstColumn first_column_of_v(const DecodePlan& p) {
  const LdsTile& stage = p.v_tile->stage();
  if (p.waves_in_block == 1)
    return {fmt::format(" + {} * {}", p.warp_n(), p.wave_step / stage.block_cols * stage.block_bytes()), ""};
  return {fmt::format(" + {} / {} * {}", p.warp_n(), p.waves_in_block, stage.block_bytes()),
          fmt::format("{} % {} * {}", p.warp_n(), p.waves_in_block, p.wave_step)};
}

void emit_load_k(Writer& w, const DecodePlan& p, int stage) {
  p.k_tile->emit_load_from_dram(w, stage);
  if (p.k_rope) p.k_rope->emit_load_from_dram(w, stage);
}

void emit_store_k(Writer& w, const DecodePlan& p, int stage) {
  p.k_tile->emit_store(w, stage);
  if (p.k_rope) p.k_rope->emit_store(w, stage);
}

/// S' = K(n) Q'
void emit_qk(Writer& w, const DecodePlan& p, int stage) {
  w.comment("S' = K(n) Q'");
  p.k_op().emit_registers(w);
  emit_scores_product(w, {*p.k_tile, stage * p.k_tile->stage_bytes(), "q_reg", "s_acc", true}, p.row_scales,
                      p.scores());
  if (p.k_rope) emit_rope_product(w, *p.k_rope, stage * p.k_rope->stage_bytes(), p.k_tile->num_k_tiles());
}

void emit_pv(Writer& w, const DecodePlan& p, int lds_offset) {
  w.comment("O' += V(n)' P'");
  const int columns = p.wave_columns / p.v_slices;
  const LdsTile& stage = p.v_tile->stage();
  for (int i = 0; i < p.v_slices; ++i) {
    w.open("");
    p.v_op().emit_registers(w);
    emit_product(w, {*p.v_tile, lds_offset + i * (columns / stage.block_cols) * stage.block_bytes(), "p",
                     "o_acc", false, 0, i * columns / p.mfma.shape.m});
    w.close();
    if (i + 1 < p.v_slices) w.line("SCHEDULE_FENCE();");
  }
}

void emit_tile(Writer& w, const DecodePlan& p, int stage) {
  const int k_stage = p.k_stages == 2 ? stage : 0, v_stage = p.v_stages == 2 ? stage : 0;
  const bool own_v = !p.v_in_k;
  w.banner("KV tile n in stage {}", stage);
  if (p.staged()) {
    w.comment("what was loaded goes where every wave has finished reading; K last, which is read first");
    if (own_v && !p.late_v()) p.v_tile->emit_store(w, v_stage);
    emit_store_k(w, p, k_stage);
    w.line("SYNC();");
  } else {
    w.comment("what is on its way has landed, and every wave has finished tile n - 1");
    w.line("WAIT_LOADS_AND_SYNC(0);");
  }
  emit_key_scales(w, p);
  if (p.late_v()) p.v_tile->emit_load_from_dram(w, 0);
  if (p.k_stages == 2 || p.staged()) {
    w.open("if (n + 1 < tile_end)");
    emit_load_k(w, p, 1 - k_stage);
    if (own_v && !p.late_v()) p.v_tile->emit_load_from_dram(w, 1 - v_stage);
    w.close();
  }
  w.open("");
  emit_qk(w, p, k_stage);
  emit_decode_softmax(w, p);
  if (p.late_v() && p.staged()) {
    p.v_tile->emit_store(w, 0);
    w.line("SYNC();");
  } else if (p.late_v()) {
    w.comment("V(n) has landed; K(n + 1) may still fly");
    w.line("if (n + 1 < tile_end) WAIT_LOADS_AND_SYNC({}); else WAIT_LOADS_AND_SYNC(0);", p.k_loads());
  } else {
    w.line("SYNC();");
  }
  emit_read_p(w, p);
  emit_pv(w, p, p.v_in_k ? k_stage * p.k_tile->stage_bytes() : v_stage * p.v_tile->stage_bytes());
  w.close();
  if (p.k_stages == 1) {
    w.open("if (n + 1 < tile_end)");
    if (own_v && p.v_tile->own_columns(p.wave_columns)) {
      w.comment(
          "K was read before the maxima were exchanged, and each wave copies the columns of V that it reads");
    } else {
      w.line("SYNC();  // every wave has finished tile n");
    }
    if (!p.staged()) emit_load_k(w, p, 0);
    if (own_v && !p.staged()) p.v_tile->emit_load_from_dram(w, 0);
    w.close();
  }
  w.line("if (++n == tile_end) break;");
}

/// K and V in turn in one place. Copies of V start when every wave has read K.
void emit_shared_tile(Writer& w, const DecodePlan& p) {
  w.banner("KV tile n: K, then V in its place");
  if (p.staged()) {
    emit_store_k(w, p, 0);
    w.line("SYNC();");
    emit_key_scales(w, p);
    p.v_tile->emit_load_from_dram(w, 0);
  } else {
    w.line("WAIT_LOADS_AND_SYNC(0);  // K(n) has landed");
    emit_key_scales(w, p);
  }
  w.open("");
  emit_qk(w, p, 0);
  if (!p.staged()) {
    w.line("SYNC();  // every wave has read K(n)");
    p.v_tile->emit_load_from_dram(w, 0);
  }
  emit_decode_softmax(w, p);
  if (p.staged()) {
    w.comment("every wave had read K(n) before the maxima were exchanged");
    p.v_tile->emit_store(w, 0);
    w.line("SYNC();");
    w.open("if (n + 1 < tile_end)");
    emit_load_k(w, p, 0);
    w.close();
  } else {
    w.line("WAIT_LOADS_AND_SYNC(0);  // V(n) has landed, and P");
  }
  emit_read_p(w, p);
  emit_pv(w, p, 0);
  w.close();
  w.open("if (n + 1 < tile_end)");
  w.line("SYNC();  // every wave has finished V(n)");
  if (!p.staged()) emit_load_k(w, p, 0);
  w.close();
  w.line("if (++n == tile_end) break;");
}

}  // namespace

void emit_tile_buffers(Writer& w, const DecodePlan& p, const std::string& rows) {
  const int size = static_cast<int>(size_of(*p.config.kv_dtype));
  const int key_bytes = p.WN * p.k_tile->stage().row_bytes();
  p.k_tile->emit_construct(w, 0, "k_head", fmt::format("k_stride_seq * {}", size), rows, "first_key",
                           fmt::format(" + {} * {}", p.warp_n(), key_bytes));
  if (p.k_rope)
    p.k_rope->emit_construct(w, p.smem_rope, "k_rope_head", "k_rope_stride_seq * 2", rows, "first_key",
                             fmt::format(" + {} * {}", p.warp_n(), p.WN * p.k_rope->stage().row_bytes()));
  const FirstColumn v = first_column_of_v(p);
  if (p.v_in_k) {
    w.comment("V: the first {} columns of K", p.ov_depth);
    p.v_op().emit_construct(w, "0" + v.bytes, v.column);
  } else {
    p.v_tile->emit_construct(w, p.smem_v, "v_head", fmt::format("v_stride_seq * {}", size), rows, "first_key",
                             v.bytes, v.column);
  }
}

void emit_decode_tiles(Writer& w, const DecodePlan& p) {
  w.banner("KV tiles: at least one");
  emit_load_k(w, p, 0);
  if (!p.v_in_k && !p.late_v() && !p.shared) p.v_tile->emit_load_from_dram(w, 0);
  w.line("#pragma unroll 1");
  w.open("for (int n = tile_begin;;)");
  if (p.shared) emit_shared_tile(w, p);
  for (int stage = 0; !p.shared && stage < p.k_stages; ++stage) emit_tile(w, p, stage);
  w.close();
}

}  // namespace kiln::cdna
