#include "generator/systems/cdna/online_softmax.hpp"

#include <fmt/ranges.h>

namespace kiln::cdna {

std::string OnlineSoftmax::score(int i) const {
  return fmt::format("s_acc[{}][{}]", i / shape_.qk.accum(), i % shape_.qk.accum());
}

std::string OnlineSoftmax::top() const {
  const std::string top = fmt::format("row_max * {}", shape_.scale_log2);
  return shape_.p_shift == 0 ? top : fmt::format("{} - {:.1f}f", top, static_cast<double>(shape_.p_shift));
}

void OnlineSoftmax::use(Prelude& prelude) const {
  for (const char* section : {"exp2_approx", "rcp_approx", "maximum", "any", "from_lane"})
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
  // A row without a visible key so far has maximum -inf; its sum is 0, so any finite factor serves.
  w.line("alpha = row_max == new_max ? 1.0f : exp2_approx((row_max - new_max) * {});", shape_.scale_log2);
  w.line("row_sum *= alpha; row_max = new_max;");
  if (lazy) w.close();
  w.line("const float shift = row_max == -kInfinity ? 0.0f : {};", top());
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
  for (int c = 0; c < 4; ++c) w.line("float sum_{} = {};", c, score(c));
  for (int i = 4; i < registers(); i += 4) {
    w.line("sum_0 += {}; sum_1 += {}; sum_2 += {}; sum_3 += {};", score(i), score(i + 1), score(i + 2),
           score(i + 3));
  }
  w.line("row_sum += (sum_0 + sum_1) + (sum_2 + sum_3);");
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
    w.line("const float inv_sum = row_sum > 0.0f ? rcp_approx(row_sum) : 0.0f;");
    return;
  }
  // The sink may be far above the scores: sum relative to the larger of the two.
  w.comment("the sink is one more logit of the denominator");
  w.line("const float sink_log2 = {} * 1.44269504f, top = maximum({}, sink_log2);", shape_.sink, top());
  w.line("const float lower = exp2_approx({} - top);", top());
  w.line("if (row_sum > 0.0f) row_sum = row_sum * lower + exp2_approx(sink_log2 - top);");
  w.line("const float inv_sum = row_sum > 0.0f ? lower * rcp_approx(row_sum) : 0.0f;");
}

std::string OnlineSoftmax::lse() const {
  // The shift of P is in `top` where there is a sink.
  const std::string top = shape_.sink.empty() ? fmt::format("row_max * {} +", shape_.scale) : "(top +";
  const std::string sum =
      shape_.p_shift == 0 || !shape_.sink.empty()
          ? "log2_approx(row_sum)"
          : fmt::format("(log2_approx(row_sum) - {:.1f}f)", static_cast<double>(shape_.p_shift));
  return fmt::format("row_sum > 0.0f ? {} {}{} * 0.693147181f : -kInfinity", top, sum,
                     shape_.sink.empty() ? "" : ")");
}

}  // namespace kiln::cdna
