// The end of a segment of sm80_decode: the warps' results become the block's, 64 columns at a time through
// shared memory; a whole item is written out, a part goes to the workspace, and the last part to arrive is
// combined with the others in order of position.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm80_decode/plan.hpp"

namespace kiln::sm80 {
namespace {

void emit_exchange(Writer& w, const DecodePlan& p, int first_column) {
  const int columns = std::min(p.kExchangeColumns, p.depth - first_column);
  for (int tile = 0; tile < p.depth / 8; ++tile) {
    for (int e = 0; e < 2; ++e) {
      const auto at = p.v->output_column(tile, e);
      if (at.literal < first_column || at.literal >= first_column + columns) continue;
      for (int r = 0; r < 2; ++r) {
        w.line("exchange_row_{}[{}] = o_acc[{}] * weight_{};", r, at.literal - first_column,
               4 * tile + 2 * r + e, r);
      }
    }
  }
}

/// Columns `first + c` to `first + c + 3` of this thread: the warps' sum, to O or to the part.
void emit_columns(Writer& w, const DecodePlan& p, int first, int c) {
  const std::string sum = fmt::format("sum_{}", c);
  w.line("float4 {} = make_float4(0.0f, 0.0f, 0.0f, 0.0f);", sum);
  for (int i = 0; i < p.num_warps; ++i) {
    w.open("");
    w.line("const float4 x = *(const float4*)(exchange + ({} + out_row) * {} + out_column + {});", i * p.BM,
           p.kExchangeStride, c);
    w.line("{0}.x += x.x; {0}.y += x.y; {0}.z += x.z; {0}.w += x.w;", sum);
    w.close();
  }
  w.open("if (s.whole)");
  p.hidden.emit_look_at(w, sum);
  const auto of = [&](const char* member) { return sum + "." + member + " * out_factor"; };
  w.line("{}", store_four(p.out(), fmt::format("output_row(out_row) + {} + out_column", first + c), of("x"),
                          of("y"), of("z"), of("w")));
  w.reopen("else");
  w.line("*(float4*)(part + out_row * {} + {} + out_column) = {};", p.depth, first + c, sum);
  w.close();
}

/// Where this block's part of an item goes. At depth 256 no register is left beside O.
std::string part_of(const DecodePlan& p) {
  return p.stream->splits() ? p.stream->part(p.partial_floats(), StreamK::SlotNumber::bits_32) : "workspace";
}

}  // namespace

namespace {

/// Maximum and sum of this lane's rows to the other warps, and `block_row`, which joins them.
void emit_exchange_rows(Writer& w, const DecodePlan& p) {
  for (int r = 0; r < 2; ++r) {
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 1);", r);
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 2);", r);
  }
  // The last item's readers of these rows have passed its barrier before the exchange.
  w.open("if ((lane & 3) == 0)");
  w.line("warp_rows[warp * {} + (lane >> 2)] = make_float2(row_max_0, row_sum_0);", p.BM);
  w.line("warp_rows[warp * {} + (lane >> 2) + 8] = make_float2(row_max_1, row_sum_1);", p.BM);
  w.close();
  w.line("__syncthreads();");
  w.comment("maximum and sum of a row over the warps");
  w.open("const auto block_row = [&](int row)");
  w.line("float2 all = make_float2(-kInfinity, 0.0f);");
  for (int i = 0; i < p.num_warps; ++i)
    w.line("const float2 row_{0} = warp_rows[{1} + row]; all.x = fmaxf(all.x, row_{0}.x);", i, i * p.BM);
  for (int i = 0; i < p.num_warps; ++i)
    w.line("all.y += row_{0}.y * rescale_factor(row_{0}.x, all.x, scale_log2);", i);
  w.line("return all;");
  w.close(";");
}

/// How much this warp's O counts for, and where its rows go.
void emit_weights(Writer& w, const DecodePlan& p) {
  for (int r = 0; r < 2; ++r) {
    w.line("const float all_{0} = block_row((lane >> 2) + {1}).x;", r, 8 * r);
    w.line("const float weight_{0} = rescale_factor(row_max_{0}, all_{0}, scale_log2);", r);
    w.line(
        "float* const exchange_row_{0} = exchange + (warp * {1} + (lane >> 2) + {2}) * {3} + {4} * (lane & "
        "3);",
        r, p.BM, 8 * r, p.kExchangeStride, p.v->output_column(0, 0).t_factor);
  }
}

}  // namespace

void emit_decode_epilogue(Writer& w, const DecodePlan& p) {
  const int threads_per_row = p.num_threads / p.BM, each = p.kExchangeColumns / threads_per_row;
  w.banner("the warps' results become one");
  emit_finish(w, p, p.head_scale());
  emit_exchange_rows(w, p);
  emit_weights(w, p);
  w.comment("this thread's part of the block's result: {} columns of one row", each);
  w.line("const int out_row = thread / {0}, out_column = thread % {0} * {1};", threads_per_row, each);
  w.line("const float2 out_stats = block_row(out_row);");
  w.line("const bool out_real = out_row < rows;");
  w.line("float* const part = {};", part_of(p));
  w.line("float out_factor = 0.0f;");
  p.hidden.emit_odd(w);
  for (int first = 0; first < p.depth; first += p.kExchangeColumns) {
    const int columns = std::min(p.kExchangeColumns, p.depth - first);
    if (first > 0) w.line("__syncthreads();");
    emit_exchange(w, p, first);
    // Only now, when the first columns of O have left their registers.
    if (first == 0)
      w.line(
          "if (out_real && s.whole) out_factor = finish(out_row, out_stats.x, out_stats.y, out_column == "
          "0);");
    w.line("__syncthreads();");
    w.open("if (out_real{})",
           columns < p.kExchangeColumns ? fmt::format(" && out_column < {}", columns) : "");
    for (int c = 0; c < each; c += 4) {
      emit_columns(w, p, first, c);
    }
    w.close();
  }

  if (!p.stream->splits()) return emit_repair(w, p);
  w.banner("a part of an item: the last to arrive combines");
  w.open("if (!s.whole)");
  w.line("if (out_real && out_column == 0) *((float2*)(part + {}) + out_row) = out_stats;", p.BM * p.depth);
  emit_arrival(w, p);
  w.close();
  emit_repair(w, p);
}

}  // namespace kiln::sm80
