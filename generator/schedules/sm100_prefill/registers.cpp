// Registers of each role of an sm100_prefill kernel.
#include "generator/schedules/sm100_prefill/plan.hpp"

namespace kiln::sm100 {
namespace {

// The divisions of registers: of softmax, correction and issue. Found by compiling (ptxas 13.0; bench/NOTES.md 159, of
// sm_103a 165 and 184, of one tile 175).
constexpr RoleRegisters kUsual{};                  ///< 184, 88, 56
constexpr RoleRegisters kEven{176, 88, 72};        ///< over pages, captured tensors, long rows
constexpr RoleRegisters kCorrection{176, 96, 64};  ///< windows
constexpr RoleRegisters kWindowed{184, 80, 64};    ///< windows of short O, and of 192 columns
constexpr RoleRegisters kFewScores{168, 88, 88};   ///< narrow tiles over pages; 16-bit types of sm_103a
constexpr RoleRegisters kFewest{160, 104, 88};     ///< windows with captured tensors over pages
constexpr RoleRegisters kProducts{160, 88, 104};   ///< long rows of sm_103a, and captured tensors
constexpr RoleRegisters kRepairs{152, 120, 88};    ///< long ragged rows in windows, of sm_103a
constexpr RoleRegisters kOneTile{232, 152, 120};   ///< one tile of queries
static_assert(kUsual.fit() && kEven.fit() && kCorrection.fit() && kWindowed.fit() && kFewScores.fit() &&
              kFewest.fit() && kProducts.fit() && kRepairs.fit() && kOneTile.fit(1));

/// Captured tensors over pages.
RoleRegisters registers_of_tensors_over_pages(const PrefillPlan& p, bool b300) {
  if (b300 && p.depth <= 128 && !p.fp8) return kProducts;
  return p.mask->bounded_below() && p.depth > 112 && !p.fp8 ? kFewest : kEven;
}

RoleRegisters registers_of_alibi_over_pages(const PrefillPlan& p, bool b300) {
  if (!p.mask->bounded_below() || !p.fp8) return b300 && p.fp8 ? kEven : kFewScores;
  return p.depth <= 32 ? kWindowed : kUsual;
}

/// Over pages, where rows that V of hidden keys reaches are computed again.
RoleRegisters registers_over_pages(const PrefillPlan& p, const Config& c) {
  const ScoreMod& score_mod = *c.score_mod;
  const bool below = p.mask->bounded_below(), b300 = c.target == Target::sm_103a;
  if (!score_mod.tensors.empty()) return registers_of_tensors_over_pages(p, b300);
  if (score_mod.kind == ScoreMod::Kind::alibi) return registers_of_alibi_over_pages(p, b300);
  if (score_mod.kind == ScoreMod::Kind::softcap && below && b300 && p.depth <= 64) return kEven;
  const bool expression = score_mod.kind == ScoreMod::Kind::expr, narrow = p.fa4.BN <= 96;
  if (below && (p.fp8 ? expression || p.depth < 128 : narrow && p.depth <= 64)) return kCorrection;
  return narrow || (b300 ? !p.fp8 : expression) ? kFewScores : kEven;
}

/// Windows and chunks, whose rows begin behind the first key.
RoleRegisters registers_of_windows(const PrefillPlan& p, const Config& c) {
  const bool b300 = c.target == Target::sm_103a;
  if (!p.ragged && p.ov_depth <= 32) return p.ov_depth <= 16 ? kCorrection : kWindowed;
  if (p.fa4.padded_qk <= 128) return p.ragged ? kUsual : b300 ? kEven : kCorrection;
  if (b300 && p.ragged && !c.score_mod->tensors.empty() && !p.fp8) return kRepairs;
  return p.operand->table() && p.ov_depth > 176 && !p.fp8 ? kWindowed : kEven;
}

}  // namespace

/// Found by compiling (ptxas 13.0): the bounds of a row's keys, and over pages the repair of rows that V of hidden keys
/// reaches, leave those who issue copies and products short, or who correct O; so do captured tensors with full rows of
/// one length. bench/NOTES.md, 159.
RoleRegisters role_registers(const PrefillPlan& p, const Config& c) {
  if (p.tiles() == 1) return kOneTile;
  if (p.guards_pages()) return registers_over_pages(p, c);
  const bool long_rows = p.fa4.padded_qk > 128, expression = c.score_mod->kind == ScoreMod::Kind::expr;
  if (p.mask->bounded_above()) {
    if (p.ragged && expression && !long_rows) return kCorrection;
    if (p.mask->bounded_below()) return registers_of_windows(p, c);
    if (long_rows && !p.fp8) return kEven;
  } else if (c.target == Target::sm_103a) {
    // ptxas spills where the products of 16-bit types are issued with fewer than 88, or 104 where rows are long.
    if ((long_rows || !c.score_mod->tensors.empty()) && !p.ragged && !p.fp8) return kProducts;
    return p.fp8 && c.score_mod->kind != ScoreMod::Kind::none ? kEven : kFewScores;
  } else if (!c.score_mod->tensors.empty() && !p.ragged) {
    return kEven;
  }
  return expression && p.fp8 ? kEven : kUsual;
}

}  // namespace kiln::sm100
