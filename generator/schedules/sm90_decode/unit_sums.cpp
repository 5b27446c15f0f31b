// Parts of many columns, added up by all blocks that have arrived and have nothing else to do: one block alone takes
// as long for a part of 64 rows of 512 floats as for two tiles of keys (bench/NOTES.md 118).
//
// A part lies in the workspace as the registers hold it, 16 bytes a lane: a unit is what a warp stores at once, 8 rows
// of 16 columns, and what a warp adds up at once. Behind the units are (maximum, sum) of each row.
//
// The counter of an item has three fields: blocks that left a part, slices of units that were claimed, and blocks that
// are done with the item. A block whose range ends with the part waits for the others for a bounded number of looks,
// so that no block depends on another's being resident; the last to arrive waits for nobody and claims whatever slices
// are left. Who adds up a slice does not show in the result: parts are added in their order. The last block that is
// done leaves the counter as it was found.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

constexpr int kLooks = 96;      ///< at a counter, 0.7 us each on a H200
constexpr int kFieldBits = 10;  ///< arrivals; claims have one more, blocks done the rest
constexpr int kClaims = 1 << kFieldBits, kDone = 1 << (2 * kFieldBits + 1);
constexpr unsigned kOdd = 1u << 31;  ///< some column of O is not finite: one bit past the blocks done
constexpr int kInFlight = 16;        ///< loads of a lane at once
constexpr int kFewParts = 8;
constexpr int kAtOnce = 4;  ///< parts of a lane whose maxima are loaded at once
constexpr int kMostSlices = 64;

/// Units of 8 rows.
int units_of_rows(const DecodePlan& p) {
  return p.padded_ov() / 16;
}

/// Weights of all parts for the slice's rows, divided by the rows' sums, to `weights`; and log-sum-exps. Of few parts
/// a warp takes several rows at once.
void emit_weights(Writer& w, const Parts& parts) {
  const DecodePlan& p = parts.plan;
  const auto pair = [&](const std::string& i) {
    return fmt::format("__ldcg((const float2*)({} + {} + 2 * row))", part_of_item(i), p.BM * p.padded_ov());
  };
  w.comment("weights of the parts of each row: of up to {} parts four rows a warp at once", kFewParts);
  w.line("const int width = split.parts <= {} ? {} : 32, of_row = lane % width, rows_each = 32 / width;",
         kFewParts, kFewParts);
  w.line("#pragma unroll 1");
  w.open("for (int at = thread / 32 * rows_each; at < 8 * row_groups; at += {} * rows_each)",
         4 * p.warpgroups);
  w.line("const int r = at + lane / width, row = 8 * (begin / {}) + r;", units_of_rows(p));
  w.line("float2 first[{}];", kAtOnce);
  w.line("float top = -kInfinity, sum = 0.0f;");
  w.line("#pragma unroll");
  w.open("for (int j = 0; j < {}; ++j)", kAtOnce);
  w.line("const int i = of_row + width * j;");
  w.line("first[j] = i < split.parts ? {} : make_float2(-kInfinity, 0.0f);", pair("i"));
  w.line("top = fmaxf(top, first[j].x);");
  w.close();
  w.line("#pragma unroll 1");
  w.line("for (int i = of_row + {} * width; i < split.parts; i += width) top = fmaxf(top, {}.x);", kAtOnce,
         pair("i"));
  w.line("float all = top, inverse = 0.0f;");
  w.line(
      "for (int step = width / 2; step > 0; step /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, "
      "step));");
  w.line("#pragma unroll");
  w.line("for (int j = 0; j < {}; ++j) sum += first[j].y * rescale_factor(first[j].x, all, factor);",
         kAtOnce);
  w.line("#pragma unroll 1");
  w.open("for (int i = of_row + {} * width; i < split.parts; i += width)", kAtOnce);
  w.line("const float2 other = {};", pair("i"));
  w.line("sum += other.y * rescale_factor(other.x, all, factor);");
  w.close();
  w.line("for (int step = width / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);");
  w.line("const float total = sum;");
  emit_finish_row(w, parts, "row", "all", "total", "inverse",
                  fmt::format("of_row == 0 && begin % {} == 0 && ", units_of_rows(p)));
  w.line("#pragma unroll");
  w.open("for (int j = 0; j < {}; ++j)", kAtOnce);
  w.line("const int i = of_row + width * j;");
  w.line(
      "if (i < split.parts) weights[r * split.parts + i] = rescale_factor(first[j].x, all, factor) * inverse;");
  w.close();
  w.line("#pragma unroll 1");
  w.line(
      "for (int i = of_row + {} * width; i < split.parts; i += width) weights[r * split.parts + i] = "
      "rescale_factor({}.x, all, factor) * inverse;",
      kAtOnce, pair("i"));
  w.close();
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
}

