// The end of a segment of cdna_decode_streaming and cdna_decode. A whole item is written at once. Of a split
// item each block leaves a part
//
//   part: O' not yet divided by the sum, [BM][ov] floats, then (maximum, sum) of each row
//
// in its workspace and arrives at the item's counter; the last one to arrive adds all parts up, in their
// order.
#include "generator/schedules/cdna_decode/plan.hpp"

namespace kiln::cdna {
namespace {

/// Maximum `top` and sum `sum` of packed row `packed` in (both change), `own` factor of the values out; the
/// log-sum-exp is written where `writer` holds. `exists`: the row is one of the item's.
void emit_finish_row(Writer& w, const DecodePlan& p, const std::string& packed, const std::string& exists,
                     const std::string& writer) {
  if (p.results.sink()) {
    w.comment("the sink is one more logit, without a value; a row that sees no key has no use for it");
    w.open("if (sum != 0.0f)");
    w.line("const float logit = {} ? sink[kv_head * group + {} % group] : 0.0f;", exists, packed);
    w.line("const float higher = maximum(top, logit);");
    w.line("own = top == higher ? 1.0f : exp2_approx((top - higher) * 1.44269504f);");
    w.line("sum = sum * own + (logit == higher ? 1.0f : exp2_approx((logit - higher) * 1.44269504f));");
    w.line("top = higher;");
    w.close();
  }
  if (p.results.lse()) {
    w.line(
        "if ({0}) lse[{1} + {2} / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;",
        writer,
        p.ragged_q()
            ? fmt::format("(long long)(kv_head * group + {} % group) * total_q + q_start", packed)
            : fmt::format("((long long)batch_index * heads_q + kv_head * group + {} % group) * queries",
                          packed),
        packed);
  }
}

/// What sums of P are relative to in natural units, of row maximum `maximum`. A logit near the largest float
/// is none in log2 units.
std::string natural(const DecodePlan& p, const char* maximum) {
  const std::string top = fmt::format("{} * (factor * 0.693147181f)", maximum);
  return p.p_shift() == 0 ? top : fmt::format("{} - {:.9g}f", top, p.p_shift() * 0.693147180559945);
}
std::string unit(const DecodePlan& p) {
  return p.scales ? " * v_unit" : "";
}

void emit_sums(Writer& w, const DecodePlan& p) {
  w.banner("row sums over the lane groups and waves");
  for (int distance = p.mfma.shape.m; distance < 64; distance *= 2)
    w.line("row_sum += from_lane((lane ^ {}) * 4, row_sum);", distance);
  w.comment("the last tile's readers of the exchange have passed the barrier after P");
  emit_to_waves(w, p, "row_sum");
  w.line("row_sum = 0.0f;");
  for (int i = 0; i < p.warps_n(); ++i)
    w.line("row_sum += lds_read_float(exchange + {} + {} * 4);", 4 * p.BM * i, p.tile_row());
}

/// Whether V of some key has made a column of O NaN or infinite: that of all rows.
void emit_look(Writer& w, const DecodePlan& p) {
  std::vector<std::string> elements;
  for (int i = 0; i < p.output_tiles(); ++i)
    for (int e = 0; e < p.mfma.accum(); ++e) elements.push_back(fmt::format("o_acc[{}][{}]", i, e));
  p.hidden.emit_look(w, elements, "odd");
}

void emit_repair(Writer& w, const DecodePlan& p) {
  p.hidden.emit_block_repair(w, p.config,
                             {"batch_index", "", "kv_head", "q_start", "k_start", p.aligned_rows(), "keys"},
                             {fmt::format("m_block * {}", p.BM), p.num_warps, p.BN}, p.odd_flag(), "SYNC();");
}

void emit_whole(Writer& w, const DecodePlan& p) {
  emit_look(w, p);
  w.line("float top = {}, sum = row_sum, own = 1.0f;", natural(p, "row_max"));
  emit_finish_row(w, p, "packed", "in_rows",
                  fmt::format("in_rows && {} == 0 && {}", p.warp_n(), p.first_group()));
  w.line("const float inv_sum = sum != 0.0f ? own * rcp_approx(sum){} : 0.0f;", unit(p));
  p.q->emit_store(
      w, "o_head",
      fmt::format(
          "queries > 0 ? (int)(((queries - 1) * o_stride_seq + (group - 1) * o_stride_head + {}) * {}) : 0",
          p.ov_depth, p.o_bytes()),
      fmt::format("in_rows ? (u32)((position * o_stride_seq + packed % group * o_stride_head + {} * "
                  "{}) * {}) : 0x80000000u",
                  p.warp_n(), p.wave_step, p.o_bytes()));
}

void emit_part(Writer& w, const DecodePlan& p) {
  w.comment("this block's part");
  w.line("float* const part = {};", p.stream->part(p.partial_floats()));
  w.open("if (in_rows)");
  w.line("float* const at = part + {} * {} + {} * {};", p.tile_row(), p.ov_columns, p.warp_n(), p.wave_step);
  for (const ColumnGroup& group : p.columns) {
    for (int e = 0; e < p.mfma.accum(); e += 4) {
      // Registers e .. e + 3 of `width` fragments: 4 * width neighbouring columns.
      std::vector<std::string> values;
      for (int r = e; r < e + 4; ++r) {
        for (int f = 0; f < group.width; ++f)
          values.push_back(fmt::format("o_acc[{}][{}]", group.mma + f, r));
      }
      for (std::size_t i = 0; i < values.size(); i += 4)
        w.line("store_global_16(at + {} + lane / {} * {}, f32x4{{{}, {}, {}, {}}});",
               group.first + group.width * p.mfma.row(e) + static_cast<int>(i), p.mfma.shape.m,
               4 * group.width, values[i], values[i + 1], values[i + 2], values[i + 3]);
    }
  }
  w.line("if ({1} == 0 && {3}) part[{0} + 2 * {2}] = row_max, part[{0} + 2 * {2} + 1] = row_sum;",
         p.BM * p.ov_columns, p.warp_n(), p.warps_m() == 1 ? "lane" : "tile_row", p.first_group());
  w.close();
  w.line("release_to_device();");
  w.line("WAIT_LOADS_AND_SYNC(0);");
  w.line("if (thread == 0) *(LDS int*)(lds + {}) = arrive(item_counters + s.item);", p.smem_flag);
  w.line("SYNC();");
  w.line("const int arrived_before = uniform(*(const LDS int*)(lds + {}));", p.smem_flag);
}

void emit_combine(Writer& w, const DecodePlan& p) {
  w.comment("the last block of the item adds the parts up, in order, and leaves the counter as it was found");
  w.line("acquire_from_device();");
  w.line("if (thread == 0) item_counters[s.item] = 0;");
  p.stream->emit_parts(w, p.partial_floats());
  w.line("#pragma unroll 1");
  w.open("for (int r = warp; r < rows; r += {})", p.num_warps);
  w.comment("maximum and sum of a row over all parts: a part a lane");
  w.line("float high = -kInfinity, sum = 0.0f;");
  w.open("for (int i = lane; i < split.parts; i += 64)");
  w.line("const float* const other = parts + i * stride + (i == 0 ? shift : 0) + {} + 2 * r;",
         p.BM * p.ov_columns);
  w.line("const float higher = maximum(high, other[0]);");
  w.line(
      "sum = sum * rescale_factor(high, higher, factor) + other[1] * rescale_factor(other[0], higher, factor);");
  w.line("high = higher;");
  w.close();
  w.line("float all = high;");
  for (int step : {1, 2, 4, 8, 16, 32}) w.line("all = maximum(all, from_lane((lane ^ {}) * 4, all));", step);
  w.line("sum *= rescale_factor(high, all, factor);");
  for (int step : {1, 2, 4, 8, 16, 32}) w.line("sum += from_lane((lane ^ {}) * 4, sum);", step);
  w.line(
      "__asm volatile(\"\" : \"+v\"(sum));  // has arrived: lanes that do not use it go on to the next row");
  w.open("if (lane == 0)");
  w.line("const int row = m_block * {} + r;", p.BM);
  w.line("float top = {}, own = 1.0f;", natural(p, "all"));
  emit_finish_row(w, p, "row", "true", "true");
  w.line("lds_write_float(exchange + r * 8, all);");
  w.line("lds_write_float(exchange + r * 8 + 4, sum != 0.0f ? own * rcp_approx(sum){} : 0.0f);", unit(p));
  w.close();
  w.close();
  const int quads = p.ov_depth / 4;
  // With a row a wave each of them goes on with the rows it looked at.
  if (quads != 64) w.line("SYNC();");
  w.line("#pragma unroll 1");
  w.open("for (int i = thread; i < rows * {}; i += {})", quads, p.num_threads);
  w.line("const int r = i / {0}, c = i % {0}, row = m_block * {1} + r;", quads, p.BM);
  w.line("float all = lds_read_float(exchange + r * 8), inverse = lds_read_float(exchange + r * 8 + 4);");
  w.line(
      "__asm volatile(\"\" : \"+v\"(all), \"+v\"(inverse));  // waited for here, not once in and once after "
      "the loop");
  w.line("f32x4 sum = (f32x4)(0.0f);");
  w.open("for (int i = 0; i < split.parts; ++i)");
  w.line("const float* const other = parts + i * stride + (i == 0 ? shift : 0);");
  w.line("sum += load_global_16(other + r * {} + 4 * c) * rescale_factor(other[{} + 2 * r], all, factor);",
         p.ov_columns, p.BM * p.ov_columns);
  w.close();
  w.line("sum *= inverse;");
  p.hidden.emit_look_at(w, "sum");
  const std::string at = "(o_head + (row / group) * o_stride_seq + row % group * o_stride_head + 4 * c)";
  if (p.o_floats()) {
    w.line("*(f32x4*){} = sum;", at);
  } else {
    w.line("*(u32x2*){0} = u32x2{{{1}(sum.x, sum.y), {1}(sum.z, sum.w)}};", at,
           QTile::pack_of(*p.config.out_dtype));
  }
  w.close();
}

}  // namespace

void emit_decode_epilogue(Writer& w, const DecodePlan& p) {
  emit_sums(w, p);
  w.banner("output");
  p.hidden.emit_odd(w);
  w.open("if (uniform((int)s.whole))");
  emit_whole(w, p);
  if (p.stream->splits()) {
    w.reopen("else");
    emit_part(w, p);
    w.line("const Split split = split_of(range, s);");
    w.open("if (arrived_before == uniform(split.parts) - 1)");
    emit_combine(w, p);
    w.close();
  }
  w.close();
  emit_repair(w, p);
}

}  // namespace kiln::cdna
