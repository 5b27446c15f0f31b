// The end of a segment of sm80_decode: the warps' results become the block's, 64 columns at a time through
// shared memory; a whole item is written out, a part goes to the workspace, and the last part to arrive is
// combined with the others in order of position.
#include "generator/schedules/sm80_decode_plan.hpp"

namespace kiln::sm80 {
namespace {

const char* pack_of(const DecodePlan& p) {
  return *p.config.out_dtype == DType::bf16 ? "pack_bf16" : "pack_fp16";
}

// finish(row, maximum, sum): the factor that makes O of a packed row its output; `first` stores the LSE.
void emit_finish(Writer& w, const DecodePlan& p) {
  w.comment("1 / sum of a finished row (0 where no key was visible), and its LSE");
  w.open("const auto finish = [&](int row, float maximum, float sum, bool first)");
  w.line("float top = maximum * scale_log2, own = 1.0f;");
  if (p.sink || p.lse) {
    w.line("const int packed = s.m_block * {} + row, head = s.kv_head * group + packed % group;", p.BM);
  }
  if (p.sink) {
    w.comment("the sink is one more logit, without a value");
    w.line("const float sink_log2 = sink[head] * 1.44269504f;");
    w.line("const float with_sink = fmaxf(top, sink_log2);");
    w.line(
        "const bool visible = sum > 0.0f;  // some key is, though it may count for nothing beside the sink");
    w.line("own = visible ? exp2_approx(top - with_sink) : 0.0f;");
    w.line("sum = sum * own + exp2_approx(sink_log2 - with_sink);");
    w.line("top = with_sink;");
  }
  if (p.lse) {
    w.open("if (first)");
    w.line("lse[{} + packed / group] = {} ? (top + log2_approx(sum)) * 0.693147180559945f : -kInfinity;",
           p.ragged() ? "(long long)head * total_q + s.sequence.q_start"
                      : "((long long)s.batch * heads_q + head) * s.sequence.seqlen_q",
           p.sink ? "visible" : "sum > 0.0f");
    w.close();
  }
  w.line("return sum > 0.0f ? {}own * rcp_approx(sum) : 0.0f;", p.head_scale() ? "v_factor * " : "");
  w.close(";");
  w.comment("first element of O of a packed row");
  w.open("const auto output_row = [&](int row)");
  w.line("const int packed = s.m_block * {} + row;", p.BM);
  w.line(
      "return o + {}(s.sequence.q_start + packed / group) * o_stride_seq + (s.kv_head * group + packed % "
      "group) * "
      "o_stride_head;",
      p.ragged() ? "" : "s.batch * o_stride_batch + ");
  w.close(";");
}

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

void emit_combine(Writer& w, const DecodePlan& p) {
  const int quads = p.depth / 4;
  p.stream->emit_parts(w, p.partial_floats());
  w.open("for (int i = thread; i < rows * {}; i += {})", quads, p.num_threads);
  w.line("const int row = i / {0}, c = i % {0};", quads);
  w.line("float maximum = -kInfinity, sum = 0.0f;");
  w.line("float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  w.line("#pragma unroll 4");
  w.open("for (int other = 0; other < split.parts; ++other)");
  w.line("const float* const from = parts + other * stride + (other == 0 ? shift : 0);");
  w.line("const float2 row_part = __ldcg((const float2*)(from + {}) + row);", p.BM * p.depth);
  w.line("const float4 value = __ldcg((const float4*)(from + row * {}) + c);", p.depth);
  w.line("const float top = fmaxf(maximum, row_part.x);");
  w.comment("-inf - -inf is no number; a part without a visible key weighs nothing");
  w.line("const float shift = top == -kInfinity ? 0.0f : top;");
  w.line(
      "const float before = exp2_approx((maximum - shift) * scale_log2), now = exp2_approx((row_part.x - "
      "shift) "
      "* scale_log2);");
  w.line("sum = sum * before + row_part.y * now;");
  for (const char* x : {"x", "y", "z", "w"}) w.line("out.{0} = out.{0} * before + value.{0} * now;", x);
  w.line("maximum = top;");
  w.close();
  w.line("const float factor = finish(row, maximum, sum, c == 0);");
  w.line(
      "*(uint2*)(output_row(row) + 4 * c) = make_uint2({0}(out.x * factor, out.y * factor), {0}(out.z * "
      "factor, "
      "out.w * factor));",
      pack_of(p));
  w.close();
}

}  // namespace

void emit_decode_epilogue(Writer& w, const DecodePlan& p) {
  const int threads_per_row = p.num_threads / p.BM, each = p.kExchangeColumns / threads_per_row;
  w.banner("the warps' results become one");
  emit_finish(w, p);
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
  w.line("const float shift = all.x == -kInfinity ? 0.0f : all.x;");
  for (int i = 0; i < p.num_warps; ++i)
    w.line("all.y += row_{0}.y * exp2_approx((row_{0}.x - shift) * scale_log2);", i);
  w.line("return all;");
  w.close(";");
  for (int r = 0; r < 2; ++r) {
    w.line("const float all_{0} = block_row((lane >> 2) + {1}).x;", r, 8 * r);
    w.line(
        "const float weight_{0} = exp2_approx((row_max_{0} - (all_{0} == -kInfinity ? 0.0f : all_{0})) * "
        "scale_log2);",
        r);
    w.line(
        "float* const exchange_row_{0} = exchange + (warp * {1} + (lane >> 2) + {2}) * {3} + {4} * (lane & "
        "3);",
        r, p.BM, 8 * r, p.kExchangeStride, p.v->output_column(0, 0).t_factor);
  }
  w.comment("this thread's part of the block's result: {} columns of one row", each);
  w.line("const int out_row = thread / {0}, out_column = thread % {0} * {1};", threads_per_row, each);
  w.line("const float2 out_stats = block_row(out_row);");
  w.line("const bool out_real = out_row < rows;");
  w.line("float* const part = {};", p.stream->splits() ? p.stream->part(p.partial_floats()) : "workspace");
  w.line("float out_factor = 0.0f;");
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
      w.line("float4 sum_{} = make_float4(0.0f, 0.0f, 0.0f, 0.0f);", c);
      for (int i = 0; i < p.num_warps; ++i) {
        w.open("");
        w.line("const float4 x = *(const float4*)(exchange + ({} + out_row) * {} + out_column + {});",
               i * p.BM, p.kExchangeStride, c);
        w.line("sum_{0}.x += x.x; sum_{0}.y += x.y; sum_{0}.z += x.z; sum_{0}.w += x.w;", c);
        w.close();
      }
      w.open("if (s.whole)");
      w.line(
          "*(uint2*)(output_row(out_row) + {0} + out_column) = make_uint2({1}(sum_{2}.x * out_factor, "
          "sum_{2}.y * "
          "out_factor), {1}(sum_{2}.z * out_factor, sum_{2}.w * out_factor));",
          first + c, pack_of(p), c);
      w.reopen("else");
      w.line("*(float4*)(part + out_row * {} + {} + out_column) = sum_{};", p.depth, first + c, c);
      w.close();
    }
    w.close();
  }

  if (!p.stream->splits()) return;
  w.banner("a part of an item: the last to arrive combines");
  w.open("if (!s.whole)");
  w.line("if (out_real && out_column == 0) *((float2*)(part + {}) + out_row) = out_stats;", p.BM * p.depth);
  w.line("__threadfence();");
  w.line("__syncthreads();");
  w.line("int* const arrivals_before = (int*)(smem_bytes + {});", p.smem_bytes - 16);
  w.line("const Split split = split_of(range, s);");
  w.line("if (thread == 0) *arrivals_before = atomicAdd(item_counters + s.item, 1);");
  w.line("__syncthreads();");
  w.open("if (*arrivals_before == split.parts - 1)");
  w.line("__threadfence();");
  w.line("if (thread == 0) item_counters[s.item] = 0;  // as it was found");
  emit_combine(w, p);
  w.close();
  w.close();
}

}  // namespace kiln::sm80
