// Parts of many columns, added up by all blocks that have arrived and have nothing else to do: one block alone takes
// as long for a part of 64 rows of 512 floats as for two tiles of keys (bench/NOTES.md 118).
//
// A part lies in the workspace as the registers hold it, 16 bytes a lane: a unit is what a warp stores at once, 8 rows
// of 16 columns, and what a warp adds up at once. Behind the units are (maximum, sum) of each row.
//
// Each block that has nothing else to do has as many units, one after the other (share_parts in templates/sm90.cuh). Who
// adds up a unit does not show in the result: parts are added in their order.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

constexpr unsigned kOdd = 1u << 31;  ///< of the item's counter: some column of O is not finite
constexpr int kInFlight = 16;        ///< loads of a lane at once
constexpr int kFewParts = 8;
constexpr int kAtOnce = 4;  ///< parts of a lane whose maxima are loaded at once

/// Units of 8 rows.
int units_of_rows(const DecodePlan& p) {
  return p.padded_ov() / 16;
}

/// Weights of all parts for the rows of the units from `begin` to `end`, divided by the rows' sums, to `weights`; and log-sum-exps. Of few parts
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
                  fmt::format("of_row == 0 && row / 8 * {} >= begin && ", units_of_rows(p)));
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

/// The sums of the units, `units` of them a warp at once; of each, `parts` are on their way at once.
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

/// Rows of which some block found a column of O odd are computed again by the last block that is done: no other stores
/// there any more.
void emit_last_repairs(Writer& w, const DecodePlan& p) {
  w.comment("one block that adds up alone and has not waited looks after its odd rows itself");
  w.open("if (own_share[2] > 0)");
  w.line("if (any_lane(odd) && thread_here() % 32 == 0) atomicOr((u32*)item_counters + s.item, {:#x}u);",
         kOdd);
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
  w.comment("the last block that is done leaves the counter as it was found, and looks after odd rows");
  w.line("odd = false;");
  w.open("if (threadIdx.x == 0)");
  w.line("const int before = atomic_add_acq_rel(item_counters + s.item, kKnowing);");
  w.line("const bool last = knows_last(before, own_share[2]);");
  w.line("if (last) atomicExch(item_counters + s.item, 0);");
  w.line("odd = last && before < 0;");
  w.close();
  w.close();
}

}  // namespace

std::string part_of_item(const std::string& i) {
  return fmt::format("parts + {0} * stride + ({0} == 0 ? shift : 0)", i);
}

void emit_unit_part(Writer& w, const DecodePlan& p) {
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

void emit_unit_sums(Writer& w, const Parts& parts) {
  const DecodePlan& p = parts.plan;
  const int columns = units_of_rows(p), units = 8 * columns;
  emit_share(w, p, "");
  if (!p.hidden.on()) emit_know(w);
  w.open("if (share >= 0)");
  w.comment("all parts are there: this block has units {} / shares * share ..., rows eight by eight", units);
  p.stream->emit_parts(w, p.partial_floats());
  w.line("const int thread = thread_here(), lane = thread % 32;");
  w.line("const int each = ({} + shares) / shares, own_end = min((share + 1) * each, {});", units - 1, units);
  w.line("const int units_at_once = (split.parts <= {} ? 4 : 1) * {};", kFewParts, columns);
  w.line("float* const weights = (float*)(smem_bytes + {});  // where Q was", p.smem_q);
  w.line("#pragma unroll 1");
  w.open("for (int begin = share * each, end; begin < own_end; begin = end)");
  w.line("end = min(begin / {0} * {0} + units_at_once, own_end);", columns);
  w.line("const int row_groups = (end - 1) / {0} - begin / {0} + 1;", columns);
  emit_weights(w, parts);
  emit_sums(w, p);
  w.line("named_barrier_sync(1, {});  // the weights have been read", p.consumer_threads());
  w.close();
  w.close();
  p.hidden.on() ? emit_last_repairs(w, p) : emit_leave(w);
}

}  // namespace kiln::sm90
