// The sum of an item's parts, row by row: by the last block to arrive, or by all that have nothing else to do
// (share_parts in templates/sm90.cuh), each some of the rows. One block alone takes as long for 16 parts of 32 rows as
// for a third of the keys between two of them (bench/NOTES.md 179).
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {
namespace {

constexpr int kAhead = 16;   ///< parts in flight at once: one way to L2 and back for most items
constexpr int kFewRows = 4;  ///< one block adds up so many as fast as several

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

/// How a block that adds up parts shares rows among lanes: many rows go four or eight to a warp at once, so that their
/// loads and shuffles overlap.
struct RowSums {
  const Parts& parts;
  int at_once = 1;
  std::string first = "0", end = "rows";  ///< rows of this block
  const DecodePlan& p = parts.plan;
  int quads = p.ov_depth / 4, lanes = 32 / at_once;
  int in_flight = at_once > 4 ? 3 * kAhead / 2 : kAhead, ahead = in_flight / at_once;

  /// `many` where a warp has several rows, filled with the lanes of one.
  std::string rows(const std::string& many, const char* one = "") const {
    return at_once > 1 ? fmt::format(fmt::runtime(many), lanes) : one;
  }
};

void emit_first_parts(Writer& w, const RowSums& c) {
  w.comment("the first parts are on their way while the rows' maxima are found");
  w.line("float4 ahead[{}];", c.in_flight);
  w.line("#pragma unroll");
  w.open("for (int j = 0; j < {}; ++j)", c.in_flight);
  w.line("const int i = j % {0}, row = r + j / {0};", c.ahead);
  w.line("ahead[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  w.line("if (i < split.parts{}{}) ahead[j] = __ldcg((const float4*)({} + row * {} + 4 * c));",
         c.rows(" && row < " + c.end), c.quads % 32 != 0 ? fmt::format(" && c < {}", c.quads) : "",
         part_of_item("i"), c.p.padded_ov());
  w.close();
}

/// Maximum and sum of a row over all parts, and the weight of each of the first.
void emit_row_weights(Writer& w, const RowSums& c) {
  w.open("if (c == lane)");
  w.comment("maximum and sum of a row over all parts: a part a lane");
  w.line("const int row = {};", c.rows("min(r + lane / {}, " + c.end + " - 1)", "r"));
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
                  c.rows("lane % {0} == 0 && r + lane / {0} < " + c.end + " && ", "lane == 0 && "));
  w.line("weight = rescale_factor(first, all, factor);");
  w.close();
}

/// The warp's rows: their parts times their weights.
void emit_weighted_rows(Writer& w, const RowSums& c) {
  if (c.at_once > 1) {
    w.line("#pragma unroll");
    w.open("for (int g = 0; g < {}; ++g)", c.at_once);
    w.line("const int row = r + g, lead = {} * g;", c.lanes);
  } else {
    w.open("");
    w.line("const int row = r;");
  }
  w.line("const float row_top = __shfl_sync(0xffffffffu, all, {});", c.rows("lead", "0"));
  w.line("const float row_inverse = __shfl_sync(0xffffffffu, inverse, {});", c.rows("lead", "0"));
  w.line("float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  w.line("#pragma unroll");
  w.open("for (int i = 0; i < {}; ++i)", c.ahead);
  w.line("const float w = __shfl_sync(0xffffffffu, weight, {}i);", c.rows("lead + "));
  emit_add_weighted(w, c.at_once > 1 ? fmt::format("ahead[{} * g + i]", c.ahead) : "ahead[i]");
  w.close();
  w.open("if (row < {} && c < {})", c.end, c.quads);
  w.line("#pragma unroll {}", c.ahead);  // in registers
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

/// The rows `first` to `end`, `at_once` a warp.
void emit_rows(Writer& w, const RowSums& c) {
  const std::string warps = c.at_once > 1 ? fmt::format("{} * warp", c.at_once) : "warp";
  w.line("#pragma unroll 1");
  w.open("for (int r = {}{}; r < {}; r += {})", c.first == "0" ? "" : c.first + " + ", warps, c.end,
         4 * c.at_once);
  w.line("float all = -kInfinity, inverse = 0.0f, weight = 0.0f;  // of a row; lane i: weight of part i{}",
         c.rows(" % {0} of row r + i / {0}"));
  w.line("#pragma unroll 1");
  w.open("for (int c = lane; c - lane < {}; c += 32)", c.quads);
  emit_first_parts(w, c);
  emit_row_weights(w, c);
  emit_weighted_rows(w, c);
  w.close();
  w.close();
}

/// Where sharing pays: a block alone has more than its warps ask for at once, by several ways to L2 and back.
std::string worth_sharing(const RowSums& all) {
  const std::string much = all.at_once > 1 ? fmt::format("split.parts > {}", all.ahead)
                                           : fmt::format("rows * split.parts > {}", 4 * kAhead);
  return fmt::format("rows > {} && {} && ", kFewRows, much);
}

/// Its share by each block that has nothing else to do; all rows by one where it has their few parts on their way at once.
void emit_shares_of_rows(Writer& w, const RowSums& all) {
  const DecodePlan& p = all.p;
  emit_share(w, p, worth_sharing(all));
  emit_know(w);
  w.open("if (share >= 0)");
  w.comment("the parts are added up in their order; this block has these rows");
  w.line("const int rows_each = (rows + shares - 1) / shares;");
  if (!p.hidden.on()) w.line("int own_first, own_rows;");
  w.line("own_first = min(share * rows_each, rows), own_rows = min(rows_each, rows - own_first);");
  p.stream->emit_parts(w, p.partial_floats());
  if (all.at_once > 1) {
    w.open("if (split.parts <= {})", all.ahead);
    emit_rows(w, all);
    w.reopen("else");
  }
  w.line("const int own_end = own_first + own_rows;");
  emit_rows(w, {all.parts, 1, "own_first", "own_end"});
  if (all.at_once > 1) w.close();
  w.close();
  emit_leave(w);
}

}  // namespace

void Consumer::emit_sum_of_parts(Writer& w) const {
  // Past 128 columns the state of a row group leaves too few registers (bench/NOTES.md 179).
  const bool many = p_.BM >= 16 && !p_.narrow && p_.padded_ov() <= 128;
  emit_shares_of_rows(w, {parts_, !many ? 1 : p_.upright ? 8 : 4});
}

void emit_share(Writer& w, const DecodePlan& p, const std::string& worth) {
  // Where work is handed out in cells there may be more to do.
  w.line("const bool waits = {}range.position >= range.end{};", worth,
         p.stream->dynamic() ? " && range.cells <= range.teams" : "");
  w.line("if (threadIdx.x == 0) share_parts(item_counters + s.item, split.parts, waits, own_share);");
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
  w.line("const int share = own_share[0], shares = own_share[1];");
}

void emit_know(Writer& w) {
  w.line("int known_before = -1;");
  w.line(
      "if (threadIdx.x == 0 && own_share[2] > 0) known_before = atomicAdd(item_counters + s.item, kKnowing);");
}

void emit_leave(Writer& w) {
  w.comment("the last block that knows leaves the counter as it was found");
  w.line(
      "if (threadIdx.x == 0 && own_share[2] > 0 && knows_last(known_before, own_share[2])) "
      "atomicExch(item_counters + s.item, 0);");
}

}  // namespace kiln::sm90
