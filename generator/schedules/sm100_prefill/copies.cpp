// The copies of sm100_prefill: K and V of the last tile, Q, then K and V of the others.
#include "generator/schedules/common/gather4.hpp"
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

/// Boxes of round `round` of this lane, which are piece lane + 32 * round of every panel of chunk `qk`. `lane`: what a
/// lane adds to the address.
void emit_boxes(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                int qk, int round, const std::string& lane) {
  const int piece = p.operand->eff_page() * p.fa4.swizzle_bytes;
  for (int i = 0; i < pipeline.panels_per_chunk(); ++i) {
    const int panel = qk * pipeline.panels_per_chunk() + i;
    w.line(p.operand->copy(
        fmt::format("smem_{} + {} * {} + {}{}", name, pipeline.ring().stage(), pipeline.slot_bytes(),
                    panel * pipeline.descriptor().tile().panel_bytes() + round * 32 * piece, lane),
        name, pipeline.ring().full(qk), panel * p.fa4.gran, "n", round, kEvictLast));
  }
}

/// A box of all rows of a tile for each panel: one thread issues them.
class Boxes final : public KeyCopies {
 public:
  using KeyCopies::KeyCopies;
  const char* title() const override { return "one thread issues them all"; }
  std::string condition() const override {
    return fmt::format("warp == {} && elect_one()", p_.copies_warp());
  }
  ItemReader reader() const override { return ItemReader::thread; }
  void emit_tile(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const override {
    for (int qk = 0; qk < pipeline.num_qk_stages_effective(); ++qk) {
      pipeline.ring().emit_wait_empty(w, qk);
      w.line("mbarrier_arrive_expect_tx({}, {});", pipeline.ring().full(qk), pipeline.barrier_bytes());
      emit_boxes(w, p_, pipeline, name, qk, 0, "");
    }
    pipeline.ring().emit_step(w);
  }
};

/// Of a pair of blocks: half of K's rows and of V's columns each, for the products that the first issues.
class Halves final : public KeyCopies {
 public:
  using KeyCopies::KeyCopies;
  void set_maps(KernelParam& k, KernelParam&) const override { k.map.dims[1].box = p_.fa4.k_rows_per_cta; }
  const char* title() const override { return "one thread of each block issues its half"; }
  std::string condition() const override {
    return fmt::format("warp == {} && elect_one()", p_.copies_warp());
  }
  ItemReader reader() const override { return ItemReader::thread; }
  void emit_state(Writer& w) const override { w.line("const int rank = (int)cluster_rank();"); }
  void emit_tile(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const override {
    const bool k = *name == 'k';
    for (int qk = 0; qk < pipeline.num_qk_stages_effective(); ++qk) {
      pipeline.ring().emit_wait_empty(w, qk);
      w.line("if (rank == 0) mbarrier_arrive_expect_tx({}, {});", pipeline.ring().full(qk),
             2 * pipeline.barrier_bytes());
      for (int i = 0; i < pipeline.panels_per_chunk(); ++i) {
        const int panel = qk * pipeline.panels_per_chunk() + i, column = panel * p_.fa4.gran;
        w.line(
            "tma_load_pair(smem_{0} + {1} * {2} + {3}, &{0}_map, {4}, {5}, work.kv_head, work.batch, {6});",
            name, pipeline.ring().stage(), pipeline.slot_bytes(),
            panel * pipeline.descriptor().tile().panel_bytes(), pipeline.ring().full(qk),
            k ? fmt::format("{}, n * {} + rank * {}", column, p_.BN, p_.fa4.k_rows_per_cta)
              : fmt::format("rank * {} + {}, n * {}", p_.fa4.v_cols_per_cta, column, p_.BN),
            kEvictLast);
      }
    }
    pipeline.ring().emit_step(w);
  }
};

/// Through a page table: every lane looks up one page of the tile and issues its copies. Lanes that have none do not
/// look at the ring: one that fell behind could miss two of its phases.
class Pages final : public KeyCopies {
 public:
  using KeyCopies::KeyCopies;
  void set_maps(KernelParam& k, KernelParam& v) const override {
    for (KernelParam* param : {&k, &v})
      param->map = p_.operand->map(p_.fa4.gran, p_.fa4.swizzle_bytes,
                                   gather4_l2_promotion(p_.config, parts_.elements->l2_promotion()));
  }
  void add_capacity(std::vector<KernelParam>& params) const override {
    params.push_back({KernelParam::Kind::i32, "key_capacity", {}});
  }
  const char* lengths() const override { return "seqlens_k"; }
  const char* sequence() const override { return "sequence_of_pages"; }
  const char* capacity() const override { return "key_capacity"; }

