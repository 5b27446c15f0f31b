// The steps between a config and the plan of an sm90_decode kernel: what only they share.
#pragma once

#include "generator/config/unsupported.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"

namespace kiln::sm90 {

/// Long queries of wide rows are packed as those of decode are.
bool is_prefill(const Config& c);
/// The schedule's name: sm90_decode or sm90_wide_prefill.
const char* name_of(const Config& c);
/// What the schedule supports; violations otherwise.
bool check_meaning(const Config& c, Violations& out);

/// Rows of panels; pieces of one row, as those of pages of an odd number of rows are, have to be 128 bytes:
/// a tensor copy begins at whole 128 bytes of shared memory.
inline bool single_rows(const Config& c) {
  return operand_form(c.operand->kind).pages() && *c.operand->page_size % 2 == 1;
}

// ---- tiles.cpp

/// Registers of a thread, counted, up to which ptxas 13.0 spills none (bench/NOTES.md 174). Where rows are chosen,
/// names of rows count too, and words of their masks: two for each.
struct DecodeRegisters {
  static constexpr int kAny = 200;    ///< beyond it a config is refused
  static constexpr int kPlain = 176;  ///< the same of 16-bit kernels with keys on the M side and V of its own
  static constexpr int kBytesBesideTensors = 172;  ///< of 8-bit kernels that read captured tensors (146)
  static constexpr int kGroupsOfKeys =
      168;  ///< of groups of columns and two blocks of keys, whose parts live longer
  static constexpr int kKeysOnM = 140;  ///< of 16-bit kernels with keys on the M side, where rows are chosen
  static constexpr int kBytes = 196;    ///< of 8-bit ones
  static constexpr int kTwoBlocks = 104;        ///< two blocks a multiprocessor, 168 registers a thread
  static constexpr int kTwoBlocksBytes = 108;   ///< the same with 8-bit keys, whose fragments live shortly
  static constexpr int kRoomBeside = 112;       ///< room for a block of another launch (71)
  static constexpr int kGroup = 5;              ///< what each group of columns adds where blocks are counted
  static constexpr int kBesideLatentRows = 24;  ///< masks and modifiers, beside 64 latent rows
};

/// Packed rows of a tile that measured best (bench/NOTES.md by number).
struct DecodeRows {
  static constexpr int kUnknown = 16;  ///< groups that no key names (20)
  static constexpr int kFew = 8;       ///< up to 8 rows: half of the exponentials (106)
  static constexpr int kRowsOnM = 64;  ///< more than 16 rows of 16-bit keys (133), latent rows (118)
  static constexpr int kMostColumns =
      256;  ///< of O of one warpgroup with so many rows; of wider ones 16 rows
  /// Of O, where two blocks do not fit 48 rows: 64 on the M side do better by themselves (133).
  static constexpr int kOneBlock = 48, kOneBlockFrom = 64, kOneBlockTo = 128;
};

/// Which of a tile's sides are query rows, how many warpgroups consume it, and the systems over its scores.
void set_scores(DecodePlan& p, const Config& c);
/// Registers of a thread that S', O', fragments, masks and modifiers take at once.
int registers_of(const DecodePlan& p);
/// Packed query rows of a tile, and its keys.
bool choose_rows(DecodePlan& p, Config& c, const Refusals& refuse);
bool choose_keys(DecodePlan& p, Config& c, const Refusals& refuse);
/// `registers`: of registers_of().
bool check_registers(const DecodePlan& p, const Config& c, int registers, const Refusals& refuse);

}  // namespace kiln::sm90
