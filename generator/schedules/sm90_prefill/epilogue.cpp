// The end of a work item of sm90_prefill: O / row_sum on its way out; LSE; and the repair of rows that V of hidden keys
// has reached.
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

void emit_lse(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (!p.results.lse()) return;
  w.open("if ((lane & 3) == 0)");
  w.line("float* const lse_row = lse + {};", parts.items->lse_row());
  for (int r = 0; r < 2; ++r)
    w.line("if (row_0 + {0} < {2}) lse_row[{0}] = {1};", 8 * r, p.softmax->lse(r), p.late("seqlen_q"));
  w.close();
}

// Rows that V of keys has reached which the mask hides from them.
void emit_repair(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  HiddenValues::Place place =
      HiddenValues::place_of(p.config, {p.late("batch"), p.late("head"), p.late_kv_head(), p.late("q_start"),
                                        p.late("k_start"), p.late("seqlen_q"), p.late("seqlen_k")});
  if (p.part) place.seqlen_q = p.aligned_rows();
  place.first_row = p.late("m_start") + " + " + p.late_row();
  place.end_row = fmt::format("min({} + 16, {})", place.first_row, p.late("seqlen_q"));
  place.visited_begin = fmt::format("{} * {}", p.first_block(), p.BN);
  place.visited_end = fmt::format("min(work.num_blocks * {}, {})", p.BN, p.late("seqlen_k"));
  p.hidden.emit_repair(w, place, "any_lane(odd)", parts.output->written());
}

}  // namespace

void emit_epilogue(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  p.hidden.emit_look(w, HiddenValues::first_rows("o_acc", p.ov_depth / 2));
  w.banner("epilogue: O / row_sum, LSE");
  p.softmax->emit_finish(w);
  parts.scales->emit_output_scale(w);
  emit_lse(w, parts);
  parts.output->emit_store(w, parts.scales->output_scale());
  emit_repair(w, parts);
}

}  // namespace kiln::sm90::prefill
