// The tiles of queries of an sm100_prefill block: two that share K and V, or one, whose S has two places that tiles of
// keys take in turns. Sections of templates/sm100_prefill_tiles.cuh.
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

Lines tile_section(const char* name, const Holes& holes) {
  return fill_section("sm100_prefill_tiles.cuh", name, holes);
}

/// Products with P, as both forms name what they need.
void add_values(Holes& holes, const PrefillPlan& p) {
  holes.lines("wait_v", lines_of([&](Writer& b) { p.v->emit_wait(b, 0); }));
  holes.lines("release_v", lines_of([&](Writer& b) { p.v->emit_release(b, 0); }));
  holes.text("v_desc", p.v->get());
}

class TwoTiles final : public QueryTiles {
 public:
  using QueryTiles::QueryTiles;
  std::string title() const override { return "two tiles of 128 query rows"; }
  std::string columns() const override {
    return fmt::format("S0 P0 0, S1 P1 {}, O0 {}, O1 {}", p_.fa4.tmem_s1, p_.fa4.tmem_o0, p_.fa4.tmem_o1);
  }
  const char* whose_q() const override { return "Q of both tiles"; }
  const char* whose_o() const override { return "O of both tiles"; }
  const char* barrier() const override { return "tile"; }
  std::string o_of_tile() const override {
    return fmt::format("(tile == 0 ? {} : {})", p_.fa4.tmem_o0, p_.fa4.tmem_o1);
  }
  Lines barriers(const Holes& holes) const override { return tile_section("two_barriers", holes); }
  Lines init(const Holes& holes) const override { return tile_section("two_init", holes); }
  Lines addresses(const Holes& holes) const override { return tile_section("two_addresses", holes); }
  const char* step() const override { return "s_phase ^= 1;"; }
  Lines follow(const Holes& holes) const override { return tile_section("two_follow", holes); }
  void emit_repair(Writer& w, const HiddenValues::Place& place, const char* before) const override {
    w.line("#pragma unroll 1");
    w.open("for (int tile = 0; same(again) && tile < 2; ++tile)");
    p_.hidden.emit_repair(w, place, "again", before);
    w.close();
  }
  Lines products(Holes holes) const override {
    holes.lines("scores_0", lines_of([&](Writer& b) { emit_first_scores(b); }));
    holes.lines("scores_1", lines_of([&](Writer& b) { emit_second_scores(b); }));
    add_values(holes, p_);
    return tile_section("two_products", holes);
  }
  int issues() const override { return 4; }

 private:
  /// S of the first tile of queries, chunk by chunk as K comes.
  void emit_first_scores(Writer& w) const {
    for (int qk = 0; qk < p_.fa4.num_qk_stages; ++qk) {
      p_.k->emit_wait(w, qk);
      w.line("{}(tmem + 0, q_desc + 0, {});", issue_name(qk), p_.k->get());
    }
  }
  /// S of the second, which releases K.
  void emit_second_scores(Writer& w) const {
    const int last = p_.fa4.num_qk_stages - 1;
    for (int qk = 0; qk <= last; ++qk) {
      w.line("{}(tmem + {}, q_desc + {}, {});", issue_name(qk), p_.fa4.tmem_s1, p_.q_stride() >> 4,
             p_.k->get());
      if (qk == last) w.line("tcgen05_commit(mbar_s_full + 8);");
      p_.k->emit_release(w, qk);
    }
  }
};

class OneTile final : public QueryTiles {
 public:
  using QueryTiles::QueryTiles;
  std::string title() const override { return "a tile of 128 query rows"; }
  std::string columns() const override {
    return fmt::format("S P 0, the next tile's {}, O {}", p_.fa4.tmem_s1, p_.fa4.tmem_o0);
  }
  const char* whose_q() const override { return "Q"; }
  const char* whose_o() const override { return "O"; }
  const char* barrier() const override { return "turn"; }
  std::string o_of_tile() const override { return std::to_string(p_.fa4.tmem_o0); }
  Lines barriers(const Holes& holes) const override { return tile_section("one_barriers", holes); }
  Lines init(const Holes& holes) const override { return tile_section("one_init", holes); }
  Lines addresses(const Holes& holes) const override { return tile_section("one_addresses", holes); }
  std::string place_of_s(const Holes& holes) const override {
    return tile_section("one_place_of_s", holes).text();
  }
  const char* step() const override { return "s_phase ^= turn;\nturn ^= 1;"; }
  const char* turn() const override { return "u32 turn = 0;  // which place of S a tile of keys has"; }
  Lines follow(const Holes& holes) const override {
    Holes with = holes;
    with.text("arrive_p_of_correction", parts_.blocks->arrive("mbar_p_full + 8 * turn"));
    return tile_section("one_follow", with);
  }
  void emit_repair(Writer& w, const HiddenValues::Place& place, const char* before) const override {
    HiddenValues::Place rows = place;
    rows.first_row = "work.m_start + 32 * quarter";
    rows.end_row = fmt::format("min({} + 32, work.seqlen_q)", rows.first_row);
    p_.hidden.emit_repair(w, rows, "again", before);
  }
  Lines products(Holes holes) const override {
    holes.lines("scores", lines_of([&](Writer& b) { emit_scores(b, "turn"); }));
    holes.lines("next_scores", lines_of([&](Writer& b) { emit_scores(b, "(turn ^ 1)"); }));
    add_values(holes, p_);
    return tile_section("one_products", holes);
  }
  int issues() const override { return 2; }

 private:
  /// S of a tile of keys in place `turn`, chunk by chunk as K comes.
  void emit_scores(Writer& w, const char* turn) const {
    const int last = p_.fa4.num_qk_stages - 1;
    for (int qk = 0; qk <= last; ++qk) {
      p_.k->emit_wait(w, qk);
      w.line("{}(tmem + {} * {}, q_desc, {});", issue_name(qk), turn, p_.BN, p_.k->get());
      if (qk == last) w.line("tcgen05_commit(mbar_s_full + 8 * {});", turn);
      p_.k->emit_release(w, qk);
    }
  }
};

}  // namespace

std::unique_ptr<const QueryTiles> tiles_of(const Parts& parts) {
  if (parts.plan.tiles() == 1) return std::make_unique<OneTile>(parts);
  return std::make_unique<TwoTiles>(parts);
}

}  // namespace kiln::sm100::prefill
