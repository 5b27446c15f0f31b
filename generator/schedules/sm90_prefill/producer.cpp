// The producer of sm90_prefill: K(last), Q, then K(n) and V(n+1) in turn, as the consumers need them.
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90 {
namespace {

// L2 policies: K and V are read again by the other query tiles of the head, Q is not.
constexpr const char* kEvictLast = "0x14F0000000000000ull";
constexpr const char* kEvictFirst = "0x12F0000000000000ull";

// Coordinates of the box of rows from `row` of a sequence that starts at row `start` of its tensor; `panel` of
// the box's panels, where it has several, follows the row.
std::string coordinates(const PrefillPlan& p, int column, const std::string& row, const std::string& start,
                        const std::string& head, const std::string& panel = "") {
  if (p.ragged) return fmt::format("{}, {} + {}{}, {}, 0", column, start, row, panel, head);
  return fmt::format("{}, {}{}, {}, work.batch", column, row, panel, head);
}

void emit_load_q(Writer& w, const PrefillPlan& p) {
  for (int g = 0; g < p.num_math_warpgroups; ++g) {
    w.comment("Q rows of consumer warpgroup {}", g);
    w.line("mbarrier_wait(mbar_q_empty + {}, q_phase);", 8 * g);
    w.line("mbarrier_arrive_expect_tx(mbar_q_full + {}, {});", 8 * g, p.q_bytes());
    for (int panel = 0; panel < p.padded_depth / p.panel_columns(); ++panel) {
      w.line("tma_load(smem_q + {}, &q_map, mbar_q_full + {}, {}, {});",
             g * p.q_stride() + panel * p.q_tile().panel_bytes(), 8 * g,
             coordinates(p, panel * p.panel_columns(), fmt::format("work.m_start + {}", 64 * g),
                         "work.q_start", "work.head"),
             kEvictFirst);
    }
  }
}

// Where tiles of K or V are copied to: their own ring, or the one that the converters read.
struct Landing {
  const StagedPipeline& ring;
  std::string base;                       // of the slots
  int slot_bytes, row_bytes;              // of the ring; of a row of a panel
  int panels, chunk_panels, chunk_bytes;  // of a tile; of what one barrier waits for
  int fold = 1;                           // panels of one copy

  int panel_bytes(const PrefillPlan& p) const { return p.BN * row_bytes; }
  std::string at(const PrefillPlan& p, int panel, int row) const {
    return fmt::format("{} + {} * {} + {}", base, ring.stage(), slot_bytes,
                       panel * panel_bytes(p) + row * row_bytes);
  }
};

Landing landing_of(const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name) {
  if (p.fp8 && name[0] == 'v') {
    const int panels = p.padded_ov / p.panel_columns();
    return {*p.raw, "smem_raw", p.raw_slot_bytes(), p.span_bytes,
            panels, panels,     p.raw_slot_bytes(), p.v_fold};
  }
  if (p.raw_rows) {
    const int columns = name[0] == 'k' ? p.depth : p.ov_depth;
    return {*p.raw, "smem_raw", p.raw_slot_bytes(), p.raw_pitch(columns), 1, 1, p.BN * columns};
  }
  if (p.narrow)
    return {*p.raw,
            "smem_raw",
            p.raw_slot_bytes(),
            p.raw_span(),
            pipeline.num_panels(),
            pipeline.num_panels(),
            pipeline.full_kv_bytes() / 2};
  return {pipeline.ring(),           fmt::format("smem_{}", name),
          pipeline.slot_bytes(),     p.span_bytes,
          pipeline.num_panels(),     pipeline.panels_per_chunk(),
          pipeline.staged_k_bytes(), name[0] == 'k' ? p.k_fold : p.v_fold};
}

void emit_wait_free(Writer& w, const PrefillPlan& p, const StagedPipeline& ring, int qk) {
  if (p.warp_produces()) return ring.emit_wait_empty_by_warp(w, qk);
  ring.emit_wait_empty(w, qk);
}

// Scales of the tile's keys, copied by every lane into the slot of the raw ring.
void emit_load_scales(Writer& w, const PrefillPlan& p, const char* name, const std::string& block) {
  if (!p.scales_by_token() || p.scale_tiles() || (p.fp8 && name[0] == 'v')) return;
  const bool by_head = scales_by_head(p.config.operand->quantization);
  if (p.fp8) {
    const auto& ring = p.k->ring();
    const int v = p.smem_scales + p.num_kv_stages * p.scale_bytes();
    p.operand->emit_load_scales(w, "(" + block + ")", {"k", 1, p.smem_scales, ring.stage(), by_head});
    p.operand->emit_load_scales(w, "(" + block + ")", {"v", 1, v, ring.stage(), by_head});
    w.line("copy_async_arrive({});", ring.full(0));
    return;
  }
  const int groups = PrefillPlan::groups_of(p.config, name[0] == 'k' ? p.depth : p.ov_depth);
  p.operand->emit_load_scales(
      w, "(" + block + ")",
      {name, groups, p.smem_raw_scales, p.raw->stage(), by_head, p.raw_scale_bytes(), true});
  w.line("copy_async_arrive({});", p.raw->full(0));
}

// Bytes of them that come as tiles beside those of a tile of K or V.
int scale_tile_bytes(const PrefillPlan& p, const char* name) {
  if (!p.scale_tiles()) return 0;
  return !p.fp8 ? p.scale_bytes() : name[0] == 'k' ? 2 * p.scale_bytes() : 0;
}

// This lane's piece of them.
void emit_copy_scales(Writer& w, const PrefillPlan& p, const char* name, const std::string& block) {
  if (scale_tile_bytes(p, name) == 0) return;
  const auto copy = [&](const char* of, const std::string& base, const StagedPipeline& ring) {
    const std::string at = fmt::format("{} + {} * {}", base, ring.stage(), p.scale_bytes());
    p.operand->emit_copy_scales(w, "(" + block + ")", {of, at, ring.full(0), kEvictLast});
  };
  if (p.narrow) return copy(name, "smem_raw_scales", *p.raw);
  copy("k", "smem_k_scales", p.k->ring());
  copy("v", "smem_v_scales", p.k->ring());
}

void emit_load_kv(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                  const std::string& block, bool known_free) {
  const Landing to = landing_of(p, pipeline, name);
  w.comment("{}({}) into the next slot", name[0] == 'k' ? "K" : "V", block);
  for (int qk = 0; qk < to.panels / to.chunk_panels; ++qk) {
    if (!known_free) emit_wait_free(w, p, to.ring, qk);
    emit_load_scales(w, p, name, block);
    if (p.warp_produces()) w.open("if (lane == 0)");
    w.line("mbarrier_arrive_expect_tx({}, {});", to.ring.full(qk),
           to.chunk_bytes + scale_tile_bytes(p, name));
    for (int i = 0; i < to.chunk_panels; i += to.fold) {
      const int panel = qk * to.chunk_panels + i;
      std::string dst = to.at(p, panel, 0);
      std::string row = fmt::format("({}) * {}", block, p.BN);
      if (p.cluster > 1) {
        dst += fmt::format(" + rank * {}", pipeline.box_rows() * p.span_bytes);
        row += fmt::format(" + rank * {}", pipeline.box_rows());
      }
      w.line("{}({}, &{}_map, {}, {}, {}{});", p.cluster > 1 ? "tma_load_multicast" : "tma_load", dst, name,
             to.ring.full(qk),
             coordinates(p, to.fold > 1 ? 0 : panel * p.panel_columns(), row, "work.k_start", "work.kv_head",
                         to.fold > 1 ? fmt::format(", {}", panel) : ""),
             kEvictLast, p.cluster > 1 ? fmt::format(", {}", (1 << p.cluster) - 1) : "");
    }
    emit_copy_scales(w, p, name, block);
    if (p.warp_produces()) w.close();
  }
  to.ring.emit_step(w);
}

// The same through a page table: every lane looks up one page of the tile and issues its copies.
void emit_load_pages(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                     const std::string& block, bool known_free) {
  const Landing to = landing_of(p, pipeline, name);
  const auto& operand = *p.operand;
  const int piece_bytes = operand.eff_page() * to.row_bytes;
  w.open("");
  w.comment("{}({}) into the next slot", name[0] == 'k' ? "K" : "V", block);
  operand.emit_populate(w, "(" + block + ")");
  for (int qk = 0; qk < to.panels / to.chunk_panels; ++qk) {
    if (!known_free) emit_wait_free(w, p, to.ring, qk);
    w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", to.ring.full(qk),
           to.chunk_bytes + scale_tile_bytes(p, name));
    emit_load_scales(w, p, name, block);
    for (int round = 0; round < operand.rounds(); ++round) {
      const std::string condition = operand.issues(round);
      if (!condition.empty()) w.open("if ({})", condition);
      for (int i = 0; i < to.chunk_panels; i += to.fold) {
        const int panel = qk * to.chunk_panels + i;
        std::string dst = to.at(p, panel, round * 32 * operand.eff_page());
        if (operand.num_pages() > 1) dst += fmt::format(" + lane * {}", piece_bytes);
        w.line("tma_load({}, &{}_map, {}, {}, {});", dst, name, to.ring.full(qk),
               operand.box_coordinates("(" + block + ")", round, panel, p.panel_columns(), to.fold),
               kEvictLast);
      }
      emit_copy_scales(w, p, name, block);
      if (!condition.empty()) w.close();
    }
  }
  to.ring.emit_step(w);
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
  return p.cluster == 1 && p.separate_o && !p.shared_ring && !p.converts() && !p.operand->table() &&
         tiles > 0 && tiles <= p.num_kv_stages;
}

}  // namespace

