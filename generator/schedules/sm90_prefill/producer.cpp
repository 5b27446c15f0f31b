// The producer of sm90_prefill: K(last), Q, then K(n) and V(n+1) in turn, as the consumers need them.
#include "generator/emit/terms.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

/// A box of all rows of a tile for each panel, or for several.
class Boxes : public KeyCopies {
 public:
  using KeyCopies::KeyCopies;
  void emit_tile(Writer& w, const Tensor& of, const std::string& block,
                 const SlotWaits& waits) const override {
    w.comment("{}({}) into the next slot", of.title(), block);
    for (const Landing& to : landings(of)) emit_landing(w, of, to, block, waits);
  }

 protected:
  void emit_landing(Writer& w, const Tensor& of, const Landing& to, const std::string& block,
                    const SlotWaits& waits) const {
    const bool scaled = to.has_scales();
    for (int qk = 0; qk < to.panels / to.chunk_panels; ++qk) {
      waits.emit(w, to.ring, qk);
      if (scaled) parts_.scales->emit_load(w, of, block);
      parts_.issuer->open_one(w);
      w.line("mbarrier_arrive_expect_tx({}, {});", to.ring.full(qk),
             to.chunk_bytes + (scaled ? parts_.scales->tile_bytes(of) : 0));
      for (int i = 0; i < to.chunk_panels; i += to.fold)
        emit_box(w, of, to, block, qk, to.first_panel + qk * to.chunk_panels + i);
      if (scaled) parts_.scales->emit_copy(w, of, block);
      parts_.issuer->close_one(w);
    }
    to.ring.emit_step(w);
  }
  virtual void emit_box(Writer& w, const Tensor& of, const Landing& to, const std::string& block, int qk,
                        int panel) const {
    w.line("tma_load({}, &{}_map, {}, {}, {});", to.at(p_, panel, 0), of.source(p_, panel), to.ring.full(qk),
           parts_.items->coordinates(column(of, to, panel), row(block), "work.k_start", "work.kv_head",
                                     to.fold > 1 ? fmt::format(", {}", panel) : ""),
           kEvictLast);
  }
  int column(const Tensor& of, const Landing& to, int panel) const {
    return to.fold > 1 ? 0 : of.source_panel(p_, panel) * p_.panel_columns();
  }
  std::string row(const std::string& block) const { return factor(block) + fmt::format(" * {}", p_.BN); }
};

/// Each block of a cluster loads its part of a tile for all of them.
class SharedBoxes final : public Boxes {
 public:
  using Boxes::Boxes;

 protected:
  void emit_box(Writer& w, const Tensor& of, const Landing& to, const std::string& block, int qk,
                int panel) const override {
    const int rows = of.pipeline.box_rows();
    w.line("tma_load_multicast({} + rank * {}, &{}_map, {}, {}, {}, {});", to.at(p_, panel, 0),
           rows * p_.span_bytes, of.source(p_, panel), to.ring.full(qk),
           parts_.items->coordinates(column(of, to, panel), fmt::format("{} + rank * {}", row(block), rows),
                                     "work.k_start", "work.kv_head"),
           kEvictLast, (1 << p_.cluster) - 1);
  }
};

/// Through a page table: every lane looks up one page of the tile and issues its copies.
class Pages final : public KeyCopies {
 public:
  using KeyCopies::KeyCopies;
  void set_maps(KernelParam& k, KernelParam& v, int l2_promotion) const override {
    k.map = p_.operand->map(p_.panel_columns(), p_.span_bytes, l2_promotion, p_.k_fold);
    v.map = p_.operand->map(p_.panel_columns(), p_.span_bytes, l2_promotion, p_.v_fold);
  }
  void set_rope_map(KernelParam& k_rope, int l2_promotion) const override {
    k_rope.map = p_.operand->map(p_.panel_columns(), p_.span_bytes, l2_promotion);
  }
  void add_capacity(std::vector<KernelParam>& params) const override {
    params.push_back({KernelParam::Kind::i32, "key_capacity", {}});
  }
  std::vector<std::string> key_axes() const override {
    std::vector<std::string> axes = parts_.items->axes();
    axes.insert(axes.begin(), "_stride_page");
    return axes;
  }
  const char* lengths() const override { return "seqlens_k"; }
  const char* sequence() const override { return "sequence_of_pages"; }
  const char* capacity() const override { return "key_capacity"; }

  void emit_tile(Writer& w, const Tensor& of, const std::string& block,
                 const SlotWaits& waits) const override {
    w.open("");
    w.comment("{}({}) into the next slot", of.title(), block);
    p_.operand->emit_populate(w, factor(block));
    for (const Landing& to : landings(of)) emit_landing(w, of, to, block, waits);
    w.close();
  }

