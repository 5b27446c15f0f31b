#include "generator/schedules/sm80_decode_output.hpp"

namespace kiln::sm80 {

void emit_finish(Writer& w, const DecodeOutput& out) {
  w.comment("1 / sum of a finished row (0 where no key was visible), and its LSE");
  w.open("const auto finish = [&](int row, float maximum, float sum, bool first)");
  w.line("float top = maximum * scale_log2, own = 1.0f;");
  if (out.sink || out.lse) {
    w.line("const int packed = s.m_block * {} + row, head = s.kv_head * group + packed % group;", out.BM);
  }
  if (out.sink) {
    w.comment("the sink is one more logit, without a value");
    w.line("const float sink_log2 = sink[head] * 1.44269504f;");
    w.line("const float with_sink = fmaxf(top, sink_log2);");
    w.line(
        "const bool visible = sum > 0.0f;  // some key is, though it may count for nothing beside the sink");
    w.line("own = visible ? exp2_approx(top - with_sink) : 0.0f;");
    w.line("sum = sum * own + exp2_approx(sink_log2 - with_sink);");
    w.line("top = with_sink;");
  }
  if (out.lse) {
    w.open("if (first)");
    w.line("lse[{} + packed / group] = {} ? (top + log2_approx(sum)) * 0.693147180559945f : -kInfinity;",
           out.ragged ? "(long long)head * total_q + s.sequence.q_start"
                      : "((long long)s.batch * heads_q + head) * s.sequence.seqlen_q",
           out.sink ? "visible" : "sum > 0.0f");
    w.close();
  }
  w.line("return sum > 0.0f ? {}own * rcp_approx(sum) : 0.0f;", out.scaled ? "v_factor * " : "");
  w.close(";");
  w.comment("first element of O of a packed row");
  w.open("const auto output_row = [&](int row)");
  w.line("const int packed = s.m_block * {} + row;", out.BM);
  w.line(
      "return o + {}(s.sequence.q_start + packed / group) * o_stride_seq + (s.kv_head * group + packed % "
      "group) * "
      "o_stride_head;",
      out.ragged ? "" : "s.batch * o_stride_batch + ");
  w.close(";");
}

namespace {

void emit_combine(Writer& w, const DecodeOutput& out) {
  const int quads = out.ov_depth / 4;
  out.stream->emit_parts(w, out.partial_floats());
  w.open("for (int i = thread; i < rows * {}; i += {})", quads, out.num_threads);
  w.line("const int row = i / {0}, c = i % {0};", quads);
  w.line("float maximum = -kInfinity, sum = 0.0f;");
  w.line("float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  w.line("#pragma unroll 4");
  w.open("for (int other = 0; other < split.parts; ++other)");
  w.line("const float* const from = parts + other * stride + (other == 0 ? shift : 0);");
  w.line("const float2 row_part = __ldcg((const float2*)(from + {}) + row);", out.BM * out.ov_depth);
  w.line("const float4 value = __ldcg((const float4*)(from + row * {}) + c);", out.ov_depth);
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
      out.pack);
  w.close();
}

}  // namespace

void emit_arrival(Writer& w, const DecodeOutput& out) {
  w.line("__threadfence();");
  w.line("__syncthreads();");
  w.line("int* const arrivals_before = (int*)(smem_bytes + {});", out.smem_flag);
  w.line("const Split split = split_of(range, s);");
  w.line("if (thread == 0) *arrivals_before = atomicAdd(item_counters + s.item, 1);");
  w.line("__syncthreads();");
  w.open("if (*arrivals_before == split.parts - 1)");
  w.line("__threadfence();");
  w.line("if (thread == 0) item_counters[s.item] = 0;  // as it was found");
  emit_combine(w, out);
  w.close();
}

}  // namespace kiln::sm80
