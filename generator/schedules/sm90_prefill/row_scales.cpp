// Scales of n elements of a row, where sm90_prefill widens K and V. Converters take those of a tile apart, so that
// products sum over columns all the same:
//
//   K   S = Q K' of one group of columns after the other, in units of the group: between two S is multiplied by the
//       ratio of their scales, at last by the last one's. The elements stay what they are, exactly. Columns whose
//       scale is 0, or nothing beside another of the row (2^-100), take 0 times their elements and no unit.
//   V   P takes the largest power of two in a row's scales, elements take what is left, rounded to FP16, and are
//       rounded to FP16 themselves.
//
// What elements take is a pair of FP16 in the place of the scale that was copied.
#include <tuple>

#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

void emit_ratios(Writer& w, const PrefillPlan& p, const std::string& at) {
  const std::string to = fmt::format("smem_k_scales + {} * {} + {} * g + 4 * i", p.k->ring().stage(),
                                     p.k_scale_bytes(), 4 * p.BN);
  w.line("float most = 0x1p-26f;  // of what a float's reciprocal is one of");
  w.line("#pragma unroll 1");
  w.line("for (int g = 0; g < {}; ++g) most = fmaxf(most, fabsf(load_shared_float({})));", p.k_groups(), at);
  w.line("float next = 1.0f;");
  w.line("#pragma unroll 1");
  w.open("for (int g = {}; g >= 0; --g)", p.k_groups() - 1);
  w.line("float unit = load_shared_float({});", at);
  w.line("const bool none = fabsf(unit) < most * 0x1p-100f;");
  w.line("store_shared({}, none ? 0u : 0x3c003c00u);", at);
  w.line("if (none) unit = next;");
  w.line("store_shared({}, __float_as_uint(__fdividef(unit, next)));", to);
  w.line("next = unit;");
  w.close();
}

void emit_parts(Writer& w, const PrefillPlan& p, const std::string& at) {
  const int groups = PrefillPlan::groups_of(p.config, p.ov_depth);
  w.line("float most = 0.0f;");
  w.line("#pragma unroll 1");
  w.line("for (int g = 0; g < {}; ++g) most = fmaxf(most, fabsf(load_shared_float({})));", groups, at);
  w.line("const u32 power = __float_as_uint(most) & 0x7f800000u;");
  w.line("store_shared(smem_v_scales + {} * {} + 4 * i, power);", p.v->ring().stage(), 4 * p.BN);
  w.line("#pragma unroll 1");
  w.open("for (int g = 0; g < {}; ++g)", groups);
  w.line("const float part = load_shared_float({}) * __uint_as_float(0x7f000000u - power);", at);
  w.line("store_shared({}, pack_fp16(part, part));", at);
  w.close();
}

}  // namespace

void emit_split_scales(Writer& w, const PrefillPlan& p, bool k) {
  w.comment("{}",
            k ? "scales of columns become ratios" : "scales of columns: a power of two, and what is left");
  w.open("for (int i = thread; i < {}; i += {})", p.BN, PrefillPlan::kConverterThreads);
  w.line("const u32 scales = smem_raw_scales + {} * {} + 4 * i;", p.raw->stage(), p.raw_scale_bytes());
  (k ? emit_ratios : emit_parts)(w, p, fmt::format("scales + {} * g", 4 * p.BN));
  w.close();
  w.line("named_barrier_sync(8, {});  // every converter reads them", PrefillPlan::kConverterThreads);
}

std::string part_offset(const PrefillPlan& p, int panel) {
  const int block = p.config.operand->quantization->block, columns = p.raw_span();
  if (block % columns == 0) return std::to_string(panel * columns / block * 4 * p.BN);
  return fmt::format("({} + thread % {} * 16) / {} * {}", panel * columns, columns / 16, block, 4 * p.BN);
}

void use_scaled_converter(Prelude& prelude) {
  prelude.use("pack_fp16");
  Writer w;
  w.open("__device__ __forceinline__ u32 times_fp16(u32 a, u32 b)");
  w.line("u32 out;");
  w.line("asm(\"mul.f16x2 %0, %1, %2;\" : \"=r\"(out) : \"r\"(a), \"r\"(b));");
  w.line("return out;");
  w.close();
  w.comment("Sixteen bytes as FP16, times `part`: the lower eight, the upper eight.");
  w.open("__device__ __forceinline__ void store_widened(u32 low, u32 high, uint4 x, u32 part)");
  for (const auto& [to, a, b] : {std::tuple{"low", "x", "y"}, std::tuple{"high", "z", "w"}}) {
    w.line(
        "store_shared_16({0}, make_uint4(times_fp16(narrow_to_fp16(x.{1}), part), times_fp16(narrow_to_fp16(x.{1} "
        ">> 16), part), times_fp16(narrow_to_fp16(x.{2}), part), times_fp16(narrow_to_fp16(x.{2} >> 16), part)));",
        to, a, b);
  }
  w.close();
  prelude.add("store_widened", w.take());
}

}  // namespace kiln::sm90::prefill
