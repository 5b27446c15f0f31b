// The end of a segment of sm90_decode. A whole item is written at once. Of a split item each block leaves a
// part
//
//   part: O' not yet divided by the sum, [BM][ov] floats, then (maximum, sum) of each row
//
// in its workspace and arrives at the item's counter; the last one to arrive adds all parts up, in their
// order, or all that are free do (shared_combine.cpp).
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {

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

void emit_finish_row(Writer& w, const Parts& parts, const std::string& row, const std::string& top,
                     const std::string& sum, const std::string& inverse, const std::string& writer) {
  const DecodePlan& p = parts.plan;
  w.open("");
  if (p.results.sink() || p.results.lse())
    w.line("const int packed = s.m_block * {} + {}, head = s.kv_head * group + packed % group;", p.BM, row);
  // In natural units: in log2 units a logit near the largest float is none.
  const std::string natural = top + " * (factor * 0.693147181f)";
  if (!p.results.sink())
    w.line("const float {}sum = {};", p.results.lse() ? fmt::format("top = {}, ", natural) : "", sum);
  if (p.results.sink()) {
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
  w.line("{} = sum != 0.0f ? {} / sum : 0.0f;", inverse,
         parts.scales->output_factor(p.results.sink() ? "own" : ""));
  if (p.results.lse()) {
    w.line(
        "if ({}{} < rows) lse[{}{} + packed / group] = {} ? top + log2_approx(sum) * 0.693147181f : "
        "-kInfinity;",
        writer, row, p.separate ? "(long long)s.part * heads_q * total_q + " : "",
        p.stream->ragged_q() ? "(long long)head * total_q + s.sequence.q_start"
                             : "((long long)s.batch * heads_q + head) * s.sequence.seqlen_q",
        p.results.sink() ? "visible" : "sum != 0.0f");
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

void emit_add_weighted(Writer& w, const std::string& o) {
  w.line("sum.x += w * {0}.x; sum.y += w * {0}.y; sum.z += w * {0}.z; sum.w += w * {0}.w;", o);
}

/// Four columns of a row, from `sum`.
void emit_store_sum(Writer& w, const DecodePlan& p) {
  p.hidden.emit_look_at(w, "sum");
  w.line("const int packed = s.m_block * {} + row;", p.BM);
  w.line("{}", store_four(*p.config.out_dtype, output_address(p) + " + 4 * c", "sum.x * row_inverse",
                          "sum.y * row_inverse", "sum.z * row_inverse", "sum.w * row_inverse"));
}

/// How the block that adds up parts shares rows among lanes: many rows go four to a warp at once, so that their loads
/// and shuffles overlap.
struct Combine {
  const Parts& parts;
  int at_once = 1;
  const DecodePlan& p = parts.plan;
  int quads = p.ov_depth / 4, lanes = 32 / at_once;
  int in_flight = at_once > 1 ? 2 * kAhead : kAhead, ahead = in_flight / at_once;

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
  emit_finish_row(w, c.parts, "row", "all", "total", "inverse",
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

}  // namespace

void Consumer::emit_combine(Writer& w) const {
  w.open("if (*arrivals_before == split.parts - 1)");
  const Combine c{parts_, combined_rows()};
  w.comment("the last block of the item adds the parts up, in order, and leaves the counter as it was found");
  w.line("if (threadIdx.x == 0) item_counters[s.item] = 0;");
  p_.stream->emit_parts(w, p_.partial_floats());
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
  w.close();
}

void Consumer::emit_repair(Writer& w) const {
  HiddenValues::Packed packed{fmt::format("s.m_block * {}", p_.BM), 4 * p_.warpgroups, p_.BN};
  if (p_.warpgroups > 1) packed.warp = "((int)threadIdx.x / 32)";
  p_.hidden.emit_block_repair(w, p_.config, HiddenValues::names_of_item(p_.stream->aligned_rows()), packed,
                              p_.odd_flag(),
                              fmt::format("named_barrier_sync(1, {});", p_.consumer_threads()));
}

void Consumer::emit_store_rows(Writer& w) const {
  emit_staged(w);
  sync(w);
  const int chunks = p_.ov_depth / 8;
  w.line("#pragma unroll 1");
  w.open("for (int i = threadIdx.x; i < rows * {}; i += {})", chunks, p_.consumer_threads());
  w.line("const int r = i / {0}, c = i % {0}, packed = s.m_block * {1} + r;", chunks, p_.BM);
  w.line("copy_16_bytes({} + 8 * c, smem_o + (c / 8) * {} + r * 128 + (((c % 8) ^ (r % 8)) << 4));",
         output_address(p_), p_.BM * 128);
  w.close();
  emit_staging_free(w);
}

void Consumer::emit_whole(Writer& w) const {
  // Whether V of some key has made a column of O NaN or infinite: that of all rows.
  p_.hidden.emit_look(w, first_rows(), "odd");
  w.comment("the whole item{}",
            p_.o_floats() ? "" : ": through shared memory, so that rows leave in 16-byte words");
  emit_finish_rows(w);
  p_.o_floats() ? emit_floats(w) : emit_store_rows(w);
}

void Consumer::emit_arrival(Writer& w) const {
  w.line("if (threadIdx.x == 0) *arrivals_before = atomic_add_acq_rel(item_counters + s.item, 1);");
  sync(w);
}

void Consumer::emit_split(Writer& w) const {
  w.comment("this block's part");
  w.line("float* const part = {};", p_.stream->part(p_.partial_floats()));
  emit_part(w);
  sync(w);
  w.line("const Split split = split_of(range, s);");
  emit_arrival(w);
  emit_combine(w);
}

void Consumer::emit_epilogue(Writer& w) const {
  w.banner("row sums over the lanes and warps");
  emit_row_sums(w);
  w.banner("output");
  p_.hidden.emit_odd(w);
  w.open("if (s.whole)");
  emit_whole(w);
  if (p_.stream->splits()) {
    w.reopen("else");
    emit_split(w);
  }
  w.close();
  emit_repair(w);
}

}  // namespace kiln::sm90
