#include "generator/systems/cdna/online_softmax.hpp"

#include <fmt/ranges.h>

namespace kiln::cdna {

std::string OnlineSoftmax::score(int i) const {
  return fmt::format("s_acc[{}][{}]", i / shape_.qk.accum(), i % shape_.qk.accum());
}

std::string OnlineSoftmax::summand(int i) const {
  return shape_.in_sum.empty() ? score(i) : score(i) + " * " + shape_.in_sum[static_cast<std::size_t>(i)];
}

std::string OnlineSoftmax::natural_max() const {
  // A kernel has the natural scale for the LSE alone.
  const std::string scale =
      shape_.sink.empty() ? shape_.scale : fmt::format("({} * 0.693147181f)", shape_.scale_log2);
  const std::string top = fmt::format("row_max * {}", scale);
  return shape_.p_shift == 0 ? top : fmt::format("{} - {:.9g}f", top, shape_.p_shift * 0.693147180559945);
}

void OnlineSoftmax::use(Prelude& prelude) const {
  for (const char* section : {"exp2_approx", "row_base", "rcp_approx", "maximum", "any", "from_lane"})
    prelude.use(section);
}

void OnlineSoftmax::emit_reset(Writer& w) const {
  w.line("float row_max = -kInfinity, row_sum = 0.0f;");
}

void OnlineSoftmax::emit_fold(Writer& w, const std::string& value, const std::string& combine) const {
  for (int distance = shape_.qk.shape.m; distance < 64; distance *= 2) {
    const std::string other = fmt::format("from_lane((lane ^ {}) * 4, {})", distance, value);
    w.line("{} = {};", value, fmt::format(fmt::runtime(combine), value, other));
  }
}

void OnlineSoftmax::emit_max(Writer& w) const {
  // Four chains: one would be a long dependency.
  constexpr int kChains = 4;
  for (int c = 0; c < kChains; ++c) w.line("float max_{} = {};", c, score(c));
  for (int i = kChains; i < registers(); i += 2 * kChains) {
    for (int c = 0; c < kChains; ++c) {
      const int second = i + kChains + c;
      if (second < registers()) {
        w.line("max_{0} = maximum(maximum(max_{0}, {1}), {2});", c, score(i + c), score(second));
      } else {
        w.line("max_{0} = maximum(max_{0}, {1});", c, score(i + c));
      }
    }
  }
  w.line("float new_max = maximum(maximum(max_0, max_1), maximum(max_2, max_3));");
  emit_fold(w, "new_max", "maximum({}, {})");
  w.line("new_max = maximum(new_max, row_max);");
  w.line("float alpha = 1.0f;");
  const bool lazy = shape_.rescale_threshold > 0;
  if (lazy) {
    w.comment("Keep the old maximum while no row of the wave grew by more than 2^{}.",
              shape_.rescale_threshold);
    w.line("const bool rescale = any((new_max - row_max) * {1} > {0:.1f}f);", shape_.rescale_threshold,
           shape_.scale_log2);
    w.open("if (rescale)");
  }
  w.line("alpha = rescale_factor(row_max, new_max, {});", shape_.scale_log2);
  w.line("row_sum *= alpha; row_max = new_max;");
  if (lazy) w.close();
  w.line("float shift = row_max == -kInfinity ? 0.0f : row_base(row_max, {});", shape_.scale_log2);
  w.open("if (any(is_steep(shift)))");
  w.line("const float steep = is_steep(shift) ? row_max : 0.0f;");
  for (int i = 0; i < shape_.score_tiles; ++i) w.line("s_acc[{}] -= steep;", i);
  w.line("if (is_steep(shift)) shift = 0.0f;");
  w.close();
  if (shape_.p_shift > 0) w.line("shift -= {:.1f}f;", static_cast<double>(shape_.p_shift));
}

void OnlineSoftmax::emit_rescale(Writer& w) const {
  if (shape_.rescale_threshold > 0) w.open("if (rescale)");
  for (int i = 0; i < shape_.output_tiles; ++i) w.line("o_acc[{}] *= alpha;", i);
  if (shape_.rescale_threshold > 0) w.close();
}

void OnlineSoftmax::emit_exp(Writer& w) const {
  for (int i = 0; i < registers(); i += 2) {
    w.line(
        "{0} = exp2_approx(__builtin_fmaf({0}, {2}, -shift)); {1} = exp2_approx(__builtin_fmaf({1}, {2}, "
        "-shift));",
        score(i), score(i + 1), shape_.scale_log2);
  }
  w.comment("row sum, four chains");
  for (int c = 0; c < 4; ++c) w.line("float sum_{} = {};", c, summand(c));
  for (int i = 4; i < registers(); i += 4) {
    w.line("sum_0 += {}; sum_1 += {}; sum_2 += {}; sum_3 += {};", summand(i), summand(i + 1), summand(i + 2),
           summand(i + 3));
  }
  w.line("row_sum += (sum_0 + sum_1) + (sum_2 + sum_3);");
}

void OnlineSoftmax::emit_pack(Writer& w) const {
  const int per_step = shape_.pv.frag();
  for (int step = 0; step * per_step < registers(); ++step) {
    std::vector<std::string> words;
    const int per_word = per_step / shape_.pv.frag_regs();
    for (int i = step * per_step; i < (step + 1) * per_step; i += per_word) {
      std::vector<std::string> values;
      for (int j = i; j < i + per_word; ++j) values.push_back(score(j));
      words.push_back(fmt::format("{}({})", shape_.pack, fmt::join(values, ", ")));
    }
    w.line("p[{}] = u32x{}{{{}}};", step, shape_.pv.frag_regs(), fmt::join(words, ", "));
  }
}

void OnlineSoftmax::emit_finish(Writer& w) const {
  emit_fold(w, "row_sum", "{} + {}");
  if (shape_.sink.empty()) {
    w.line("const float inv_sum = row_sum != 0.0f ? rcp_approx(row_sum) : 0.0f;");
    return;
  }
  // The sink may be far above the scores: sum relative to the larger of the two.
  w.comment("the sink is one more logit of the denominator");
  w.line("const float own = {}, logit = {}, top = maximum(own, logit);", natural_max(), shape_.sink);
  w.line("const float lower = own == top ? 1.0f : exp2_approx((own - top) * 1.44269504f);");
  w.line(
      "if (row_sum != 0.0f) row_sum = row_sum * lower + (logit == top ? 1.0f : exp2_approx((logit - top) * "
      "1.44269504f));");
  w.line("const float inv_sum = row_sum != 0.0f ? lower * rcp_approx(row_sum) : 0.0f;");
}

std::string OnlineSoftmax::lse() const {
  return fmt::format("row_sum != 0.0f ? {} + log2_approx(row_sum) * 0.693147181f : -kInfinity",
                     shape_.sink.empty() ? natural_max() : "top");
}

}  // namespace kiln::cdna
