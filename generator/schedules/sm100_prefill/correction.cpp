// Correction of sm100_prefill: O of the tiles of queries follows the rows' maxima, and leaves. Section `correction` of
// templates/sm100_prefill.cuh.
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

/// Rows that V of keys has reached which the mask hides from them are computed again.
class RepairedColumns final : public HiddenColumns {
 public:
  using HiddenColumns::HiddenColumns;
  void use(Prelude& prelude) const override {
    prelude.use("hide_from");
    if (p_.mask->bounded_below()) prelude.use("hide_outside");
  }
  const char* note() const override {
    return "// True where a column of O is NaN or infinite, which V of some key makes in all rows.";
  }
  const char* type() const override { return "bool"; }
  const char* state() const override { return "  float odd = 0.0f;"; }
  std::string look() const override {
    return fmt::format("    for (int i = 0; i < {}; i += 2) odd = fmaf(x[i], x[i + 1], odd);\n#pragma unroll",
                       p_.output_access().registers());
  }
  const char* answer() const override { return "  return !(odd * 0.0f == 0.0f);"; }

  void emit_state(Writer& w) const override { w.line("bool odd = false;"); }
  const char* taken() const override { return "odd |= "; }
  void emit_repair(Writer& w) const override {
    HiddenValues::Place place =
        HiddenValues::place_of(p_.config, {"work.batch", "work.head", "work.kv_head", "work.q_start",
                                           "work.k_start", "work.seqlen_q", "work.seqlen_k"});
    place.first_row = "work.m_start + 128 * tile + 32 * quarter";
    place.end_row = fmt::format("min({} + 32, work.seqlen_q)", place.first_row);
    place.visited_begin = fmt::format("{} * {}", p_.work().first_block(), p_.BN);
    place.visited_end = fmt::format("min(work.num_blocks * {}, work.seqlen_k)", p_.BN);
    w.line("const int again = any_lane(odd);");
    parts_.tiles->emit_repair(w, place, "bulk_wait();  // the store has been written\n__syncwarp();");
  }
};

}  // namespace

std::unique_ptr<const HiddenColumns> hidden_of(const Parts& parts) {
  if (parts.plan.hidden.on()) return std::make_unique<RepairedColumns>(parts);
  return std::make_unique<HiddenColumns>(parts);
}

void add_output_functions(Holes& holes, const Parts& parts) {
  const HiddenColumns& hidden = *parts.hidden;
  holes.text("stage_note", hidden.note())
      .text("stage_type", hidden.type())
      .text("stage_state", hidden.state());
  holes.text("stage_look", hidden.look()).text("stage_answer", hidden.answer());
}

void emit_correction(Writer& w, const Parts& parts, Holes holes) {
  const WorkItems& items = *parts.items;
  holes.lines("items", items.head(ItemReader::warp));
  holes.text("whose_o", parts.tiles->whose_o()).text("o_of_tile", parts.tiles->o_of_tile());
  holes.text("turn", parts.tiles->turn()).lines("follow", parts.tiles->follow(holes));
  holes.lines("tail_state", lines_of([&](Writer& b) { items.emit_tail_state(b); }));
  holes.lines("zero_tail", items.zero_tail());
  holes.lines("tail_step", lines_of([&](Writer& b) { items.emit_tail_step(b); }));
  holes.lines("odd", lines_of([&](Writer& b) { parts.hidden->emit_state(b); }));
  holes.text("taken", parts.hidden->taken());
  holes.lines("store", items.store());
  holes.lines("stored", lines_of([&](Writer& b) { items.emit_stored(b); }));
  holes.lines("repair", lines_of([&](Writer& b) { parts.hidden->emit_repair(b); }));
  w.raw(section("correction", holes));
}

}  // namespace kiln::sm100::prefill
