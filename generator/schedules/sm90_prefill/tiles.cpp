// sm90_prefill: tiles of queries and keys, and the registers that they take.
#include <algorithm>
#include <bit>
#include <span>

#include "generator/config/defaults.hpp"
#include "generator/config/masks.hpp"
#include "generator/config/rope.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_prefill/planning.hpp"

namespace kiln::sm90 {
namespace {

/// More work a score makes softmax the longer part of the loop: more warpgroups, in turns, hide it better.
bool has_fixed_modifier(const Config& c) {
  return c.score_mod->kind != ScoreMod::Kind::none && !modifier_kind(*c.score_mod).is_expression();
}

/// A soft cap inside softmax's exponent adds less than one before it.
bool has_curve(const Config& c) {
  return ScoreModifier(*c.score_mod, {}).enter_exponent().has_value();
}

/// Keys of a tile by the deeper of K's and V's rows, those of depths in between as of the next.
struct Width {
  int deepest;
  int plain, modified;  ///< without and with a fixed score modifier
};
/// Two warpgroups and 16-bit keys: the fastest on H200 (bench/NOTES.md 4, 16, 42), of those that do not spill
/// (140, 146).
constexpr Width kTwoWarpgroups[] = {{64, 192, 192}, {128, 128, 128}, {192, 112, 112},
                                    {224, 64, 80},  {255, 64, 64},   {256, 64, 80}};
/// Two or three warpgroups and FP8 keys (97), and what of them fits beside the loops of a window or the pages of a few
/// rows (146).
constexpr Width kBytes[] = {{128, 128, 128}, {192, 96, 96}, {256, 96, 96}};
constexpr int kCrowdedBytes = 64;  ///< of the last row of kBytes
/// Query rows of two and three warpgroups, and the widest rows for which three are faster (63; with a fixed score modifier
/// 15, 64; FP8 96, 97).
struct QueryRows {
  static constexpr int kTwo = 128, kThree = 192;
  static constexpr int kDeepest = 64, kDeepestModified = 128, kDeepestBytes = 128;
};
/// FP8 keys with scales of their own, and past a depth over pages without a bounded mask (99).
constexpr int kScaledBytes = 64, kScaledBytesOverPages = 32, kScaledBytesDepth = 192;
/// Three warpgroups (15, 63, 64), with a soft cap inside softmax's exponent (66) or past depth 64.
constexpr int kThreeWarpgroups = 128, kThreeWarpgroupsCrowded = 96;

const Width& width_of(std::span<const Width> table, int wide) {
  return *std::find_if(table.begin(), table.end() - 1, [&](const Width& w) { return wide <= w.deepest; });
}

int measured_bn(const Config& c, int num_math_warpgroups) {
  const int wide = std::max(c.depth, *c.ov_depth);
  if (num_math_warpgroups == 3) return wide > 64 || has_curve(c) ? kThreeWarpgroupsCrowded : kThreeWarpgroups;
  if (is_fp8(c.dtype)) {
    const bool crowded = is_window(*c.mask) ||
                         (operand_form(c.operand->kind).pages() && c.operand->page_size.value_or(96) < 96);
    return wide > 192 && crowded ? kCrowdedBytes : width_of(kBytes, wide).plain;
  }
  const Width& width = width_of(kTwoWarpgroups, wide);
  if (!has_fixed_modifier(c)) return width.plain;
  // At 256 narrower ones beside the bounds of rows of one length (146).
  const bool one_length = wide == 256 && !operand_form(c.operand->kind).ragged_q;
  if (one_length && c.mask->kind == MaskConfig::Kind::custom) return 32;
  return one_length && is_bounded(*c.mask) ? 64 : width.modified;
}

/// The widest tile of FP8 keys with scales of their own that does not spill.
int scaled_fp8_bn(const Config& c) {
  const int wide = std::max(c.depth, *c.ov_depth);
  const bool pages = operand_form(c.operand->kind).pages();
  return wide > kScaledBytesDepth && pages && !is_bounded(*c.mask) ? kScaledBytesOverPages : kScaledBytes;
}

bool bn_fits(const Config& c, int num_math_warpgroups, bool ragged, int BN) {
  if (is_narrow(c) && narrow_bytes(c, 64 * num_math_warpgroups, BN) > most_smem()) return false;
  const ScoreLayout layout = mma_score_layout(BN / 2);
  const int mask = Mask(*c.mask, layout).live_registers();
  int modifier = ScoreModifier(*c.score_mod, layout).live_registers();
  // Three warpgroups leave the compiler less to spend on what it could compute again.
  if (num_math_warpgroups == 3) modifier = std::min(modifier, RegisterLimits::kKeptModifier + modifier / 2);
  // Of narrow K and V once more: what is kept or loaded ahead for scales.
  const int lent = is_narrow(c) ? lent_registers(c, num_math_warpgroups) : 0;
  return live_registers(c, BN) + mask + modifier + lent <= register_limit(c, num_math_warpgroups, ragged);
}

}  // namespace

std::optional<CapturedTile> captured_tile(const Config& c) {
  const std::size_t tensors = c.score_mod->tensors.size();
  if (tensors == 0) return std::nullopt;
  // Found by compiling (ptxas 13.0) over random masks, operands and expressions (bench/NOTES.md 146).
  const int wide = std::max(c.depth, *c.ov_depth);
  const bool few = tensors <= 2;
  if (wide <= 128) return CapturedTile{128, few && !(is_narrow(c) && wide > 96) ? 64 : 32};
  return CapturedTile{64, few || key_step(c) == 32 ? 32 : 16};
}

bool has_many_scales(const Config& c) {
  return PrefillPlan::groups_of(c, std::max(k_columns(c), *c.ov_depth)) > 1;
}

bool has_pages_of_few_rows(const Config& c) {
  return operand_form(c.operand->kind).pages() && c.operand->page_size.value_or(0) < 16;
}

int widest_narrow(const Config& c) {
  if (!has_many_scales(c)) return 128;
  return std::max(c.depth, *c.ov_depth) > 128 ? 64 : has_pages_of_few_rows(c) ? 96 : 128;
}

int key_step(const Config& c) {
  const bool words = c.mask->kind == MaskConfig::Kind::custom;
  return is_fp8(c.dtype) || words || scales_by_row(c.operand->quantization) ? 32 : 16;
}

/// Where converters know the lengths of a causal mask's items (bench/NOTES.md 161, 164): look-ups in pages of few rows take
/// most, scales of rows more than one scale. FP8 of one scale at 176 and 192 leaves no more over pages of 16 rows or more.
static int lent_for_causal_items(const Config& c) {
  const bool pages = operand_form(c.operand->kind).table(), by_row = scales_by_row(c.operand->quantization);
  const bool int8 = *c.kv_dtype == DType::int8;
  const int rows = c.operand->page_size.value_or(0);
  using Lent = LentRegisters;
  if (c.operand->kind == OperandKind::contiguous) return Lent::kWiden;
  if (pages && rows < Lent::kPageRows && c.depth <= Lent::kCausalDepth)
    return by_row || !int8 ? Lent::kWidenMost : Lent::kWidenFewRows;
  if (by_row) return Lent::kWidenFewRows;
  const bool more = int8 || rows < Lent::kFewRows || c.depth > Lent::kCausalOneScale;
  return pages && more ? Lent::kWidenFewRows : Lent::kWiden;
}

int lent_registers(const Config& c, int num_math_warpgroups) {
  using Lent = LentRegisters;
  const bool pages = operand_form(c.operand->kind).table();
  const unsigned rows = static_cast<unsigned>(c.operand->page_size.value_or(0));
  if (is_narrow(c)) {
    // Beside O and scales of keys consumers have no more to give.
    if (std::max(c.depth, *c.ov_depth) > 192 && scales_by_row(c.operand->quantization)) return Lent::kWiden;
    if (has_many_scales(c)) return Lent::kWidenMost;
    if (c.mask->kind == MaskConfig::Kind::causal && c.depth > Lent::kCausalFrom)
      return lent_for_causal_items(c);
    return pages && rows < Lent::kFewRows ? Lent::kWidenFewRows : Lent::kWiden;
  }
  return is_fp8(c.dtype) || (pages && (num_math_warpgroups == 3 || rows < 4 || !std::has_single_bit(rows)))
             ? Lent::kLookUp
             : 0;
}

int live_registers(const Config& c, int BN) {
  return *c.ov_depth / 2 + BN / 2 + BN / 8 * static_cast<int>(is_fp8(c.dtype) ? 1 : 2);
}

int register_limit(const Config& c, int num_math_warpgroups, bool ragged) {
  const int three = ragged ? RegisterLimits::kThreeRagged : RegisterLimits::kThree;
  return (num_math_warpgroups == 3 ? three : RegisterLimits::kTwo) - lent_registers(c, num_math_warpgroups);
}

int default_bm(const Config& c) {
  if (const auto tile = captured_tile(c)) return tile->BM;
  using Rows = QueryRows;
  if (is_narrow(c)) return Rows::kTwo;  // converters need registers that three warpgroups leave nobody
  const bool modified = has_fixed_modifier(c) && !has_curve(c);
  const int deepest = is_fp8(c.dtype) ? Rows::kDeepestBytes
                      : modified      ? Rows::kDeepestModified
                                      : Rows::kDeepest;
  return std::max(c.depth, *c.ov_depth) <= deepest ? Rows::kThree : Rows::kTwo;
}

bool default_ping_pong(const Config& c) {
  return std::max(c.depth, *c.ov_depth) <= 64 || c.score_mod->kind != ScoreMod::Kind::none ||
         c.mask->kind == MaskConfig::Kind::custom;
}

int default_bn(const Config& c, int num_math_warpgroups, bool ragged) {
  const bool fp8 = is_fp8(c.dtype), by_row = scales_by_row(c.operand->quantization);
  int BN = fp8 && by_row ? scaled_fp8_bn(c) : measured_bn(c, num_math_warpgroups);
  if (is_narrow(c)) BN = std::min(BN, widest_narrow(c));
  if (const auto tile = captured_tile(c)) BN = std::min(BN, tile->BN);
  const int step = key_step(c);
  BN -= BN % step;
  while (BN > step && !bn_fits(c, num_math_warpgroups, ragged, BN)) BN -= step;
  // Rather a narrower tile of whole pages, or whole tiles a page; of others each piece is a copy.
  const int page = page_rows(*c.operand);
  const int widest = BN;
  const auto cuts = [&] { return page == 0 || BN % page == 0 || page % BN == 0; };
  while (BN > step && !cuts()) BN -= step;
  return cuts() ? BN : widest;
}

namespace {

/// Registers that O, S, P and a part of S may take together.
int watch_limit(const PrefillPlan& p, const Config& c) {
  if (p.num_math_warpgroups == 3) {
    // Without a bounded mask there is room for one part more, but not beside log-sum-exps; without turns there is none
    // for any.
    const bool open = !p.mask->bounded_above() && !c.lse.value_or(false);
    if (p.mask->bounded_below() || !p.ping_pong) return RegisterLimits::kWatchedThreeBounded;
    return open ? RegisterLimits::kWatchedThreeOpen : RegisterLimits::kWatchedThree;
  }
  const int converters = p.narrow ? RegisterLimits::kConverters : 0;
  if (p.ragged) return RegisterLimits::kWatchedTwoRagged - converters;
  // Past depth 192 the two ends of a window take some, sinks and first keys of a launch more, and items in registers.
  const bool two_ends = p.mask->bounded_below() && p.ov_depth > 192;
  const int more = c.mask->left_padding || *c.sink ? 4 : 0;
  return (two_ends ? RegisterLimits::kWatchedTwoEnds - more : RegisterLimits::kWatchedTwo) - converters;
}

}  // namespace

int watched_parts(const PrefillPlan& p, const Config& c) {
  if (c.exp_offload.value_or(0.0) > 0) return 0;
  const bool three = p.num_math_warpgroups == 3;
  if (p.narrow && p.ov_depth > (has_many_scales(c) ? 128 : 192)) return 0;
  if (three && p.ragged && !p.modifier->none()) return 0;
  const int limit = watch_limit(p, c);
  for (int parts = 1; parts <= RegisterLimits::kMostParts; ++parts) {
    const int part = (p.BN / 2 / parts + 3) / 4 * 4;
    if (three && part > RegisterLimits::kPartOfThree) continue;
    if (live_registers(c, p.BN) + part <= limit) return parts;
  }
  return 0;
}

}  // namespace kiln::sm90
