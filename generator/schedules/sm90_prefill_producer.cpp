// The producer of sm90_prefill: K(last), Q, then K(n) and V(n+1) in turn, as the consumers need them.
#include "generator/schedules/sm90_prefill_parts.hpp"

namespace kiln::sm90 {
namespace {

// L2 policies: K and V are read again by the other query tiles of the head, Q is not.
constexpr const char* kEvictLast = "0x14F0000000000000ull";
constexpr const char* kEvictFirst = "0x12F0000000000000ull";

// Coordinates of the box of rows from `row` of a sequence that starts at row `start` of its tensor.
std::string coordinates(const PrefillPlan& p, int column, const std::string& row, const std::string& start,
                        const std::string& head) {
  if (p.ragged) return fmt::format("{}, {} + {}, {}, 0", column, start, row, head);
  return fmt::format("{}, {}, {}, work.batch", column, row, head);
}

void emit_load_q(Writer& w, const PrefillPlan& p) {
  for (int g = 0; g < p.num_math_warpgroups; ++g) {
    w.comment("Q rows of consumer warpgroup {}", g);
    w.line("mbarrier_wait(mbar_q_empty + {}, q_phase);", 8 * g);
    w.line("mbarrier_arrive_expect_tx(mbar_q_full + {}, {});", 8 * g, p.q_bytes());
    for (int panel = 0; panel < p.depth / p.panel_columns(); ++panel) {
      w.line("tma_load(smem_q + {}, &q_map, mbar_q_full + {}, {}, {});",
             g * p.q_stride() + panel * p.q_tile().panel_bytes(), 8 * g,
             coordinates(p, panel * p.panel_columns(), fmt::format("work.m_start + {}", 64 * g),
                         "work.q_start", "work.head"),
             kEvictFirst);
    }
  }
}

void emit_load_kv(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                  const std::string& block, bool known_free) {
  const auto& ring = pipeline.ring();
  w.comment("{}({}) into the next slot", name[0] == 'k' ? "K" : "V", block);
  for (int qk = 0; qk < ring.num_qk_stages(); ++qk) {
    if (!known_free) ring.emit_wait_empty(w, qk);
    w.line("mbarrier_arrive_expect_tx({}, {});", ring.full(qk), pipeline.staged_k_bytes());
    for (int i = 0; i < pipeline.panels_per_chunk(); ++i) {
      const int panel = qk * pipeline.panels_per_chunk() + i;
      std::string dst = fmt::format("smem_{} + {} * {} + {}", name, ring.stage(), pipeline.full_kv_bytes(),
                                    panel * pipeline.tile().panel_bytes());
      std::string row = fmt::format("({}) * {}", block, p.BN);
      if (p.cluster > 1) {
        dst += fmt::format(" + rank * {}", pipeline.box_rows() * p.span_bytes);
        row += fmt::format(" + rank * {}", pipeline.box_rows());
      }
      w.line("{}({}, &{}_map, {}, {}, {}{});", p.cluster > 1 ? "tma_load_multicast" : "tma_load", dst, name,
             ring.full(qk), coordinates(p, panel * p.panel_columns(), row, "work.k_start", "work.kv_head"),
             kEvictLast, p.cluster > 1 ? fmt::format(", {}", (1 << p.cluster) - 1) : "");
    }
  }
  ring.emit_step(w);
}

// The same through a page table: every lane looks up one page of the tile and issues its copies.
void emit_load_pages(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                     const std::string& block, bool known_free) {
  const auto& ring = pipeline.ring();
  const auto& operand = *p.operand;
  const int piece_bytes = operand.eff_page() * p.span_bytes;
  w.open("");
  w.comment("{}({}) into the next slot", name[0] == 'k' ? "K" : "V", block);
  operand.emit_populate(w, "(" + block + ")");
  for (int qk = 0; qk < ring.num_qk_stages(); ++qk) {
    if (!known_free) ring.emit_wait_empty(w, qk);
    w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(qk), pipeline.staged_k_bytes());
    for (int round = 0; round < operand.rounds(); ++round) {
      const std::string condition = operand.issues(round);
      if (!condition.empty()) w.open("if ({})", condition);
      for (int i = 0; i < pipeline.panels_per_chunk(); ++i) {
        const int panel = qk * pipeline.panels_per_chunk() + i;
        std::string dst = fmt::format("smem_{} + {} * {} + {}", name, ring.stage(), pipeline.full_kv_bytes(),
                                      panel * pipeline.tile().panel_bytes() + round * 32 * piece_bytes);
        if (operand.num_pages() > 1) dst += fmt::format(" + lane * {}", piece_bytes);
        w.line("tma_load({}, &{}_map, {}, {}, {}, {});", dst, name, ring.full(qk), panel * p.panel_columns(),
               operand.coordinates("(" + block + ")", round), kEvictLast);
      }
      if (!condition.empty()) w.close();
    }
  }
  ring.emit_step(w);
  w.close();
}

void emit_load_tile(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                    const std::string& block, bool known_free = false) {
  (p.operand->table() ? emit_load_pages : emit_load_kv)(w, p, pipeline, name, block, known_free);
}

// Where the tiles of any item fit into the stages, a tile after the first takes the place of one of an item
// before. Q's rows are empty only when the consumers have read all of that item's K, and of V all but the
// last tile.
bool items_fit(const PrefillPlan& p) {
  const int tiles = p.mask->most_tiles(p.BM, p.BN);
  return p.cluster == 1 && p.separate_o && !p.operand->table() && tiles > 0 && tiles <= p.num_kv_stages;
}

}  // namespace