  const char* title() const override { return "a lane for each page of a tile"; }
  std::string condition() const override { return fmt::format("warp == {}", p_.copies_warp()); }
  ItemReader reader() const override { return ItemReader::warp; }
  void open_one(Writer& w) const override { w.open("if (lane == 0)"); }
  void close_one(Writer& w) const override { w.close(); }
  const char* one() const override { return "if (lane == 0) "; }
  void emit_tile(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const override {
    const auto& operand = *p_.operand;
    w.open("");
    operand.emit_populate(w, "n");
    operand.emit_rows(w, name);
    open_lanes(w, 0);
    for (int qk = 0; qk < pipeline.num_qk_stages_effective(); ++qk) {
      pipeline.ring().emit_wait_empty(w, qk);
      w.line("{}mbarrier_arrive_expect_tx({}, {});", several("if (lane == 0) "), pipeline.ring().full(qk),
             pipeline.barrier_bytes());
      emit_boxes(w, p_, pipeline, name, qk, 0, of_lane());
      for (int round = 1; round < operand.rounds(); ++round) {
        open_lanes(w, round);
        emit_boxes(w, p_, pipeline, name, qk, round, of_lane());
        close_lanes(w, round);
      }
    }
    close_lanes(w, 0);
    pipeline.ring().emit_step(w);
    w.close();
  }

 private:
  void open_lanes(Writer& w, int round) const {
    if (const std::string lanes = p_.operand->issues(round); !lanes.empty()) w.open("if ({})", lanes);
  }
  void close_lanes(Writer& w, int round) const {
    if (!p_.operand->issues(round).empty()) w.close();
  }
  /// Where more than one lane has a page.
  std::string several(const std::string& text) const { return p_.operand->num_pages() > 1 ? text : ""; }
  std::string of_lane() const {
    return several(fmt::format(" + lane * {}", p_.operand->eff_page() * p_.fa4.swizzle_bytes));
  }
};

/// Q of all tiles, in the place that O of the item before has left.
void emit_queries(Writer& w, const Parts& parts) {
  parts.copies->open_one(w);
  w.line("mbarrier_wait(mbar_q_empty, q_phase);");
  for (int tile = 0; tile < parts.plan.tiles(); ++tile) parts.blocks->emit_load_q(w, tile);
  parts.copies->close_one(w);
}

}  // namespace

std::unique_ptr<const KeyCopies> copies_of(const Parts& parts) {
  if (parts.plan.blocks() == 2) return std::make_unique<Halves>(parts);
  if (parts.plan.operand->table()) return std::make_unique<Pages>(parts);
  return std::make_unique<Boxes>(parts);
}

void emit_copies(Writer& w, const Parts& parts, Holes holes) {
  const PrefillPlan& p = parts.plan;
  const KeyCopies& copies = *parts.copies;
  holes.text("condition", copies.condition()).text("title", copies.title()).text("one", copies.one());
  holes.text("whose_q", parts.tiles->whose_q());
  holes.lines("producer_states", lines_of([&](Writer& b) {
                copies.emit_state(b);
                p.k->ring().emit_state(b, true), p.v->ring().emit_state(b, true);
              }));
  holes.lines("items", parts.items->head(copies.reader()));
  holes.lines("load_k", lines_of([&](Writer& b) { copies.emit_tile(b, *p.k, "k"); }));
  holes.lines("load_v", lines_of([&](Writer& b) { copies.emit_tile(b, *p.v, "v"); }));
  holes.lines("load_q", lines_of([&](Writer& b) { emit_queries(b, parts); }));
  holes.lines("finder", parts.items->finder());
  w.raw(section("copies", holes));
}

}  // namespace kiln::sm100::prefill