 private:
  void emit_landing(Writer& w, const Tensor& of, const Landing& to, const std::string& block,
                    const SlotWaits& waits) const {
    const auto& operand = *p_.operand;
    const bool scaled = to.has_scales();
    for (int qk = 0; qk < to.panels / to.chunk_panels; ++qk) {
      waits.emit(w, to.ring, qk);
      w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", to.ring.full(qk),
             to.chunk_bytes + (scaled ? parts_.scales->tile_bytes(of) : 0));
      if (scaled) parts_.scales->emit_load(w, of, block);
      for (int round = 0; round < operand.rounds(); ++round) {
        const std::string condition = operand.issues(round);
        if (!condition.empty()) w.open("if ({})", condition);
        for (int i = 0; i < to.chunk_panels; i += to.fold)
          emit_piece(w, of, to, block, qk, to.first_panel + qk * to.chunk_panels + i, round);
        if (scaled) parts_.scales->emit_copy(w, of, block);
        if (!condition.empty()) w.close();
      }
    }
    to.ring.emit_step(w);
  }
  void emit_piece(Writer& w, const Tensor& of, const Landing& to, const std::string& block, int qk, int panel,
                  int round) const {
    const int rows = p_.operand->eff_page();
    std::string dst = to.at(p_, panel, round * 32 * rows * p_.operand->inner(to.fold));
    if (p_.operand->num_pages() > 1)
      dst += fmt::format(" + lane * {}", rows * to.row_bytes * p_.operand->inner(to.fold));
    w.line("tma_load({}, &{}_map, {}, {}, {});", dst, of.source(p_, panel), to.ring.full(qk),
           p_.operand->box_coordinates(of.name, factor(block), round, of.source_panel(p_, panel),
                                       p_.panel_columns(), to.fold),
           kEvictLast);
  }
};

/// Where the tiles of any item fit into the stages, a tile after the first takes the place of one of an item
/// before. Q's rows are empty only when the consumers have read all of that item's K, and of V all but the
/// last tile.
class NoWaits final : public SlotWaits {
 public:
  using SlotWaits::SlotWaits;
  void emit_note(Writer& w) const override {
    w.comment("the stages are free: Q's rows were, and no item has more tiles than stages");
  }
  void emit(Writer&, const StagedPipeline&, int) const override {}
};

void emit_load_q(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  parts.issuer->open_one(w);
  for (int g = 0; g < p.num_math_warpgroups; ++g) {
    w.comment("Q rows of consumer warpgroup {}", g);
    w.line("mbarrier_wait({}, q_phase);", plus("mbar_q_empty", 8 * g));
    w.line("mbarrier_arrive_expect_tx({}, {});", plus("mbar_q_full", 8 * g), p.q_bytes());
    for (int panel = 0; panel < p.padded_depth / p.panel_columns(); ++panel) {
      w.line("tma_load({}, &q_map, {}, {}, {});",
             plus("smem_q", g * p.q_stride() + panel * p.q_tile().panel_bytes()), plus("mbar_q_full", 8 * g),
             parts.items->coordinates(panel * p.panel_columns(), plus("work.m_start", 64 * g), "work.q_start",
                                      "work.head"),
             kEvictFirst);
    }
  }
  parts.issuer->close_one(w);
  w.line("q_phase ^= 1;");
}

}  // namespace

void KeyCopies::use(Prelude& prelude) const {
  if (p_.k_fold > 1 || p_.v_fold > 1) prelude.use("tma_load_5d");
}

void KeyCopies::set_maps(KernelParam& k, KernelParam& v, int l2_promotion) const {
  if (p_.k_fold > 1) k.map = p_.operand->map(p_.panel_columns(), p_.span_bytes, l2_promotion, p_.k_fold);
  if (p_.v_fold > 1) v.map = p_.operand->map(p_.panel_columns(), p_.span_bytes, l2_promotion, p_.v_fold);
}

std::vector<Landing> KeyCopies::landings(const Tensor& of) const {
  std::vector<Landing> out{parts_.tiles->landing(of)};
  if (of.k && p_.rope_apart()) out.push_back(parts_.tiles->rope_landing());
  return out;
}

std::vector<std::string> KeyCopies::key_axes() const {
  return parts_.items->axes();
}

void SlotWaits::emit(Writer& w, const StagedPipeline& ring, int qk) const {
  parts_.issuer->emit_wait_empty(w, ring, qk);
}

std::unique_ptr<const KeyCopies> copies_of(const Parts& parts) {
  if (parts.plan.operand->table()) return std::make_unique<Pages>(parts);
  if (parts.plan.cluster > 1) return std::make_unique<SharedBoxes>(parts);
  return std::make_unique<Boxes>(parts);
}

std::unique_ptr<const SlotWaits> loop_waits_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const int tiles = p.mask->most_tiles(p.BM, p.BN);
  const bool own = p.cluster == 1 && p.separate_o && !p.shared_ring && !p.converts() && !p.operand->table();
  if (own && tiles > 0 && tiles <= p.num_kv_stages) return std::make_unique<NoWaits>(parts);
  return std::make_unique<SlotWaits>(parts);
}

void emit_producer(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const KeyCopies& copies = *parts.copies;
  w.banner("producer: {}", parts.issuer->title());
  parts.registers->emit_lend(w);
  w.open("if ({})", parts.issuer->condition());
  parts.issuer->emit_lane(w);
  parts.tiles->emit_producer_state(w);
  w.line("u32 q_phase = 1;");
  parts.items->emit_open(w, ItemReader::producer);
  w.open("if (work.num_blocks > 0)");
  w.line("int n = work.num_blocks - 1;");
  copies.emit_tile(w, parts.k(), "n", parts.waits);
  emit_load_q(w, parts);
  w.line("#pragma unroll 1");
  parts.loop_waits->emit_note(w);
  w.open("for (--n; n >= {}; --n)", p.first_block());
  parts.tiles->emit_turn(w);
  w.close();
  copies.emit_tile(w, parts.v(), p.first_block(), parts.waits);
  parts.output->emit_empty_producer(w);
  w.close();
  parts.items->emit_close(w, ItemReader::producer);
  parts.items->emit_warp(w);
  parts.tiles->emit_warps(w);
  w.close();
}

}  // namespace kiln::sm90::prefill
