// The online softmax of keys on the M side of sm90_decode: a query row is a column of S', whose keys are spread over the
// lanes of a warp and over the four warps.
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

/// Maxima of the tile over a warp, left where the other warps read them.
void emit_tile_max(Writer& w, const DecodePlan& p) {
  w.comment("maximum of each row over the tile");
  w.line("float tile_max[{}];", p.columns());
  for (int c = 0; c < p.columns(); ++c) {
    const auto [a, b] = lane_registers(c);
    std::string text = fmt::format("fmaxf(s_acc_0[{}], s_acc_0[{}])", a, b);
    for (int i = 1; i < p.key_blocks(); ++i)
      text = fmt::format("fmaxf({0}, fmaxf(s_acc_{1}[{2}], s_acc_{1}[{3}]))", text, i, a, b);
    w.line("tile_max[{}] = {};", c, text);
  }
  for (int step : {4, 8, 16}) {
    for (int c = 0; c < p.columns(); ++c)
      w.line("tile_max[{0}] = fmaxf(tile_max[{0}], __shfl_xor_sync(0xffffffffu, tile_max[{0}], {1}));", c,
             step);
  }
  w.open("if (lane < 4)");
  for (int c = 0; c < p.columns(); c += 2)
    w.line("*(float2*)(row_exchange + warp * {} + {} + 2 * lane) = make_float2(tile_max[{}], tile_max[{}]);",
           p.BM, row_of(c), c, c + 1);
  w.close();
  w.line("named_barrier_sync(1, {});  // also: every warp's product with P(n - 1) is done",
         p.consumer_threads());
}

/// The rows' new maxima and bases, from those of all warps.
void emit_row_max(Writer& w, const DecodePlan& p) {
  w.line("bool grew = false;");
  w.line("float before[{0}], base[{0}];", p.columns());
  for (int c = 0; c < p.columns(); c += 2) {
    w.open("");
    for (int i = 0; i < 4; ++i)
      w.line("const float2 m_{} = *(const float2*)(row_exchange + {} + 2 * (lane & 3));", i,
             i * p.BM + row_of(c));
    for (int e = 0; e < 2; ++e) {
      const char* member = e == 0 ? "x" : "y";
      w.line("before[{0}] = row_max[{0}];", c + e);
      w.line("row_max[{1}] = fmaxf(row_max[{1}], fmaxf(fmaxf(m_0.{0}, m_1.{0}), fmaxf(m_2.{0}, m_3.{0})));",
             member, c + e);
      w.line("base[{0}] = row_max[{0}] == -kInfinity ? 0.0f : row_base(row_max[{0}], factor);", c + e);
      w.line("grew = grew || row_max[{0}] > before[{0}];", c + e);
    }
    w.close();
  }
}

/// Rows that have grown: O and the sums take their new scale.
void emit_rescale(Writer& w, const DecodePlan& p) {
  w.open("if (__any_sync(0xffffffffu, grew))");
  for (int c = 0; c < p.columns(); ++c) {
    const auto [a, b] = lane_registers(c);
    w.line("const float alpha_{0} = rescale_factor(before[{0}], row_max[{0}], factor);", c);
    w.line("row_sum[{0}] *= alpha_{0};", c);
    for (int j = 0; j < p.out_blocks(); ++j)
      w.line("o_acc_{0}[{1}] *= alpha_{3}; o_acc_{0}[{2}] *= alpha_{3};", j, a, b, c);
  }
  std::string steep;
  for (int c = 0; c < p.columns(); ++c) steep += fmt::format("{}is_steep(base[{}])", c > 0 ? " || " : "", c);
  w.line("steep = __any_sync(0xffffffffu, {});", steep);
  w.close();
}

/// Rows whose base no float rounds well enough: the difference comes first.
void emit_steep_scores(Writer& w, const DecodePlan& p) {
  w.open("if (steep)");
  for (int c = 0; c < p.columns(); ++c) {
    const auto [a, b] = lane_registers(c);
    w.open("if (is_steep(base[{}]))", c);
    for (int i = 0; i < p.key_blocks(); ++i)
      w.line("s_acc_{0}[{1}] -= row_max[{3}]; s_acc_{0}[{2}] -= row_max[{3}];", i, a, b, c);
    w.line("base[{}] = 0.0f;", c);
    w.close();
  }
  w.close();
}

}  // namespace

void emit_column_max(Writer& w, const DecodePlan& p) {
  emit_tile_max(w, p);
  emit_row_max(w, p);
  emit_rescale(w, p);
  emit_steep_scores(w, p);
}

void emit_column_exp(Writer& w, const DecodePlan& p, int i) {
  for (int c = 0; c < p.columns(); ++c) {
    const auto [a, b] = lane_registers(c);
    w.line(
        "s_acc_{0}[{1}] = exp2_approx(fmaf(s_acc_{0}[{1}], factor, -base[{3}])); s_acc_{0}[{2}] = "
        "exp2_approx(fmaf(s_acc_{0}[{2}], factor, -base[{3}])); row_sum[{3}] += s_acc_{0}[{1}] + "
        "s_acc_{0}[{2}];",
        i, a, b, c);
  }
}

}  // namespace kiln::sm90