void emit_producer(Writer& w, const PrefillPlan& p) {
  const bool pages = p.operand->table();
  w.banner("producer: {}", pages ? "a lane for each page of a tile" : "one thread issues every copy");
  if (p.moves_registers()) w.line("SETMAXNREG_DEC({});", p.producer_registers);
  w.open("if ({})", pages ? "threadIdx.x < 32" : "threadIdx.x / 32 == 0 && elect_one()");
  if (pages) w.line("const int lane = threadIdx.x;");
  p.k->ring().emit_state(w, true);
  p.v->ring().emit_state(w, true);
  if (p.dynamic) p.work->emit_state(w, true);
  w.line("u32 q_phase = 1;");
  w.open("for (int tile = {}; tile < num_tiles;)", p.first_tile());
  w.line("const Work work = {};", decode_call(p));
  w.open("if (work.num_blocks > 0)");
  w.line("int n = work.num_blocks - 1;");
  emit_load_tile(w, p, *p.k, "k", "n");
  if (pages) w.open("if (lane == 0)");
  emit_load_q(w, p);
  if (pages) w.close();
  w.line("q_phase ^= 1;");
  w.line("#pragma unroll 1");
  if (items_fit(p)) w.comment("the stages are free: Q's rows were, and no item has more tiles than stages");
  w.open("for (--n; n >= {}; --n)", p.first_block());
  emit_load_tile(w, p, *p.k, "k", "n", items_fit(p));
  emit_load_tile(w, p, *p.v, "v", "n + 1", items_fit(p));
  w.close();
  emit_load_tile(w, p, *p.v, "v", p.first_block());
  if (p.hands_over_empty()) {
    w.reopen("else if (work.num_blocks == 0)");
    w.comment("no keys: Q's rows are handed over empty, for O");
    if (pages) w.open("if (lane == 0)");
    for (int g = 0; g < p.num_math_warpgroups; ++g) {
      w.line("mbarrier_wait(mbar_q_empty + {}, q_phase);", 8 * g);
      w.line("mbarrier_arrive(mbar_q_full + {});", 8 * g);
    }
    if (pages) w.close();
    w.line("q_phase ^= 1;");
  }
  w.close();
  if (p.dynamic) {
    w.comment("Next work item; the last fetch of the launch leaves the counter as it was found.");
    if (pages) {
      w.line("int fetched = lane == 0 ? atomicAdd(tile_counter, 1) : 0;");
      w.line("fetched = __shfl_sync(0xffffffffu, fetched, 0);");
      w.line("if (lane == 0 && fetched == num_tiles - 1) atomicExch(tile_counter, 0);");
    } else {
      w.line("const int fetched = atomicAdd(tile_counter, 1);");
      w.line("if (fetched == num_tiles - 1) atomicExch(tile_counter, 0);");
    }
    w.line("tile = fetched + gridDim.x;");
    if (!p.work_slots_free()) p.work->emit_wait_empty(w, 0);
    if (pages) w.open("if (lane == 0)");
    w.line("work_slots[{}] = tile;", p.work->stage());
    w.line("mbarrier_arrive({});", p.work->full(0));
    if (pages) w.close();
    p.work->emit_step(w);
  } else {
    w.line("tile += {};", p.tile_step());
  }
  w.close();
  w.close();
}

}  // namespace kiln::sm90
