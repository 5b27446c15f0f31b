// The tile of an sm100_decode kernel: packed rows that a thread has registers for.
#include <algorithm>
#include <bit>

#include "generator/config/defaults.hpp"
#include "generator/config/masks.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm100_decode/planning.hpp"

namespace kiln::sm100 {
namespace {

/// Rows for which a thread has registers (ptxas 13.0; bench/NOTES.md 146, 174): slopes, words of bits and addresses of
/// captured tensors are kept for each, and ends of windows and chunks take many. With warps that convert a thread has 168
/// of them instead of 255.
struct RowLimits {
  static constexpr int kAny = 64;
  static constexpr int kKept = 32;     ///< something is kept for each row
  static constexpr int kCrowded = 16;  ///< more than one thing, or two tensors
  static constexpr int kBytes = 32, kBytesByPlace = 16;
  static constexpr int kHalves = 64, kHalvesBits = 32;  ///< of 64 keys: half of them in a thread
  static constexpr int kHalvesBytes = 64, kHalvesBytesKept = 32, kHalvesBytesCrowded = 16;
};

bool has_ends(const Config& m) {
  return is_bounded(*m.mask) && m.mask->kind != MaskConfig::Kind::causal;
}

int most_rows_of_half_bytes(const Config& m) {
  const std::size_t tensors = m.score_mod->tensors.size();
  if (m.mask->kind == MaskConfig::Kind::custom || tensors > 1) return RowLimits::kHalvesBytesCrowded;
  return has_ends(m) || modifier_kind(*m.score_mod).by_place || tensors > 0 ? RowLimits::kHalvesBytesKept
                                                                            : RowLimits::kHalvesBytes;
}

int most_rows(const Config& m, int keys) {
  const ModifierKind& modifier = modifier_kind(*m.score_mod);
  const std::size_t tensors = m.score_mod->tensors.size();
  const bool custom = m.mask->kind == MaskConfig::Kind::custom;
  const bool halves = keys == 64;
  if (widens_bytes(m) && halves) return most_rows_of_half_bytes(m);
  if (widens_bytes(m)) return custom || modifier.by_place ? RowLimits::kBytesByPlace : RowLimits::kBytes;
  const bool odd_pages = operand_form(m.operand->kind).pages() &&
                         !std::has_single_bit(static_cast<unsigned>(m.operand->page_size.value_or(1)));
  if (halves) return custom ? RowLimits::kHalvesBits : RowLimits::kHalves;
  // FP8 takes a register or two more: what P is larger by, and scores that are packed last.
  const bool fp8 = is_fp8(m.dtype), modified = fp8 && m.score_mod->kind != ScoreMod::Kind::none;
  const bool crowded = custom && (modifier.row_values || tensors > 0 || odd_pages || fp8);
  if (crowded || tensors > 1) return RowLimits::kCrowded;
  return has_ends(m) || custom || modifier.row_values || tensors > 0 || modified ? RowLimits::kKept
                                                                                 : RowLimits::kAny;
}
int most_rows(const Config& m) {
  return most_rows(m, keys_of_tile(m));
}

/// Packed query rows that a tile should have: query tokens times query heads of a KV head. Where neither is known 16, and
/// 64 of a latent cache, whose rows all heads read.
int wanted_rows(const Config& c) {
  if (is_prefill(c)) return 64;
  const int rows = packed_rows(c, *c.v_from_k ? 64 : 16);
  return rows <= 16 ? 16 : rows <= 32 ? 32 : 64;
}

}  // namespace

int keys_of_tile(const Config& m) {
  if (is_wide_for_128_keys(m) || (*m.v_from_k && !has_both_tiles(m))) return 64;
  if (!has_both_tiles(m)) return 128;
  // Half of the keys where a thread has registers for more rows of these.
  const int rows = m.BM.value_or(wanted_rows(m));
  const bool half = most_rows(m, 128) < std::min(rows, most_rows(m, 64));
  return m.BN.value_or(half ? 64 : 128) == 64 ? 64 : 128;
}

bool choose_tile(DecodePlan& p, Config& c, const Refusals& refuse) {
  if (!c.BM) c.BM = std::min(wanted_rows(c), most_rows(c));
  p.BM = *c.BM;
  if (p.BM != 16 && p.BM != 32 && p.BM != 64) {
    refuse(name_of(c), {"/BM"}, "BM, the packed query rows, is 16, 32 or 64",
           p.BM < 24   ? "16"
           : p.BM < 48 ? "32"
                       : "64");
    return false;
  }
  if (p.BM > most_rows(c)) {
    refuse(
        name_of(c), {"/BM"},
        fmt::format("a thread has registers for {} rows of this mask, score_mod and kv_dtype", most_rows(c)),
        std::to_string(most_rows(c)));
    return false;
  }
  refuse.only(c.BN, p.BN, name_of(c), "/BN",
              has_both_tiles(c)
                  ? "BN is the 64 or 128 rows of the matrix instruction, a key each, of latent rows of FP8"
              : p.v_in_k ? "BN is the 64 rows of the matrix instruction, a key each, where V lies in K"
              : p.wide   ? "BN is the 64 rows of the matrix instruction, a key each, of wide rows of K or V"
                         : "BN is the 128 rows of the matrix instruction, a key each");
  refuse.only(c.num_threads, p.num_threads(), name_of(c), "/num_threads",
              p.narrow ? "four warps of softmax, one for products, one for copies, four that convert"
                       : "four warps of softmax, one for products, one for copies");
  resolve_spans(c, p, name_of(c), refuse);
  return true;
}

}  // namespace kiln::sm100