/// The sums of the slice's units, `units` of them a warp at once; of each, `parts` are on their way at once.
void emit_units(Writer& w, const DecodePlan& p, int units, int parts) {
  const int columns = units_of_rows(p), of_half = columns / 2;
  w.line("#pragma unroll 1");
  w.open("for (int first = begin + thread / 32 * {0}; first < end; first += {1} * {0})", units,
         4 * p.warpgroups);
  w.line("float4 sums[{}];", units);
  w.line("#pragma unroll");
  w.line("for (int u = 0; u < {}; ++u) sums[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);", units);
  w.line("#pragma unroll 1");
  w.open("for (int base = 0; base < split.parts; base += {})", parts);
  w.line("float4 x[{}];", units * parts);
  w.line("#pragma unroll");
  w.open("for (int u = 0; u < {}; ++u)", units);
  w.line("const int unit = first + u, rows_8 = unit / {0}, c = unit % {0};", columns);
  w.line("const int at = ((c / {0} * 4 + rows_8 / 2) * {1} + c % {0} * 2 + rows_8 % 2) * 128 + 4 * lane;",
         of_half, columns);
  w.line("#pragma unroll");
  w.open("for (int j = 0; j < {}; ++j)", parts);
  w.line("const int i = base + j;");
  w.line(
      "x[u * {} + j] = i < split.parts{} ? __ldcg((const float4*)({} + at)) : make_float4(0.0f, 0.0f, 0.0f, "
      "0.0f);",
      parts, units > 1 ? " && unit < end" : "", part_of_item("i"));
  w.close();
  w.close();
  w.line("#pragma unroll");
  w.open("for (int u = 0; u < {}; ++u)", units);
  w.line("const int row = 8 * ((first + u) / {}) + (lane >> 2);", columns);
  w.line("const float* const row_weights = weights + (row - 8 * (begin / {})) * split.parts;", columns);
  w.line("#pragma unroll");
  w.open("for (int j = 0; j < {}; ++j)", parts);
  w.line("const float w = row_weights[min(base + j, split.parts - 1)];");
  w.line("const float4 other = x[u * {} + j];", parts);
  w.line(
      "sums[u].x += w * other.x; sums[u].y += w * other.y; sums[u].z += w * other.z; sums[u].w += w * other.w;");
  w.close();
  w.close();
  w.close();
  w.line("#pragma unroll");
  w.open("for (int u = 0; u < {}; ++u)", units);
  w.line(
      "const int unit = first + u, row = 8 * (unit / {0}) + (lane >> 2), column = unit % {0} * 16 + 2 * (lane & 3);",
      columns);
  w.line("const int packed = s.m_block * {} + row;", p.BM);
  const bool whole = p.padded_ov() == p.ov_depth;
  p.hidden.emit_look_at(w, "sums[u]");
  for (int e = 0; e < 2; ++e)
    w.line(
        "if (row < rows{}{}) {};", units > 1 ? " && unit < end" : "",
        whole ? "" : fmt::format(" && column + {} < {}", 8 * e, p.ov_depth),
        fmt::format("{{ {} }}",
                    store_two(*p.config.out_dtype, fmt::format("{} + column + {}", output_address(p), 8 * e),
                              e == 0 ? "sums[u].x" : "sums[u].z", e == 0 ? "sums[u].y" : "sums[u].w")));
  w.close();
  w.close();
}

/// As many loads at once whatever the parts: the way to L2 and back is most of the time.
void emit_sums(Writer& w, const DecodePlan& p) {
  for (int parts : {4, 8}) {
    parts == 4 ? w.open("if (split.parts <= {})", parts) : w.reopen("else if (split.parts <= {})", parts);
    emit_units(w, p, kInFlight / parts, parts);
  }
  w.reopen("else");
  emit_units(w, p, 1, kInFlight);
  w.close();
}

