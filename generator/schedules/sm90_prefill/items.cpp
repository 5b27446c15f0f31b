// Who finds the work items of sm90_prefill, and how they reach the warps that work on them.
//
//   rows of one length, full attention   every warp counts: item = blockIdx.x, + gridDim.x, ...
//   rows of one length, bounded masks    the producer takes numbers from a counter, longest items first
//   ragged batches                       a warp finds the item of a number (templates/ragged_items.cuh) and
//                                        writes its place and its sequence's rows to shared memory
//
// The item after this one is looked for as soon as every warp has read this one: finding it takes some
// microseconds, which the tiles of this one hide.
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90 {
namespace {

// The item at hand; the one after it is written beside it, so this one can be read until its end.
void emit_read(Writer& w) {
  w.line("const int4* const item = work_items + 2 * work_phase;");
  w.line("const int4 place = item[0], rows = item[1];");
}

// The loop that finds the items: of a warp that does nothing else, or of the producer, whose registers are
// short and which keeps in memory where it is.
void emit_items(Writer& w, const PrefillPlan& p) {
  const bool kept = !p.own_item_warp();
  w.line("const RaggedBatch lengths{{cu_seqlens_q, {}, batch, {}}};",
         p.operand->table() ? "seqlens_k" : "cu_seqlens_k", p.operand->table() ? "key_capacity" : "0");
  if (kept) w.line("RaggedItems& kept = ((RaggedItems*)(smem_bytes + {}))[lane];", p.smem_items);
  w.line("{} = first_items(lengths, lane, heads_q, {}, {});", kept ? "kept" : "RaggedItems items", p.BM,
         p.BN);
  w.open("for (int number = blockIdx.x;;)");
  if (kept) w.open(""), w.line("RaggedItems items = kept;");
  w.line(
      "write_item(work_items + 2 * work_phase, items, lengths, number, lane, heads_q, heads_kv, {}, {}, {});",
      p.BM, p.BN, p.section_tiles());
  if (kept) w.line("kept = items;"), w.close();
}

// The slot has been read by all: the next number.
void emit_next_number(Writer& w, const PrefillPlan& p) {
  const char* total = p.own_item_warp() ? "items.total" : "kept.total";
  p.work->emit_wait_empty(w, 0);
  p.work->emit_step(w);
  w.comment("Next work item; the last fetch of the launch leaves the counter as it was found.");
  w.line("int fetched = lane == 0 ? atomicAdd(tile_counter, 1) : 0;");
  w.line("fetched = __shfl_sync(0xffffffffu, fetched, 0);");
  w.line("if (lane == 0 && fetched == {} - 1) atomicExch(tile_counter, 0);", total);
  w.line("number = fetched + gridDim.x;");
}

// The producer's next number, of a counter over items of rows of one length.
void emit_fetch(Writer& w, const PrefillPlan& p) {
  const bool warp = p.warp_produces();
  w.comment("Next work item; the last fetch of the launch leaves the counter as it was found.");
  if (warp) {
    w.line("int fetched = lane == 0 ? atomicAdd(tile_counter, 1) : 0;");
    w.line("fetched = __shfl_sync(0xffffffffu, fetched, 0);");
    w.line("if (lane == 0 && fetched == num_tiles - 1) atomicExch(tile_counter, 0);");
  } else {
    w.line("const int fetched = atomicAdd(tile_counter, 1);");
    w.line("if (fetched == num_tiles - 1) atomicExch(tile_counter, 0);");
  }
  w.line("tile = fetched + gridDim.x;");
  if (!p.work_slots_free() && warp) p.work->emit_wait_empty_by_warp(w, 0);
  if (!p.work_slots_free() && !warp) p.work->emit_wait_empty(w, 0);
  if (warp) w.open("if (lane == 0)");
  w.line("work_slots[{}] = tile;", p.work->stage());
  w.line("mbarrier_arrive({});", p.work->full(0));
  if (warp) w.close();
  p.work->emit_step(w);
}

}  // namespace

void emit_open_items(Writer& w, const PrefillPlan& p, ItemReader reader) {
  const bool finds = reader == ItemReader::producer && (!p.ragged || !p.own_item_warp());
  if (p.dynamic) p.work->emit_state(w, finds && !p.ragged);
  if (!p.ragged) {
    w.open("for (int tile = {}; tile < num_tiles;)", p.first_tile());
  } else if (finds) {
    emit_items(w, p);
    emit_read(w);
    w.line("__syncwarp();  // every lane has read the item, and will not when the next one is written");
    w.line("if (lane == 0) mbarrier_arrive({});", p.work->full(0));
    w.line("if (place.x < 0) break;");
  } else {
    const bool warp = reader != ItemReader::producer || p.warp_produces();
    w.open("for (;;)");
    p.work->emit_wait_full(w, 0);
    emit_read(w);
    p.work->emit_step(w);
    if (warp) w.line("__syncwarp();");
    w.line("{}mbarrier_arrive({});", warp ? "if (lane == 0) " : "", p.work->empty(0));
    if (warp) {
      w.comment("of a value that shared memory gave, the compiler does not know that it is the warp's");
      w.line("if (__shfl_sync(0xffffffffu, place.x, 0) < 0) break;");
    } else {
      w.line("if (place.x < 0) break;");
    }
  }
  w.line("const Work work = {};", p.work_items().decode_call());
}

void emit_close_items(Writer& w, const PrefillPlan& p, ItemReader reader) {
  if (!p.dynamic) {
    w.line("tile += {};", p.tile_step());
  } else if (reader == ItemReader::producer) {
    if (!p.ragged) {
      emit_fetch(w, p);
    } else if (!p.own_item_warp()) {
      emit_next_number(w, p);
    }
  } else if (!p.ragged) {
    w.comment("next work item");
    p.work->emit_wait_full(w, 0);
    w.line("tile = work_slots[{}];", p.work->stage());
    if (reader != ItemReader::consumer || !p.q_frees_work_slots()) {
      w.line("__syncwarp();");
      w.line("if (lane == 0) mbarrier_arrive({});", p.work->empty(0));
    }
    p.work->emit_step(w);
  }
  w.close();
}

void emit_item_warp(Writer& w, const PrefillPlan& p) {
  w.banner("work items: one warp finds them for the block");
  w.line("const int lane = threadIdx.x % 32;");
  p.work->emit_state(w, false);
  emit_items(w, p);
  w.line("if (lane == 0) mbarrier_arrive({});", p.work->full(0));
  w.line("if (number >= items.total) break;");
  emit_next_number(w, p);
  w.close();
}

}  // namespace kiln::sm90