void emit_producer(Writer& w, const PrefillPlan& p) {
  const bool warp = p.warp_produces();
  w.banner("producer: {}", p.operand->table() ? "a lane for each page of a tile"
                           : warp ? "one thread issues every copy of a tile, a lane each that of a scale"
                                  : "one thread issues every copy");
  if (p.moves_registers()) w.line("SETMAXNREG_DEC({});", p.producer_registers);
  w.open("if ({})", warp ? "threadIdx.x < 32" : "threadIdx.x / 32 == 0 && elect_one()");
  if (warp) w.line("const int lane = threadIdx.x;");
  if (p.converts()) p.raw->emit_state(w, true);
  if (!p.narrow) p.k->ring().emit_state(w, true);
  if (!p.converts()) p.v->ring().emit_state(w, true);
  w.line("u32 q_phase = 1;");
  emit_open_items(w, p, ItemReader::producer);
  w.open("if (work.num_blocks > 0)");
  w.line("int n = work.num_blocks - 1;");
  emit_load_tile(w, p, *p.k, "k", "n");
  if (warp) w.open("if (lane == 0)");
  emit_load_q(w, p);
  if (warp) w.close();
  w.line("q_phase ^= 1;");
  w.line("#pragma unroll 1");
  if (items_fit(p)) w.comment("the stages are free: Q's rows were, and no item has more tiles than stages");
  w.open("for (--n; n >= {}; --n)", p.first_block());
  // V of FP8 is on its way for longer.
  if (p.fp8) emit_load_tile(w, p, *p.v, "v", "n + 1");
  emit_load_tile(w, p, *p.k, "k", "n", items_fit(p));
  if (!p.fp8) emit_load_tile(w, p, *p.v, "v", "n + 1", items_fit(p));
  w.close();
  emit_load_tile(w, p, *p.v, "v", p.first_block());
  if (p.hands_over_empty()) {
    w.reopen("else if (work.num_blocks == 0)");
    w.comment("no keys: Q's rows are handed over empty, for O");
    if (warp) w.open("if (lane == 0)");
    for (int g = 0; g < p.num_math_warpgroups; ++g) {
      w.line("mbarrier_wait(mbar_q_empty + {}, q_phase);", 8 * g);
      w.line("mbarrier_arrive(mbar_q_full + {});", 8 * g);
    }
    if (warp) w.close();
    w.line("q_phase ^= 1;");
  }
  w.close();
  emit_close_items(w, p, ItemReader::producer);
  if (p.own_item_warp()) {
    w.reopen("else if (threadIdx.x / 32 == 1)");
    emit_item_warp(w, p);
  }
  if (p.converts()) {
    w.reopen("else if (threadIdx.x >= 32)");
    p.fp8 ? emit_transposer(w, p) : emit_converter(w, p);
  }
  w.close();
}

}  // namespace kiln::sm90
