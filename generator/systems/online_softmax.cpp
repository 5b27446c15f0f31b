#include "generator/systems/online_softmax.hpp"

#include <algorithm>
#include <cmath>

namespace kiln {

void OnlineSoftmax::use(Prelude& prelude) const {
  prelude.use("exp2_approx");
  prelude.use("rcp_approx");
  if (!in_log2()) prelude.use("row_base");
  if (shape_.hides) prelude.use("largest");
  if (sums_show_steep()) prelude.use("watched_base");
  if (shape_.exp_offload > 0) prelude.use("exp2_fma"), prelude.use("max_nan");
  if (shape_.top > 0) prelude.use("pack_e4m3"), prelude.use("own_register");
  if (shape_.weights_end)
    prelude.add("first_of",
                "// The first `n` of two numbers, 0 for the others.\n"
                "__device__ __forceinline__ float2 first_of(float2 x, int n) {\n"
                "  return make_float2(n > 0 ? x.x : 0.0f, n > 1 ? x.y : 0.0f);\n"
                "}\n");
}

std::string OnlineSoftmax::base(int r) const {
  return in_log2() ? fmt::format("row_max_{}", r)
                   : fmt::format("row_base(row_max_{}, {})", r, shape_.scale_log2);
}

std::string OnlineSoftmax::rescale_factor(int r, const char* to) const {
  // A row without a visible key so far has maximum -inf; its sum is 0, so any finite factor serves.
  if (in_log2())
    return fmt::format("row_max_{0} == {1}_{0} ? 1.0f : exp2_approx(row_max_{0} - {1}_{0})", r, to);
  return fmt::format("rescale_factor(row_max_{0}, {1}_{0}, {2})", r, to, shape_.scale_log2);
}

std::string OnlineSoftmax::natural_max(int r) const {
  if (in_log2()) return fmt::format("row_max_{} * 0.693147181f", r);
  // A kernel has the natural scale for the LSE alone.
  const std::string scale =
      shape_.sink.empty() ? shape_.scale : fmt::format("({} * 0.693147181f)", shape_.scale_log2);
  const std::string top = fmt::format("row_max_{} * {}", r, scale);
  return shape_.top > 0 ? fmt::format("{} - {:.9g}f", top, shape_.top * 0.693147180559945) : top;
}

std::string OnlineSoftmax::logit(std::string_view score) const {
  if (shape_.curve) return fmt::format(fmt::runtime(shape_.curve->log2), score);
  return fmt::format("{} * {}", score, shape_.scale_log2);
}

std::string OnlineSoftmax::maximum(std::string_view score) const {
  if (shape_.weighted) return fmt::format("{} - {:.1f}f", score, shape_.top);
  return in_log2() ? logit(score) : std::string(score);
}

std::string OnlineSoftmax::near_does(std::string_view least, std::string_view most) const {
  // Scores below -bound must weigh nothing beside a row that holds its maximum; those above must show.
  return fmt::format("{} > {:.4f}f && {} < {:.4f}f", least, LogitCurve::kWeightless - shape_.curve->bound,
                     most, shape_.curve->bound - shape_.rescale_threshold);
}

std::string OnlineSoftmax::exponent(int i, std::string_view name, bool near) const {
  const int r = (i >> 1) & 1;
  const std::string score = fmt::format("s_acc[{}]", i), shift = fmt::format("{}_{}", name, r);
  if (!shape_.curve) {
    return fmt::format("fmaf({}, {}, -{})", score, shape_.scale_log2, shift);
  }
  if (near) return fmt::format(fmt::runtime(shape_.curve->near), score, shift);
  return logit(score) + " - " + shift;
}

void OnlineSoftmax::emit_reset(Writer& w) const {
  w.line("float row_max_0 = -kInfinity, row_max_1 = -kInfinity;");
  w.line("float row_sum_0 = 0.0f, row_sum_1 = 0.0f;");
}

void OnlineSoftmax::emit_weights(Writer& w, int i, bool first) const {
  const bool end = first && shape_.weights_end;
  w.line("const float2 v_scale_{} = {}load_shared_float2(v_scale_at + {}){};", i / 4, end ? "first_of(" : "",
         8 * i, end ? fmt::format(", scaled_keys - {})", 2 * i) : "");
}

void OnlineSoftmax::emit_weighted_logits(Writer& w, int i, bool first) const {
  emit_weights(w, i, first);
  // A weight of 0 must leave the sum what a float holds: 2^-64 in its place.
  w.line(
      "const float log_x = log2_approx(fmaxf(fabsf(v_scale_{0}.x), 5.421e-20f)), log_y = "
      "log2_approx(fmaxf(fabsf(v_scale_{0}.y), 5.421e-20f));",
      i / 4);
  for (int j = 0; j < 4; ++j)
    w.line("const float l_{} = fmaf(s_acc[{}], {}, log_{});", j, i + j, shape_.scale_log2,
           j % 2 == 0 ? 'x' : 'y');
}

void OnlineSoftmax::emit_weigh(Writer& w, bool first) const {
  w.comment("P times the scales of V");
  for (int i = 0; i < shape_.score_regs; i += 4) {
    w.open("");
    emit_weights(w, i, first);
    w.line(
        "s_acc[{0}] *= v_scale_{4}.x; s_acc[{1}] *= v_scale_{4}.y; s_acc[{2}] *= v_scale_{4}.x; s_acc[{3}] "
        "*= "
        "v_scale_{4}.y;",
        i, i + 1, i + 2, i + 3, i / 4);
    w.close();
  }
}

void OnlineSoftmax::emit_max(Writer& w, bool masked, bool first) const {
  // Two chains per row: the maximum of a fragment is a long dependency otherwise.
  if (shape_.weighted)
    w.line("float max_0a = -kInfinity, max_0b = -kInfinity, max_1a = -kInfinity, max_1b = -kInfinity;");
  else
    w.line("float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];");
  for (int i = 0; shape_.weighted && i < shape_.score_regs; i += 4) {
    w.open("");
    emit_weighted_logits(w, i, first);
    w.line(
        "max_0a = fmaxf(max_0a, l_0); max_0b = fmaxf(max_0b, l_1); max_1a = fmaxf(max_1a, l_2); max_1b = "
        "fmaxf(max_1b, l_3);");
    w.close();
  }
  const char* const max = max_of();
  for (int i = 4; !shape_.weighted && i < shape_.score_regs; i += 4) {
    w.line(
        "max_0a = {4}(max_0a, s_acc[{0}]); max_0b = {4}(max_0b, s_acc[{1}]); max_1a = {4}(max_1a, "
        "s_acc[{2}]); max_1b = {4}(max_1b, s_acc[{3}]);",
        i, i + 1, i + 2, i + 3, max);
  }
  w.line("float max_0 = {0}(max_0a, max_0b), max_1 = {0}(max_1a, max_1b);", max);
  for (const int lanes : {1, 2}) {
    w.line(
        "max_0 = {1}(max_0, __shfl_xor_sync(0xffffffffu, max_0, {0})); max_1 = {1}(max_1, "
        "__shfl_xor_sync(0xffffffffu, max_1, {0}));",
        lanes, max);
  }
  if (in_log2()) w.line("max_0 = {}; max_1 = {};", maximum("max_0"), maximum("max_1"));
  const std::string factor = in_log2() ? "" : " * " + shape_.scale_log2;  // to log2 units
  if (first) {
    w.line("row_max_0 = max_0; row_max_1 = max_1;");
  } else {
    w.line("max_0 = {0}(max_0, row_max_0); max_1 = {0}(max_1, row_max_1);", max);
    w.line("float alpha_0 = 1.0f, alpha_1 = 1.0f;");
    if (shape_.rescale_threshold > 0) {
      w.comment("Keep the old maximum while no row of the warp grew by more than 2^{}.",
                shape_.rescale_threshold);
      // A maximum of NaN has grown.
      const bool nan = shape_.exp_offload > 0;
      w.line(
          "const bool grew = {2}(max_0 - row_max_0){1} {4} {0:.1f}f{3} || {2}(max_1 - row_max_1){1} {4} "
          "{0:.1f}f{3};",
          shape_.rescale_threshold, factor, nan ? "!(" : "", nan ? ")" : "", nan ? "<=" : ">");
      w.line("const bool rescale = __any_sync(0xffffffffu, grew);");
      w.open("if (rescale)");
    }
    for (int r = 0; r < 2; ++r)
      w.line("alpha_{0} = {1}; row_sum_{0} *= alpha_{0}; row_max_{0} = max_{0};", r,
             rescale_factor(r, "max"));
    if (shape_.rescale_threshold > 0) w.close();
  }
  emit_shift(w, masked);
}

void OnlineSoftmax::emit_shift(Writer& w, bool masked) const {
  for (int r = 0; r < 2; ++r) {
    w.line("{3}float shift_{0} = {1}{2};", r,
           masked ? fmt::format("row_max_{} == -kInfinity ? 0.0f : ", r) : "", base(r),
           in_log2() ? "const " : "");
  }
  if (in_log2()) return;
  w.open("if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1)))");
  emit_steep(w);
  emit_subtract(w, 0, shape_.score_regs);
  w.close();
  if (shape_.top > 0) w.line("shift_0 -= {0:.1f}f; shift_1 -= {0:.1f}f;", shape_.top);
}

void OnlineSoftmax::emit_subtract(Writer& w, int begin, int end) const {
  for (int i = begin; i < end; i += 4)
    w.line("s_acc[{}] -= steep_0; s_acc[{}] -= steep_0; s_acc[{}] -= steep_1; s_acc[{}] -= steep_1;", i,
           i + 1, i + 2, i + 3);
}

void OnlineSoftmax::emit_steep(Writer& w) const {
  for (int r = 0; r < 2; ++r) {
    w.line("const float steep_{0} = is_steep(shift_{0}) && row_max_{0} != -kInfinity ? row_max_{0} : 0.0f;",
           r);
    w.line("if (is_steep(shift_{0})) shift_{0} = 0.0f;", r);
  }
}

void OnlineSoftmax::emit_exp(Writer& w, int begin, int end, bool masked) const {
  // Every `period`-th group of four registers goes to the FMA pipe.
  const int period =
      shape_.exp_offload > 0 && !masked ? std::max(1, static_cast<int>(1.0 / shape_.exp_offload + 0.5)) : 0;
  const auto exponentials = [&](bool near) {
    for (int i = begin; i < end; i += 4) {
      const bool offload = period > 0 && (i / 4) % period == period - 1;
      const char* exp2 = offload ? "exp2_fma" : "exp2_approx";
      for (int j = i; j < i + 4; j += 2) {
        w.line("s_acc[{0}] = {2}({3}); s_acc[{1}] = {2}({4});", j, j + 1, exp2, exponent(j, "shift", near),
               exponent(j + 1, "shift", near));
      }
    }
  };
  if (shape_.curve) {
    w.comment("rows whose maximum the polynomial does for; shift is 0 where no key is visible");
    w.open("if (__all_sync(0xffffffffu, {}))",
           near_does("fminf(shift_0, shift_1)", "fmaxf(shift_0, shift_1)"));
    exponentials(true);
    w.reopen("else");
  }
  exponentials(false);
  if (shape_.curve) w.close();
  w.comment("row sums, two chains each");
  for (int r = 0; r < 2; ++r)
    w.line("float sum_{0}a_{1} = s_acc[{2}], sum_{0}b_{1} = s_acc[{3}];", r, begin, begin + 2 * r,
           begin + 2 * r + 1);
  for (int i = begin + 4; i < end; i += 4) {
    w.line(
        "sum_0a_{4} += s_acc[{0}]; sum_0b_{4} += s_acc[{1}]; sum_1a_{4} += s_acc[{2}]; sum_1b_{4} += "
        "s_acc[{3}];",
        i, i + 1, i + 2, i + 3, begin);
  }
  for (int r = 0; r < 2; ++r) w.line("row_sum_{0} += sum_{0}a_{1} + sum_{0}b_{1};", r, begin);
}

void OnlineSoftmax::emit_watched(Writer& w) const {
  w.comment(
      "P(n) by the maximum so far. A sum above 2^{} shows that it grew: then, rarely, a new one is found.",
      shape_.rescale_threshold);
  w.line("float e[{}], alpha_0 = 1.0f, alpha_1 = 1.0f;", shape_.score_regs);
  w.line("bool rescale = false;");
  const int part = (shape_.score_regs / shape_.watched_parts + 3) / 4 * 4;
  for (int begin = 0; begin < shape_.score_regs; begin += part)
    emit_watched_part(w, begin, std::min(begin + part, shape_.score_regs));
}

void OnlineSoftmax::emit_part_max(Writer& w, int begin, int end) const {
  if (shape_.weighted) {
    w.line("float max_0 = -kInfinity, max_1 = -kInfinity;");
    for (int i = begin; i < end; i += 4) {
      w.open("");
      emit_weighted_logits(w, i, false);
      w.line("max_0 = fmaxf(max_0, fmaxf(l_0, l_1)); max_1 = fmaxf(max_1, fmaxf(l_2, l_3));");
      w.close();
    }
    return;
  }
  w.line("float max_0 = s_acc[{}], max_1 = s_acc[{}];", begin, begin + 2);
  for (int i = begin; i < end; i += 4) {
    w.line(
        "max_0 = fmaxf(max_0, fmaxf(s_acc[{}], s_acc[{}])); max_1 = fmaxf(max_1, fmaxf(s_acc[{}], "
        "s_acc[{}]));",
        i, i + 1, i + 2, i + 3);
  }
}

void OnlineSoftmax::emit_new_max(Writer& w, int r) const {
  for (const int lanes : {1, 2})
    w.line("max_{0} = fmaxf(max_{0}, __shfl_xor_sync(0xffffffffu, max_{0}, {1}));", r, lanes);
  const std::string max = fmt::format("max_{}", r);
  w.line("{0} = fmaxf(row_{0}, {1});", max, maximum(max));
}

void OnlineSoftmax::emit_watched_part(Writer& w, int begin, int end) const {
  const auto exponentials = [&](bool again) {
    const char* shift = in_log2() && !shape_.hides && !again ? "row_max" : "shift";
    for (int i = begin; i < end; i += 2) {
      w.line("e[{}] = exp2_approx({}); e[{}] = exp2_approx({});", i, exponent(i, shift, !again), i + 1,
             exponent(i + 1, shift, !again));
    }
    w.line("sum_0a = e[{}]; sum_0b = e[{}]; sum_1a = e[{}]; sum_1b = e[{}];", begin, begin + 1, begin + 2,
           begin + 3);
    for (int i = begin + 4; i < end; i += 4)
      w.line("sum_0a += e[{}]; sum_0b += e[{}]; sum_1a += e[{}]; sum_1b += e[{}];", i, i + 1, i + 2, i + 3);
    w.line("sum_0a += sum_0b; sum_1a += sum_1b;");
  };
  w.open("");
  w.line("float sum_0a, sum_0b, sum_1a, sum_1b;");
  emit_old_shift(w);
  exponentials(false);
  std::string limit = fmt::format("{:.1f}f", std::exp2(shape_.rescale_threshold)), steep;
  if (shape_.curve) {
    w.comment("a limit that every sum is above, where the polynomial may not do for the row's maximum");
    w.line("const float limit = {} ? {} : -1.0f;",
           near_does("fminf(row_max_0, row_max_1)", "fmaxf(row_max_0, row_max_1)"), limit);
    limit = "limit";
  }
  if (!in_log2() && !sums_show_steep()) steep = fmt::format(" || {} || {}", steep_row(0), steep_row(1));
  // Without hidden keys a sum is NaN by NaN in Q or K alone, which no other maximum changes.
  const char* const above =
      shape_.hides ? "!(sum_0a <= {0}) || !(sum_1a <= {0}){1}" : "fmaxf(sum_0a, sum_1a) > {0}{1}";
  w.open("if (__any_sync(0xffffffffu, {}))", fmt::format(fmt::runtime(above), limit, steep));
  emit_part_max(w, begin, end);
  for (int r = 0; r < 2; ++r) {
    emit_new_max(w, r);
    w.line("const float beta_{0} = {1};", r,
           sums_show_steep() ? fmt::format("exp2_approx((row_max_{0} - max_{0}) * {1})", r, shape_.scale_log2)
                             : rescale_factor(r, "max"));
    w.line("alpha_{0} *= beta_{0}; row_sum_{0} *= beta_{0}; row_max_{0} = max_{0};", r);
  }
  w.line("rescale = true;");
  for (int i = 0; i < begin; i += 4)
    w.line("e[{}] *= beta_0; e[{}] *= beta_0; e[{}] *= beta_1; e[{}] *= beta_1;", i, i + 1, i + 2, i + 3);
  emit_new_shift(w, begin, end);
  exponentials(true);
  w.close();
  w.line("row_sum_0 += sum_0a; row_sum_1 += sum_1a;");
  w.close();
}

void OnlineSoftmax::emit_pack_e4m3(Writer& w, const char* to, const char* from, int begin, int end,
                                   int first) {
  for (int i = begin; i < end; i += 8) {
    for (int r = 0; r < 4; r += 2) {
      const int at = i + r - first;
      w.line("{0}[{1}] = pack_e4m3({2}[{3}], {2}[{4}], {2}[{5}], {2}[{6}]);", to, i / 4 + r / 2, from, at,
             at + 1, at + 4, at + 5);
    }
  }
}

void OnlineSoftmax::emit_old_shift(Writer& w) const {
  if (in_log2() && !shape_.hides) return;
  if (shape_.hides)
    w.comment("a finite base where no key was visible: any visible score overflows beside it");
  for (int r = 0; r < 2; ++r)
    w.line("float shift_{} = {};", r,
           shape_.hides        ? fmt::format("fmaxf({}, -kLargest)", base(r))
           : sums_show_steep() ? "watched_" + base(r).substr(std::string_view("row_").size())
                               : base(r));
}

std::string OnlineSoftmax::steep_row(int r) const {
  const std::string steep = fmt::format("is_steep(shift_{})", r);
  return shape_.hides ? fmt::format("(shift_{} > -kLargest && {})", r, steep) : steep;
}

void OnlineSoftmax::emit_new_shift(Writer& w, int begin, int end) const {
  for (int r = 0; r < 2; ++r)
    w.line("{2}shift_{0} = row_max_{0} == -kInfinity ? 0.0f : {1};", r, base(r),
           in_log2() && !shape_.hides ? "const float " : "");
  if (in_log2()) return;
  w.open("if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1)))");
  emit_steep(w);
  emit_subtract(w, begin, end);
  w.close();
  if (shape_.top > 0) w.line("shift_0 -= {0:.1f}f; shift_1 -= {0:.1f}f;", shape_.top);
}

void OnlineSoftmax::emit_packed_exp(Writer& w, bool again) const {
  const char* shift = in_log2() && !shape_.hides && !again ? "row_max" : "shift";
  w.line("sum_0a = sum_0b = sum_1a = sum_1b = 0.0f;");
  for (int begin = 0; begin < shape_.score_regs; begin += 8) {
    w.open("");
    w.line("float e[8];");
    for (int j = 0; j < 8; j += 2)
      w.line("e[{}] = exp2_approx({}); e[{}] = exp2_approx({});", j, exponent(begin + j, shift, false), j + 1,
             exponent(begin + j + 1, shift, false));
    for (const int j : {0, 4})
      w.line("sum_0a += e[{}]; sum_0b += e[{}]; sum_1a += e[{}]; sum_1b += e[{}];", j, j + 1, j + 2, j + 3);
    for (int j = 0; shape_.weighted && j < 8; j += 4) {
      emit_weights(w, begin + j, false);
      w.line(
          "e[{0}] *= v_scale_{4}.x; e[{1}] *= v_scale_{4}.y; e[{2}] *= v_scale_{4}.x; e[{3}] *= "
          "v_scale_{4}.y;",
          j, j + 1, j + 2, j + 3, (begin + j) / 4);
    }
    emit_pack_e4m3(w, "next", "e", begin, begin + 8, begin);
    w.close();
  }
  w.line("sum_0a += sum_0b; sum_1a += sum_1b;");
}

void OnlineSoftmax::emit_packed(Writer& w) const {
  const int registers = shape_.score_regs / 4;
  w.comment("P(n) by the maximum so far. Where it would be over 448 the maximum grew: a new one is found.");
  w.line("u32 next[{}];", registers);
  w.line("float alpha_0 = 1.0f, alpha_1 = 1.0f;");
  w.line("bool rescale = false;");
  w.open("");
  w.line("float sum_0a, sum_0b, sum_1a, sum_1b;");
  emit_old_shift(w);
  if (!in_log2()) {
    w.line("const bool steep = {} || {};", steep_row(0), steep_row(1));
    w.line("shift_0 -= {0:.1f}f; shift_1 -= {0:.1f}f;", shape_.top);
  }
  emit_packed_exp(w, false);
  const char* const most = "(most & 0x80808080u) != 0";
  if (shape_.weighted) {
    w.comment(
        "a byte of 448 (0x7e) of either sign tells; or, of keys without weight, a sum that leaves no room");
    w.line("u32 most = 0;");
    for (int i = 0; i < registers; i += 2)
      w.line("most |= ((next[{}] & 0x7f7f7f7fu) + 0x02020202u) | ((next[{}] & 0x7f7f7f7fu) + 0x02020202u);",
             i, i + 1);
    w.open("if (__any_sync(0xffffffffu, {} || !(sum_0a <= 1e30f) || !(sum_1a <= 1e30f)))", most);
  } else {
    w.comment("no sum over 448, no P over 448; else a byte of 448 (0x7e) tells");
    w.open("if (__any_sync(0xffffffffu, !(sum_0a <= 448.0f) || !(sum_1a <= 448.0f) || steep))");
    w.line("u32 most = 0;");
    for (int i = 0; i < registers; i += 2)
      w.line("most |= (next[{}] + 0x02020202u) | (next[{}] + 0x02020202u);", i, i + 1);
    w.open("if (__any_sync(0xffffffffu, {} || steep))", most);
  }
  emit_part_max(w, 0, shape_.score_regs);
  for (int r = 0; r < 2; ++r) {
    emit_new_max(w, r);
    w.line("alpha_{0} = {1}; row_sum_{0} *= alpha_{0}; row_max_{0} = max_{0};", r, rescale_factor(r, "max"));
  }
  w.line("rescale = true;");
  emit_new_shift(w, 0, shape_.score_regs);
  emit_packed_exp(w, true);
  w.close();
  if (!shape_.weighted) w.close();
  w.line("row_sum_0 += sum_0a; row_sum_1 += sum_1a;");
  w.close();
}

void OnlineSoftmax::emit_rescale(Writer& w) const {
  if (shape_.rescale_threshold > 0) w.open("if (rescale)");
  for (int i = 0; i < shape_.output_regs; i += 4) {
    w.line("o_acc[{}] *= alpha_0; o_acc[{}] *= alpha_0; o_acc[{}] *= alpha_1; o_acc[{}] *= alpha_1;", i,
           i + 1, i + 2, i + 3);
  }
  if (shape_.rescale_threshold > 0) w.close();
}

void OnlineSoftmax::emit_finish(Writer& w) const {
  for (int r = 0; r < 2; ++r) {
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 1);", r);
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 2);", r);
  }
  if (shape_.sink.empty()) {
    w.line("const float inv_sum_0 = row_sum_0 == 0.0f ? 0.0f : rcp_approx(row_sum_0);");
    w.line("const float inv_sum_1 = row_sum_1 == 0.0f ? 0.0f : rcp_approx(row_sum_1);");
    return;
  }
  // The sink may be far above the scores: sum relative to the larger of the two.
  w.comment("the sink is one more logit of the denominator");
  for (int r = 0; r < 2; ++r) {
    w.line("const float own_{0} = {2}, sink_{0} = {1}, top_{0} = fmaxf(own_{0}, sink_{0});", r,
           shape_.sink[static_cast<std::size_t>(r)], natural_max(r));
    w.line(
        "const float lower_{0} = own_{0} == top_{0} ? 1.0f : exp2_approx((own_{0} - top_{0}) * 1.44269504f);",
        r);
    w.line(
        "if (row_sum_{0} != 0.0f) row_sum_{0} = row_sum_{0} * lower_{0} + (sink_{0} == top_{0} ? 1.0f : "
        "exp2_approx((sink_{0} - top_{0}) * 1.44269504f));",
        r);
    w.line("const float inv_sum_{0} = row_sum_{0} == 0.0f ? 0.0f : lower_{0} * rcp_approx(row_sum_{0});", r);
  }
}

std::string OnlineSoftmax::lse(int r) const {
  return fmt::format("row_sum_{0} == 0.0f ? -kInfinity : {1} + log2_approx(row_sum_{0}) * 0.693147181f", r,
                     shape_.sink.empty() ? natural_max(r) : fmt::format("top_{}", r));
}

}  // namespace kiln
