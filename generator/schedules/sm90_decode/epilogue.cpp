// The end of a segment of sm90_decode. A whole item is written at once. Of a split item each block leaves a
// part
//
//   part: O' not yet divided by the sum, [BM][ov] floats, then (maximum, sum) of each row
//
// in its workspace and arrives at the item's counter; the last one to arrive adds all parts up, in their
// order, or all that are free do (shared_combine.cpp).
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {

const char* pack_of(DType type) {
  return type == DType::bf16 ? "pack_bf16" : "pack_fp16";
}

void emit_transposed(Writer& w, const DecodePlan& p, const std::string& at, const std::string& acc,
                     const char* pack, const std::string& factor) {
  const auto reg = [&](int r) {
    return factor.empty() ? fmt::format("{}[{}]", acc, r)
                          : fmt::format("{}[{}] * {}[{}]", acc, r, factor, 2 * (r / 4) + r % 2);
  };
  const auto pair = [&](int r) { return fmt::format("{}({}, {})", pack, reg(r), reg(r + 1)); };
  if (p.s_regs() == 4) return w.line("stmatrix_x2_trans({}, {}, {});", at, pair(0), pair(2));
  for (int r = 0; r < p.s_regs(); r += 8)
    w.line("stmatrix_x4_trans({} + {}, {}, {}, {}, {});", at, 2 * r * 128, pair(r), pair(r + 2), pair(r + 4),
           pair(r + 6));
}

void emit_finish_row(Writer& w, const DecodePlan& p, const std::string& row, const std::string& top,
                     const std::string& sum, const std::string& inverse, const std::string& writer) {
  w.open("");
  if (p.sink || p.lse)
    w.line("const int packed = s.m_block * {} + {}, head = s.kv_head * group + packed % group;", p.BM, row);
  // In natural units: in log2 units a logit near the largest float is none.
  const std::string natural = top + " * (factor * 0.693147181f)";
  if (!p.sink) w.line("const float {}sum = {};", p.lse ? fmt::format("top = {}, ", natural) : "", sum);
  if (p.sink) {
    w.line("float top = {}, sum = {};", natural, sum);
    w.comment("the sink is one more logit, without a value");
    w.line("const float logit = {} < rows ? sink[head] : 0.0f, higher = fmaxf(top, logit);", row);
    w.line(
        "const bool visible = sum != 0.0f;  // some key is, though it may count for nothing beside the sink");
    w.line(
        "const float own = !visible ? 0.0f : top == higher ? 1.0f : exp2_approx((top - higher) * "
        "1.44269504f);");
    w.line("sum = sum * own + (logit == higher ? 1.0f : exp2_approx((logit - higher) * 1.44269504f));");
    w.line("top = higher;");
  }
  const char* const by = p.head_scale() ? "value_scale" : "1.0f";
  w.line("{} = sum != 0.0f ? {} / sum : 0.0f;", inverse,
         !p.sink          ? by
         : p.head_scale() ? "own * value_scale"
                          : "own");
  if (p.lse) {
    w.line(
        "if ({}{} < rows) lse[{}{} + packed / group] = {} ? top + log2_approx(sum) * 0.693147181f : "
        "-kInfinity;",
        writer, row, p.separate ? "(long long)s.part * heads_q * total_q + " : "",
        p.stream->ragged_q() ? "(long long)head * total_q + s.sequence.q_start"
                             : "((long long)s.batch * heads_q + head) * s.sequence.seqlen_q",
        p.sink ? "visible" : "sum != 0.0f");
  }
  w.close();
}

std::string output_address(const DecodePlan& p) {
  return fmt::format(
      "o + {}({}s.sequence.q_start + packed / group) * o_stride_seq + (s.kv_head * group + packed % group) * "
      "o_stride_head",
      p.stream->ragged_q() ? "" : "s.batch * o_stride_batch + ",
      p.separate ? "(long long)s.part * total_q + " : "");
}

namespace {

constexpr int kAhead = 16;  // parts in flight at once: one way to L2 and back for most items

void sync(Writer& w, const DecodePlan& p) {
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
}

/// Rows of floats leave as the accumulators hold them. Columns past the last are none.
void emit_output_floats(Writer& w, const DecodePlan& p) {
  const auto at = [&](const std::string& row, const std::string& column) {
    w.line("const int packed = s.m_block * {} + {};", p.BM, row);
    w.line("float* const at = {} + {};", output_address(p), column);
  };
  const auto there = [&](const std::string& column, int from, int columns) {
    return from + columns <= p.ov_depth ? "" : fmt::format("if ({} + {} < {}) ", column, from, p.ov_depth);
  };
  for (int h = 0; p.upright && h < 2; ++h) {
    const std::string row = fmt::format("(16 * warp + {} + (lane >> 2))", 8 * h);
    const std::string half = p.warpgroups > 1 ? fmt::format("half * {} + ", p.ov_columns()) : "";
    w.open("if ({} < rows)", row);
    at(row, half + "2 * (lane & 3)");
    for (int i = 2 * h; i < p.ov_columns() / 2; i += 4) {
      const int column = 2 * (i - 2 * h);
      w.line(
          "{}{}", p.padded_ov() == p.ov_depth ? "" : fmt::format("if ({}{} < {}) ", half, column, p.ov_depth),
          store_two(DType::f32, fmt::format("at + {}", column), fmt::format("o_acc[{}] * inv_sum[{}]", i, h),
                    fmt::format("o_acc[{}] * inv_sum[{}]", i + 1, h)));
    }
    w.close();
  }
  const char* lane_column = p.narrow ? "16 * warp + 2 * (lane >> 2)" : "16 * warp + (lane >> 2)";
  for (int c = 0; !p.upright && c < p.columns(); ++c) {
    const std::string row = fmt::format("({} + 2 * (lane & 3))", row_of(c));
    w.open("if ({} < rows)", row);
    at(row, lane_column);
    const int a = 4 * (c / 2) + c % 2;
    for (int j = 0; j < p.out_blocks(); ++j) {
      const auto value = [&](int r) { return fmt::format("o_acc_{}[{}] * inv_sum[{}]", j, r, c); };
      if (p.narrow) {
        w.line("{}{}", there(lane_column, 64 * j, 64),
               store_two(DType::f32, fmt::format("at + {}", 64 * j), value(a), value(a + 2)));
        continue;
      }
      for (int e = 0; e < 2; ++e)
        w.line("{}at[{}] = {};", there(lane_column, 64 * j + 8 * e, 64 - 8 * e), 64 * j + 8 * e,
               value(a + 2 * e));
    }
    w.close();
  }
}

/// Whether V of some key has made a column of O NaN or infinite: that of all rows.
void emit_look(Writer& w, const DecodePlan& p) {
  std::vector<std::string> elements;
  if (p.upright) elements = HiddenValues::first_rows("o_acc", p.ov_columns() / 2);
  for (int j = 0; !p.upright && j < p.out_blocks(); ++j)
    for (int r : {0, 2}) elements.push_back(fmt::format("o_acc_{}[{}]", j, r));
  HiddenValues::emit_look(w, elements, "odd");
}

void emit_repair(Writer& w, const DecodePlan& p) {
  HiddenValues::Packed packed{fmt::format("s.m_block * {}", p.BM), 4 * p.warpgroups, p.BN};
  if (p.warpgroups > 1) packed.warp = "((int)threadIdx.x / 32)";
  const HiddenValues::Place place = HiddenValues::place_of(p.config, HiddenValues::names_of_item(), packed);
  p.hidden->emit_block_repair(w, place, fmt::format("*(int*)(smem_bytes + {})", p.smem_flag + 4),
                              fmt::format("named_barrier_sync(1, {});", p.consumer_threads()));
}

void emit_whole(Writer& w, const DecodePlan& p) {
  if (p.hidden) emit_look(w, p);
  w.comment("the whole item{}",
            p.o_floats() ? "" : ": through shared memory, so that rows leave in 16-byte words");
  w.line("float inv_sum[{}];", p.upright ? 2 : p.columns());
  for (int h = 0; p.upright && h < 2; ++h)
    emit_finish_row(w, p, fmt::format("(16 * warp + {} + (lane >> 2))", 8 * h), fmt::format("row_max_{}", h),
                    fmt::format("row_sum_{}", h), fmt::format("inv_sum[{}]", h),
                    p.warpgroups > 1 ? "half == 0 && (lane & 3) == 0 && " : "(lane & 3) == 0 && ");
  for (int c = 0; !p.upright && c < p.columns(); ++c) {
    const std::string row = fmt::format("{} + 2 * (lane & 3)", row_of(c));
    emit_finish_row(w, p, "(" + row + ")", fmt::format("row_max[{}]", c), fmt::format("row_sum[{}]", c),
                    fmt::format("inv_sum[{}]", c), "threadIdx.x < 4 && ");
  }
  if (p.o_floats()) return emit_output_floats(w, p);
  if (p.narrow) emit_output_narrow(w, p);
  if (p.o_in_q()) sync(w, p);  // all products with Q are done
  if (p.upright) emit_upright_output(w, p);
  for (int j = 0; !p.narrow && !p.upright && j < p.out_blocks(); ++j)
    emit_transposed(w, p, fmt::format("smem_o + {} + transposed_at", j * p.BM * 128),
                    fmt::format("o_acc_{}", j), pack_of(*p.config.out_dtype), "inv_sum");
  sync(w, p);
  const int chunks = p.ov_depth / 8;
  w.line("#pragma unroll 1");
  w.open("for (int i = threadIdx.x; i < rows * {}; i += {})", chunks, p.consumer_threads());
  w.line("const int r = i / {0}, c = i % {0}, packed = s.m_block * {1} + r;", chunks, p.BM);
  w.line("copy_16_bytes({} + 8 * c, smem_o + (c / 8) * {} + r * 128 + (((c % 8) ^ (r % 8)) << 4));",
         output_address(p), p.BM * 128);
  w.close();
  if (p.o_in_q() && !p.keeps_chunks()) sync(w, p);  // Q's rows are free
}

void emit_part(Writer& w, const DecodePlan& p) {
  w.comment("this block's part");
  w.line("float* const part = {};", p.stream->part(p.partial_floats()));
  if (p.shares_combine()) emit_shared_part(w, p);
  if (p.upright && !p.shares_combine()) emit_upright_part(w, p);
  for (int c = 0; !p.upright && c < p.columns(); ++c) {
    w.open("if ({} + 2 * (lane & 3) < rows)", row_of(c));
    w.line("float* const at = part + ({} + 2 * (lane & 3)) * {} + 16 * warp + {};", row_of(c), p.padded_ov(),
           p.narrow ? "2 * (lane >> 2)" : "(lane >> 2)");
    const int a = 4 * (c / 2) + c % 2;
    for (int j = 0; j < p.out_blocks(); ++j) {
      if (p.narrow) {
        w.line("*(float2*)(at + {0}) = make_float2(o_acc_{1}[{2}], o_acc_{1}[{3}]);", 64 * j, j, a, a + 2);
      } else {
        w.line("at[{}] = o_acc_{}[{}]; at[{}] = o_acc_{}[{}];", 64 * j, j, a, 64 * j + 8, j, a + 2);
      }
    }
    w.line(
        "if (threadIdx.x < 4) *(float2*)(part + {} + 2 * ({} + 2 * lane)) = make_float2(row_max[{}], "
        "row_sum[{}]);",
        p.BM * p.padded_ov(), row_of(c), c, c);
    w.close();
  }
  sync(w, p);
  w.line("const Split split = split_of(range, s);");
  if (p.shares_combine()) return emit_shared_arrival(w, p);
  w.line("if (threadIdx.x == 0) *arrivals_before = atomic_add_acq_rel(item_counters + s.item, 1);");
  sync(w, p);
}

void emit_add_weighted(Writer& w, const std::string& o) {
  w.line("sum.x += w * {0}.x; sum.y += w * {0}.y; sum.z += w * {0}.z; sum.w += w * {0}.w;", o);
}

/// Four columns of a row, from `sum`.
void emit_store_sum(Writer& w, const DecodePlan& p) {
  if (p.hidden) HiddenValues::emit_look_at(w, "sum");
  w.line("const int packed = s.m_block * {} + row;", p.BM);
  w.line("{}", store_four(*p.config.out_dtype, output_address(p) + " + 4 * c", "sum.x * row_inverse",
                          "sum.y * row_inverse", "sum.z * row_inverse", "sum.w * row_inverse"));
}

/// How the block that adds up parts shares rows among lanes: many rows go four to a warp at once, so that their loads
/// and shuffles overlap.
struct Combine {
  const DecodePlan& p;
  int quads = p.ov_depth / 4, at_once = p.upright ? 4 : 1, lanes = 32 / at_once;
  int in_flight = p.upright ? 2 * kAhead : kAhead, ahead = in_flight / at_once;

  /// `many` where a warp has several rows, filled with the lanes of one.
  std::string rows(const char* many, const char* one = "") const {
    return at_once > 1 ? fmt::format(fmt::runtime(many), lanes) : one;
  }
};

void emit_first_parts(Writer& w, const Combine& c) {
  w.comment("the first parts are on their way while the rows' maxima are found");
  w.line("float4 ahead[{}];", c.in_flight);
  w.line("#pragma unroll");
  w.open("for (int j = 0; j < {}; ++j)", c.in_flight);
  w.line("const int i = j % {0}, row = r + j / {0};", c.ahead);
  w.line("ahead[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  w.line("if (i < split.parts{}{}) ahead[j] = __ldcg((const float4*)({} + row * {} + 4 * c));",
         c.rows(" && row < rows"), c.quads % 32 != 0 ? fmt::format(" && c < {}", c.quads) : "",
         part_of_item("i"), c.p.padded_ov());
  w.close();
}

/// Maximum and sum of a row over all parts, and the weight of each of the first.
void emit_row_weights(Writer& w, const Combine& c) {
  w.open("if (c == lane)");
  w.comment("maximum and sum of a row over all parts: a part a lane");
  w.line("const int row = {};", c.rows("min(r + lane / {}, rows - 1)", "r"));
  w.line("float top = -kInfinity, sum = 0.0f, first = -kInfinity;");
  w.line("#pragma unroll 1");
  w.open("for (int i = lane % {0}; i < split.parts; i += {0})", c.lanes);
  w.line("const float2 other = __ldcg((const float2*)({} + {} + 2 * row));", part_of_item("i"),
         c.p.BM * c.p.padded_ov());
  w.line("if (i < {}) first = other.x;", c.lanes);
  w.line("const float higher = fmaxf(top, other.x);");
  w.line(
      "sum = sum * rescale_factor(top, higher, factor) + other.y * rescale_factor(other.x, higher, factor);");
  w.line("top = higher;");
  w.close();
  w.line("all = top;");
  w.line(
      "for (int step = {}; step > 0; step /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, step));",
      c.lanes / 2);
  w.line("sum *= rescale_factor(top, all, factor);");
  w.line("for (int step = {}; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);",
         c.lanes / 2);
  w.line("const float total = sum;");
  emit_finish_row(w, c.p, "row", "all", "total", "inverse",
                  c.rows("lane % {0} == 0 && r + lane / {0} < rows && ", "lane == 0 && "));
  w.line("weight = rescale_factor(first, all, factor);");
  w.close();
}

/// Row `g` of the warp's: its parts times their weights.
void emit_weighted_row(Writer& w, const Combine& c, int g) {
  w.open("");
  w.line("const int row = r + {};", g);
  w.line("const float row_top = __shfl_sync(0xffffffffu, all, {0});", g * c.lanes);
  w.line("const float row_inverse = __shfl_sync(0xffffffffu, inverse, {0});", g * c.lanes);
  w.line("float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  w.line("#pragma unroll");
  w.open("for (int i = 0; i < {}; ++i)", c.ahead);
  w.line("const float w = __shfl_sync(0xffffffffu, weight, {} + i);", g * c.lanes);
  emit_add_weighted(w, fmt::format("ahead[{} + i]", g * c.ahead));
  w.close();
  w.open("if (row < rows && c < {})", c.quads);
  w.line("#pragma unroll 8");  // in registers
  w.open("for (int i = {}; i < split.parts; ++i)", c.ahead);
  w.line("const float* const other = parts + i * stride;");
  w.line("const float4 o = __ldcg((const float4*)(other + row * {} + 4 * c));", c.p.padded_ov());
  w.line("const float w = rescale_factor(__ldcg(other + {} + 2 * row), row_top, factor);",
         c.p.BM * c.p.padded_ov());
  emit_add_weighted(w, "o");
  w.close();
  emit_store_sum(w, c.p);
  w.close();
  w.close();
}

void emit_combine(Writer& w, const DecodePlan& p) {
  const Combine c{p};
  w.comment("the last block of the item adds the parts up, in order, and leaves the counter as it was found");
  w.line("if (threadIdx.x == 0) item_counters[s.item] = 0;");
  p.stream->emit_parts(w, p.partial_floats());
  w.line("#pragma unroll 1");
  w.open("for (int r = {}{}; r < rows; r += {})", c.at_once > 1 ? fmt::format("{} * ", c.at_once) : "",
         "warp", 4 * c.at_once);
  w.line("float all = -kInfinity, inverse = 0.0f, weight = 0.0f;  // of a row; lane i: weight of part i{}",
         c.rows(" % {0} of row r + i / {0}"));
  w.line("#pragma unroll 1");
  w.open("for (int c = lane; c - lane < {}; c += 32)", c.quads);
  emit_first_parts(w, c);
  emit_row_weights(w, c);
  for (int g = 0; g < c.at_once; ++g) emit_weighted_row(w, c, g);
  w.close();
  w.close();
}

}  // namespace

void emit_decode_epilogue(Writer& w, const DecodePlan& p) {
  w.banner("row sums over the lanes and warps");
  if (p.upright) {
    emit_upright_sums(w);
    if (p.seesaw) emit_seesaw_sums(w, p);
  } else {
    for (int step : {4, 8, 16})
      for (int c = 0; c < p.columns(); ++c)
        w.line("row_sum[{0}] += __shfl_xor_sync(0xffffffffu, row_sum[{0}], {1});", c, step);
    w.open("if (lane < 4)");
    for (int c = 0; c < p.columns(); c += 2)
      w.line("*(float2*)(row_exchange + warp * {} + {} + 2 * lane) = make_float2(row_sum[{}], row_sum[{}]);",
             p.BM, row_of(c), c, c + 1);
    w.close();
    sync(w, p);
    for (int c = 0; c < p.columns(); ++c)
      w.line(
          "row_sum[{0}] = row_exchange[{1} + 2 * (lane & 3)] + row_exchange[{2} + 2 * (lane & 3)] + "
          "row_exchange[{3} + 2 * (lane & 3)] + row_exchange[{4} + 2 * (lane & 3)];",
          c, row_of(c), p.BM + row_of(c), 2 * p.BM + row_of(c), 3 * p.BM + row_of(c));
  }
  w.banner("output");
  if (p.hidden) w.line("bool odd = false;  // some column of O is not finite");
  w.open("if (s.whole)");
  emit_whole(w, p);
  if (p.stream->splits()) {
    w.reopen("else");
    emit_part(w, p);
    if (p.shares_combine()) {
      emit_shared_combine(w, p);
    } else {
      w.open("if (*arrivals_before == split.parts - 1)");
      emit_combine(w, p);
      w.close();
    }
  }
  w.close();
  if (p.hidden) emit_repair(w, p);
}

}  // namespace kiln::sm90