/// Rows of which some block found a column of O odd are computed again by the last block that is done: no other
/// stores there any more.
void emit_last_repairs(Writer& w) {
  w.comment("the last block that is done leaves the counter as it was found, and looks after odd rows");
  w.line("odd = false;");
  w.open("if (threadIdx.x == 0)");
  w.line("const int before = atomic_add_acq_rel(item_counters + s.item, {});", kDone);
  w.line("const bool last = ((u32)before / {}u & {:#x}u) == split.parts - 1u;", kDone, kClaims - 1);
  w.line("if (last) atomicExch(item_counters + s.item, 0);");
  w.line("odd = last && before < 0;");
  w.close();
}

}  // namespace

std::string part_of_item(const std::string& i) {
  return fmt::format("parts + {0} * stride + ({0} == 0 ? shift : 0)", i);
}

void emit_shared_part(Writer& w, const DecodePlan& p) {
  const int units = units_of_rows(p);
  w.line("const int here = thread_here(), lane = here % 32, warp = here / 32 % 4;");
  w.line("float4* const at = (float4*)part + (half * 4 + warp) * {} + lane;", 32 * units);
  for (int k = 0; k < units / 2; ++k)
    for (int h = 0; h < 2; ++h)
      w.line("at[{}] = make_float4(o_acc[{}], o_acc[{}], o_acc[{}], o_acc[{}]);", 32 * (2 * k + h),
             8 * k + 2 * h, 8 * k + 2 * h + 1, 8 * k + 2 * h + 4, 8 * k + 2 * h + 5);
  for (int h = 0; h < 2; ++h)
    w.line(
        "if (half == 0 && (lane & 3) == 0) *(float2*)(part + {} + 2 * (16 * warp + (lane >> 2))) = "
        "make_float2(row_max_{}, row_sum_{});",
        p.BM * p.padded_ov() + 16 * h, h, h);
}

void emit_shared_arrival(Writer& w, const DecodePlan& p) {
  const int arrivals = kClaims - 1;
  w.open("if (threadIdx.x == 0)");
  w.line("int* const counter = item_counters + s.item;");
  w.line("int seen = atomic_add_acq_rel(counter, 1) + 1 & {:#x};", arrivals);
  w.comment("with nothing left to do, a while for the other parts");
  w.line("#pragma unroll 1");
  w.open("for (int look = 0; range.position >= range.end && seen < split.parts && look < {}; ++look)",
         kLooks);
  w.line("__nanosleep(64);");
  w.line("seen = load_acquire(counter) & {:#x};", arrivals);
  w.close();
  w.line("*arrivals_before = seen;");
  w.close();
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
}

void emit_shared_combine(Writer& w, const Parts& parts) {
  const DecodePlan& p = parts.plan;
  const int units = 8 * units_of_rows(p);
  w.open("if (*arrivals_before == split.parts)");
  w.comment("all parts are there: slices of units, to whoever claims them");
  p.stream->emit_parts(w, p.partial_floats());
  w.line("const int thread = thread_here(), lane = thread % 32;");
  w.line("int slices = 2;");
  w.line("while (2 * slices <= min(split.parts, {})) slices *= 2;", kMostSlices);
  w.line("const int slice_units = {} / slices, row_groups = max(8 / slices, 1);", units);
  w.line("float* const weights = (float*)(smem_bytes + {});  // where Q was", p.smem_q);
  w.line("#pragma unroll 1");
  w.open("for (;;)");
  w.line(
      "if (threadIdx.x == 0) arrivals_before[1] = {2}atomicAdd(item_counters + s.item, {0}) / {0} & {1:#x};",
      kClaims, 2 * kClaims - 1, p.hidden.on() ? "(u32)" : "");
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
  w.line("const int begin = arrivals_before[1] * slice_units, end = begin + slice_units;");
  w.line("if (begin >= {}) break;", units);
  emit_weights(w, parts);
  emit_sums(w, p);
  if (p.hidden.on())
    w.line("if (any_lane(odd) && lane == 0) atomicOr((u32*)item_counters + s.item, {:#x}u);", kOdd);
  w.line("named_barrier_sync(1, {});  // every thread knows its slice and has read its weights",
         p.consumer_threads());
  w.close();
  w.close();
  if (p.hidden.on()) return emit_last_repairs(w);
  w.comment("the last block that is done leaves the counter as it was found");
  w.line(
      "if (threadIdx.x == 0 && (u32)atomicAdd(item_counters + s.item, {0}) / {0}u == split.parts - 1u) "
      "atomicExch(item_counters + s.item, 0);",
      kDone);
}

}  // namespace kiln::sm90
