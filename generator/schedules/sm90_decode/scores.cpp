// From products to scores in sm90_decode: scales of keys, score modifiers, masks.
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {

void emit_limits(Writer& w, const DecodePlan& p) {
  const ScoreContext context = p.score_context();
  const std::string first = "(s.sequence.seqlen_k - s.sequence.seqlen_q + ";
  if (!p.mask->has_bits()) {
    w.line("const int clean_end = {};  // keys before it are hidden from no row by their end",
           p.mask->end_key(fmt::format("{}s.m_block * {} / group)", first, p.BM), context.seqlen_k,
                           context.batch));
  }
  if (p.mask->bounded_below()) {
    w.line("const int clean_first = {};",
           p.mask->first_key(fmt::format("{}(s.m_block * {} + max(rows, 1) - 1) / group)", first, p.BM),
                             context.batch));
  }
  if (p.names_rows()) {
    for (int c = 0; c < p.lane_rows(); ++c) {
      w.line(
          "const int packed_{0} = s.m_block * {1} + {2}, query_{0} = packed_{0} / group, head_{0} = "
          "s.kv_head * "
          "group + packed_{0} % group;",
          c, p.BM, p.lane_row(c));
    }
  }
  p.modifier->emit_rows(w, context);
  p.mask->emit_rows(w, context);
}

void emit_scores(Writer& w, const DecodePlan& p) {
  const ScoreContext context = p.score_context();
  const std::string first_key = fmt::format("n * {}", p.BN);
  const bool scaled = p.scales() && !p.grouped() && !p.scale_in_factor();
  if (scaled || p.rope_apart()) {
    w.comment("{}", !p.rope_apart() ? "scales of the keys"
                    : scaled        ? "scales of the keys, which rotary columns have not"
                                    : "with the rotary columns");
    for (int i = 0; i < p.key_blocks(); ++i) {
      for (int r = 0; r < p.s_regs(); ++r) {
        const std::string scale = p.head_scale() ? "key_scale" : fmt::format("k_scale_{}_{}", i, r / 2 % 2);
        if (!p.rope_apart()) {
          w.line("s_acc_{}[{}] *= {};", i, r, scale);
        } else if (scaled) {
          w.line("s_acc_{0}[{1}] = fmaf({2}, s_acc_{0}[{1}], rope_acc_{0}[{1}]);", i, r, scale);
        } else {
          w.line("s_acc_{0}[{1}] += rope_acc_{0}[{1}];", i, r);
        }
      }
    }
  }
  p.modifier->emit_apply(w, context, first_key);
  if (p.mask->has_bits()) return p.mask->emit_apply(w, context, first_key, {});
  w.open("if ((n + 1) * {} > clean_end{})", p.BN,
         p.mask->bounded_below() ? fmt::format(" || n * {} < clean_first", p.BN) : "");
  p.mask->emit_apply(w, context, first_key, {});
  w.close();
}

}  // namespace kiln::sm90
