// The main loops of cdna_prefill with `dma` reg_staged: what is on its way waits in
// registers, which the compiler waits for, and is written to LDS where the direct loops wait for copies. The
// next rows are asked for right after that, so a stage is only taken while it is read: with one stage of K
// and of V each, a barrier before and one after the softmax keep readers and writers apart; with two of each
// one barrier a tile does.
#include "generator/schedules/cdna_prefill/parts.hpp"

namespace kiln::cdna {
namespace {

/// Stages of K and, where there is a tensor of rotary columns, of that.
std::vector<std::pair<const KVBuffer*, int>> k_stores(const PrefillPlan& p, int stage) {
  std::vector<std::pair<const KVBuffer*, int>> out{{&*p.k, stage}};
  if (p.k_rope) out.emplace_back(&*p.k_rope, stage);
  return out;
}

/// What was loaded for `buffers` becomes their stages.
void emit_stores(Writer& w, const PrefillPlan& p,
                 const std::vector<std::pair<const KVBuffer*, int>>& buffers) {
  if (!p.counted) w.line("WAIT_LOADS(0);");
  for (const auto& [buffer, stage] : buffers) buffer->emit_store(w, stage);
  w.line("SYNC();");
}

void emit_tile(Writer& w, const PrefillPlan& p, int stage) {
  const int k_stage = p.k_stages == 2 ? stage : 0, v_stage = p.v_stages == 2 ? stage : 0;
  w.banner("KV tile n in stage {}", stage);
  if (p.v_stages == 2) {
    w.comment("every wave has finished tile n - 2, whose stages these were");
    auto stores = k_stores(p, k_stage);
    stores.emplace_back(&*p.v, v_stage);
    emit_stores(w, p, stores);
    emit_key_scales(w, p);
  } else {
    w.comment("every wave has finished the K tile that lay here; after the barrier also tile n - 1");
    emit_stores(w, p, k_stores(p, k_stage));
    emit_key_scales(w, p);
    p.v->emit_load_from_dram(w, 0);
  }
  w.open("if (n + 1 < num_tiles)");
  emit_load_k(w, p, 0);
  if (p.v_stages == 2) p.v->emit_load_from_dram(w, 0);
  w.close();
  open_if_visible(w, *p.mask, p.BN);
  emit_qk(w, p, k_stage);
  emit_softmax(w, p);
  w.close();
  if (p.v_stages == 1) emit_stores(w, p, {{&*p.v, 0}});
  open_if_visible(w, *p.mask, p.BN);
  emit_pv(w, p, v_stage * p.v->stage_bytes());
  w.close();
  w.line("if (++n == num_tiles) break;");
}

// K(n) serves both products.
void emit_tile_v_in_k(Writer& w, const PrefillPlan& p, int stage) {
  w.banner("KV tile n in stage {}", stage);
  emit_stores(w, p, k_stores(p, stage));
  emit_key_scales(w, p);
  w.open("if (n + 1 < num_tiles)");
  emit_load_k(w, p, 0);
  w.close();
  open_if_visible(w, *p.mask, p.BN);
  emit_qk(w, p, stage);
  emit_softmax(w, p);
  emit_pv(w, p, stage * p.k->stage_bytes());
  w.close();
  w.line("if (++n == num_tiles) break;");
  if (p.k_stages == 1) w.line("SYNC();  // every wave has finished K(n - 1)");
}

/// Blocks through a ring of two stages: one is read while the next block is on its way.
void emit_blocks(Writer& w, const PrefillPlan& p, int tile) {
  const int blocks = p.tile_blocks(), k_blocks = p.k->blocks();
  for (int i = 0; i < blocks; ++i) {
    const int stage = (tile * blocks + i) % 2;
    w.banner("block {} of tile n, in stage {}", i, stage);
    emit_stores(w, p, {{i < k_blocks ? &*p.k : &*p.v, stage}});
    if (i == 0) emit_key_scales(w, p);
    if (i + 1 < blocks) {
      emit_block_load(w, p, i + 1, 0);
    } else {
      w.open("if (n + 1 < num_tiles)");
      emit_block_load(w, p, 0, 0);
      w.close();
    }
    emit_block(w, p, i, stage);
  }
  w.line("if (++n == num_tiles) break;");
}

}  // namespace

void emit_staged_loop(Writer& w, const PrefillPlan& p) {
  for (int i = 0; i < p.loop_tiles(); ++i) {
    if (p.loop == PrefillLoop::blocks) {
      emit_blocks(w, p, i);
    } else {
      p.loop == PrefillLoop::v_in_k ? emit_tile_v_in_k(w, p, i) : emit_tile(w, p, i);
    }
  }
}

}  // namespace kiln::cdna
