// sm90_decode: tiles of packed rows and keys, and the registers that they take.
#include <algorithm>

#include <fmt/format.h>

#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_decode/planning.hpp"

namespace kiln::sm90 {
namespace {

/// S' of a lane: row index c (a query row) in registers 4 * (c / 2) + c % 2 + {0, 2} of each block of 64
/// keys, at keys 16 * warp + (lane >> 2) + {0, 8}.
ScoreLayout transposed_layout(const DecodePlan& p) {
  const int regs = p.s_regs();
  ScoreLayout layout{p.key_blocks() * regs,
                     p.columns(),
                     p.BN,
                     "(16 * warp + (lane >> 2))",
                     [regs](int i) { return i % regs / 4 * 2 + i % 2; },
                     [regs](int i) { return 64 * (i / regs) + i % 4 / 2 * 8; }};
  layout.vector = regs;
  layout.numbered = true;
  layout.word_columns = 64;
  layout.lane_word = "warp / 2";
  layout.lane_bit = "16 * (warp & 1) + (lane >> 2)";
  return layout;
}

/// Two warpgroups can share V's columns.
bool halves(const DecodePlan& p, const Config& c) {
  const bool odd_pages =
      single_rows(c) && *c.operand->page_size > 1;  // more than a lean producer can look up
  return !p.narrow && p.v_panels % 2 == 0 && !odd_pages;
}

/// Keys of a tile, unless asked. Past depth 64 products of groups of columns leave two blocks of 128 keys no
/// registers, but for two groups of E4M3 with nothing to mask (bench/NOTES.md 64).
int default_keys(const DecodePlan& p, const Config& c) {
  const bool lean = *c.kv_dtype == DType::fp8_e4m3 && std::max(p.k_groups, p.v_groups) <= 2 &&
                    c.mask->kind == MaskConfig::Kind::none && c.score_mod->kind == ScoreMod::Kind::none;
  const int widest = p.grouped() && !lean ? 64 : 128;
  return p.narrow && p.rope == 0 && std::max(p.depth, p.ov_depth) <= widest ? 128 : 64;
}

}  // namespace

void set_scores(DecodePlan& p, const Config& c) {
  p.upright = !p.narrow && p.BM == 64 && (p.padded_ov() <= 256 || halves(p, c));
  p.warpgroups = p.upright && p.padded_ov() > 256 ? 2 : 1;
  // P takes the place of a panel of K past V's columns. What alibi and bits keep for a row finds no registers.
  p.seesaw = p.warpgroups == 2 && p.v_in_k && !p.separate && p.BN == 64 &&
             p.k_panels + p.rope_panels() > p.v_panels && !modifier_kind(*c.score_mod).row_values &&
             c.mask->kind != MaskConfig::Kind::custom;
  ScoreDialect dialect;
  dialect.tanh = "";  // decode has time for the exact one
  const ScoreLayout layout = p.upright ? mma_score_layout(p.BN / 2) : transposed_layout(p);
  p.mask.emplace(*c.mask, layout);
  p.modifier.emplace(*c.score_mod, layout, dialect);
}

int registers_of(const DecodePlan& p) {
  const int v_fragments = p.BN / 4 * (p.v_in_k ? 1 : p.out_blocks());
  const int in_registers = std::max(p.fp8_q ? 0 : p.k_fragment_registers(), v_fragments);
  const int fragments = p.grouped() ? 16 + p.s_regs() : p.narrow ? in_registers : 0;
  const int tiles = p.upright ? (p.BN / 2 + p.BN / 4 + p.ov_columns() / 2)
                              : (p.key_blocks() + p.out_blocks()) * p.s_regs() + 3 * p.columns() + fragments;
  // A tail's part of S' lives as long as K's fragments do.
  const int tail = p.rope_apart() ? p.key_blocks() * p.s_regs() + 32 : 0;
  return tiles + tail + p.mask->live_registers() + p.modifier->live_registers();
}

namespace {

/// Beyond it a config is refused.
int register_limit(const DecodePlan& p, const Config& c) {
  const bool plain = !p.narrow && !p.upright && !p.v_in_k && !p.separate;
  if (p.narrow && !c.score_mod->tensors.empty()) return DecodeRegisters::kBytesBesideTensors;
  if (p.grouped() && p.key_blocks() > 1) return DecodeRegisters::kGroupsOfKeys;
  return plain ? DecodeRegisters::kPlain : DecodeRegisters::kAny;
}

/// What masks and modifiers keep in registers where query rows are on the M side.
int registers_beside_scores(const Config& c) {
  const ScoreLayout layout = mma_score_layout(32);
  return Mask(*c.mask, layout).live_registers() + ScoreModifier(*c.score_mod, layout, {}).live_registers();
}

/// The plan with tiles of `rows` packed rows, as far as scores; none where it is refused for its keys.
std::optional<DecodePlan> with_rows(DecodePlan p, const Config& c, int rows) {
  p.BM = rows;
  p.BN = c.BN.value_or(default_keys(p, c));
  if (p.BN % 64 != 0 || p.BN < 64) return std::nullopt;
  p.config = c;
  set_scores(p, c);
  return p;
}

/// Tiles of `rows` packed rows, chosen unasked, keep to the registers.
bool rows_fit(const DecodePlan& plan, const Config& c, int rows) {
  const std::optional<DecodePlan> tried = with_rows(plan, c, rows);
  if (!tried) return true;
  const DecodePlan& p = *tried;
  if (p.upright) return (p.padded_ov() <= 128 || p.warpgroups == 2) && c.score_mod->tensors.empty();
  const int names = (p.names_rows() ? 2 * p.columns() : 0) + (p.mask->has_bits() ? 2 * p.columns() : 0);
  if (p.narrow) return registers_of(p) + names <= DecodeRegisters::kBytes;
  const bool one_block = rows == DecodeRows::kOneBlock && p.padded_ov() > DecodeRows::kOneBlockFrom &&
                         p.padded_ov() <= DecodeRows::kOneBlockTo;
  return !one_block && registers_of(p) + names <= DecodeRegisters::kKeysOnM;
}

/// Tiles of `rows` packed rows would be refused for their registers.
bool exceeds_registers(const DecodePlan& p, const Config& c, int rows) {
  const std::optional<DecodePlan> tried = with_rows(p, c, rows);
  return tried && registers_of(*tried) > register_limit(*tried, c);
}

/// Packed query rows of a tile, unless asked: query tokens times query heads of a KV head. 16 hold the usual groups
/// with a few drafted tokens. Where at most 8 are known, by name or by head counts, 8. More than 16 rows of 16-bit keys
/// do best on the M side. All heads read the same rows of a latent cache, many as a rule. Other groups take as many rows
/// as leave a thread its registers, wide outputs 16.
int default_rows(const DecodePlan& p, const Config& c) {
  using Rows = DecodeRows;
  if (is_prefill(c)) return Rows::kRowsOnM;
  const int rows = packed_rows(c, Rows::kUnknown);
  if (rows <= Rows::kFew && !p.grouped()) return Rows::kFew;
  const bool wide = p.ov_depth > Rows::kMostColumns;
  if (p.v_in_k && halves(p, c) && wide && registers_beside_scores(c) <= DecodeRegisters::kBesideLatentRows)
    return Rows::kRowsOnM;
  const int most = wide ? 16 : 64;
  const int wanted = std::min(most, (rows + 15) / 16 * 16);
  if (wanted > 16 && !p.narrow && rows_fit(p, c, Rows::kRowsOnM)) return Rows::kRowsOnM;
  if (wanted <= 32 && exceeds_registers(p, c, wanted)) return 16;
  if (wanted <= 32) return wanted;
  for (int tile : {wanted, 64, 32})
    if (tile <= std::min(most, wanted + 16) && rows_fit(p, c, tile)) return tile;
  return 16;
}

}  // namespace

bool choose_rows(DecodePlan& p, Config& c, const Refusals& refuse) {
  if (!c.BM) c.BM = default_rows(p, c);
  p.BM = *c.BM;
  if (is_prefill(c) && p.BM != 64) {
    refuse(name_of(c), {"/BM"}, "BM is 64, the rows of a warpgroup's matrix instruction", "64");
    return false;
  }
  const bool eight = p.BM == 8 && !p.grouped();
  if (eight || (p.BM % 16 == 0 && p.BM >= 16 && p.BM <= 128)) return true;
  refuse(name_of(c), {"/BM"},
         p.grouped() ? "BM, the packed query rows, is a multiple of 16 up to 128"
                     : "BM, the packed query rows, is 8 or a multiple of 16 up to 128",
         std::to_string(std::clamp((p.BM + 15) / 16 * 16, 16, 128)));
  return false;
}

namespace {

/// The keys of default_keys, or 64 where those would be refused for their registers.
int fitting_keys(const DecodePlan& p, const Config& c) {
  const int keys = default_keys(p, c);
  Config wide = c;
  wide.BN = keys;
  return keys > 64 && exceeds_registers(p, wide, p.BM) ? 64 : keys;
}

}  // namespace

bool choose_keys(DecodePlan& p, Config& c, const Refusals& refuse) {
  if (!c.BN) c.BN = fitting_keys(p, c);
  p.BN = *c.BN;
  if (p.BN % 64 == 0 && p.BN >= 64 && p.BN <= 256) return true;
  refuse("V3", {"/BN"}, "BN is a multiple of 64, the rows of wgmma, up to 256",
         std::to_string(std::clamp((p.BN + 63) / 64 * 64, 64, 256)));
  return false;
}

bool check_registers(const DecodePlan& p, const Config& c, int registers, const Refusals& refuse) {
  const int most = register_limit(p, c);
  if (registers <= most) return true;
  refuse(name_of(c), {"/BM", "/BN", "/depth", "/ov_depth"},
         fmt::format("S' and O' take {} registers a thread, at most {}", registers, most),
         p.BM > 16                  ? fmt::format("BM {}", std::max(16, p.BM / 2 / 16 * 16))
         : p.BN > 64                ? "BN 64"
         : p.BM > 8 && !p.grouped() ? "BM 8"
                                    : "");
  return false;
}

}  // namespace kiln::sm90
