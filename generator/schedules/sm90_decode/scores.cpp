// From products to scores in sm90_decode: scales of keys, score modifiers, masks.
#include "generator/schedules/common/decode_text.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {

void emit_limits(Writer& w, const DecodePlan& p) {
  const ScoreContext context = p.score_context();
  const std::string first = fmt::format("(s.sequence.seqlen_k - {} + ", p.stream->aligned_rows());
  emit_clean_range(w, *p.mask, context, fmt::format("{}s.m_block * {} / group)", first, p.BM),
                   fmt::format("{}(s.m_block * {} + max(rows, 1) - 1) / group)", first, p.BM));
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

void emit_scores(Writer& w, const Parts& parts) {
  const DecodePlan& p = parts.plan;
  const ScoreContext context = p.score_context();
  const std::string first_key = fmt::format("n * {}", p.BN);
  parts.products->emit_scores(w, *parts.scales);
  p.modifier->emit_apply(w, context, first_key);
  emit_mask_outside(w, *p.mask, context, first_key, fmt::format("(n + 1) * {}", p.BN));
}

}  // namespace kiln::sm90
