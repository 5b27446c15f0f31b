// Softmax of sm100_prefill: a row of a tile of queries a thread. Section `softmax` of
// templates/sm100_prefill.cuh.
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

/// S as it is; softmax looks for the largest score.
class LoadedScores final : public ScoreRows {
 public:
  using ScoreRows::ScoreRows;
  void use(Prelude& prelude) const override { p_.scores_access().add_load(prelude); }
  std::string load() const override { return p_.scores_access().load(); }
  void emit_max(Writer& w) const override { p_.softmax().emit_max(w); }
};

/// The largest score comes with S.
class ReducedScores final : public ScoreRows {
 public:
  using ScoreRows::ScoreRows;
  void use(Prelude& prelude) const override { p_.scores_access().add_load_max(prelude); }
  std::string load() const override { return "float tile_max = " + p_.scores_access().load_max(); }
  void emit_max_again(Writer& w) const override { p_.softmax().emit_max(w, "tile_max"); }
};

class TwoPieces final : public Pieces {
 public:
  using Pieces::Pieces;
  void emit_init(Writer& w) const override { w.line("mbarrier_init(mbar_p_rest + i, {});", 4 * p_.blocks()); }
  void emit_address(Writer& w) const override {
    w.line("const u32 p_rest = mbar_p_rest + 8 * {};", parts_.tiles->barrier());
  }
  void emit_rest(Writer& w) const override {
    p_.softmax().emit_exp(w, p_.first_keys(), p_.BN);
    w.line("tmem_wait_store();");
    w.line("tcgen05_fence_before();");
    w.line("if (lane == 0) {};", parts_.blocks->arrive("p_rest"));
  }
  void emit_rest_products(Writer& w) const override {
    w.line("mbarrier_wait(p_rest, phase);");
    w.line("tcgen05_fence_after();");
    emit_pv(w, p_, p_.first_keys(), p_.BN);
  }
};

class SumEnd final : public RowEnd {
 public:
  using RowEnd::RowEnd;
  Lines inverse() const override {
    Writer w;
    w.line("const float inv_sum = row_sum == 0.0f ? 0.0f : rcp_approx(row_sum){};",
           parts_.scales->value_scale());
    return w.take();
  }
  std::string natural_max() const override {
    return "row_max * " + p_.natural_scale() + parts_.elements->top();
  }
};

/// The sink is one more logit of the denominator.
class SinkEnd final : public RowEnd {
 public:
  using RowEnd::RowEnd;
  Lines inverse() const override {
    Holes holes;
    holes.text("value_scale", parts_.scales->value_scale());
    holes.text("own_max",
               fmt::format("row_max * ({} * 0.693147181f)", p_.scale_log2()) + parts_.elements->top());
    return section("sink_inverse", holes);
  }
  std::string natural_max() const override { return "top"; }
};

/// Tiles that every row of a warp sees whole: keys [clean_begin, clean_end).
void emit_clean_range(Writer& w, const PrefillPlan& p) {
  if (!p.mask->bounded_above()) return;
  w.comment("keys that all rows of this warp see");
  if (p.mask->by_place())
    w.line("const int position = work.m_start + 32 * warp + work.seqlen_k - work.seqlen_q;");
  w.line("const int clean_end = {};", p.mask->end_key("position", "work.seqlen_k", "work.batch"));
  if (p.mask->bounded_below())
    w.line("const int clean_begin = {};", p.mask->first_key("position + 31", "work.batch"));
}

/// An item: its thread's row, and what masks, modifiers and scales want of it.
void emit_item(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (p.names_rows())
    w.line("const int row = work.m_start + threadIdx.x;  // of the sequence; may be past its end");
  p.mask->emit_rows(w, p.score_context());
  p.modifier->emit_rows(w, p.score_context());
  parts.scales->emit_head(w);
  emit_clean_range(w, p);
}

/// S becomes what the maximum is taken of: scaled, modified, and -inf where the row does not see the key.
void emit_scores(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const ScoreContext context = p.score_context();
  parts.scales->emit_tile(w);
  p.modifier->emit_apply(w, context, fmt::format("n * {}", p.BN));
  p.mask->emit_apply_where_cut(w, context, p.BN, [&](Writer& b) { parts.scores->emit_max_again(b); });
  parts.scores->emit_max(w);
}

Lines lse_lines(const Parts& parts) {
  if (!parts.plan.results.lse()) return {};
  Holes holes;
  holes.text("lse_row", parts.items->lse_row()).text("natural_max", parts.row_end->natural_max());
  return section("lse", holes);
}

}  // namespace

std::unique_ptr<const ScoreRows> scores_of(const Parts& parts) {
  if (parts.plan.max_by_load()) return std::make_unique<ReducedScores>(parts);
  return std::make_unique<LoadedScores>(parts);
}

std::unique_ptr<const Pieces> pieces_of(const Parts& parts) {
  if (parts.plan.fa4.num_pv_stages > 1) return std::make_unique<TwoPieces>(parts);
  return std::make_unique<Pieces>(parts);
}

std::unique_ptr<const RowEnd> row_end_of(const Parts& parts) {
  if (parts.plan.results.sink()) return std::make_unique<SinkEnd>(parts);
  return std::make_unique<SumEnd>(parts);
}

void emit_softmax(Writer& w, const Parts& parts, Holes holes) {
  const PrefillPlan& p = parts.plan;
  const RowSoftmax softmax = p.softmax();
  holes.number("threshold", softmax.threshold()).text("scale_log2", p.scale_log2());
  holes.lines("items", parts.items->head(ItemReader::warp));
  holes.lines("rest_address", lines_of([&](Writer& b) { parts.pieces->emit_address(b); }));
  holes.lines("addresses", parts.tiles->addresses(holes));
  holes.text("place_of_s", parts.tiles->place_of_s(holes)).text("step", parts.tiles->step());
  holes.lines("item", lines_of([&](Writer& b) { emit_item(b, parts); }));
  holes.text("load_scores", parts.scores->load());
  holes.lines("scores", lines_of([&](Writer& b) { emit_scores(b, parts); }));
  holes.lines("subtract", lines_of([&](Writer& b) { softmax.emit_subtract(b); }));
  holes.lines("shift", lines_of([&](Writer& b) { parts.elements->emit_shift(b); }));
  holes.lines("first_p", lines_of([&](Writer& b) { softmax.emit_exp(b, 0, p.first_keys()); }));
  holes.lines("rest_p", lines_of([&](Writer& b) { parts.pieces->emit_rest(b); }));
  holes.lines("inverse", parts.row_end->inverse());
  holes.text("arrive_p", parts.blocks->arrive("p_full"));
  holes.lines("lse", lse_lines(parts));
  w.raw(section("softmax", holes));
}

}  // namespace kiln::sm100::prefill
