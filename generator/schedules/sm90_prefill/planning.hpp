// What the steps of planning an sm90_prefill kernel share: measured tiles and the registers that limit them.
#pragma once

#include "generator/config/unsupported.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_prefill/plan.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm90 {

/// Bytes of shared memory left for barriers, alignment and work items: more where converters leave the producer to find
/// those of ragged rows, 24 bytes a lane of it.
inline int spare_smem(const Config& config) {
  const bool finds_items = operand_form(config.operand->kind).ragged_q && size_of(*config.kv_dtype) == 1;
  return finds_items ? 1280 : 1024;
}

/// Bytes of shared memory that a block can have.
inline int most_smem() {
  return target_info(Target::sm_90a).smem_bytes;
}

/// Registers of a consumer thread, counted as live_registers() does, up to which ptxas 13.0 spills none
/// (bench/NOTES.md 140, 146), for two and three warpgroups; and with parts of S watched (41).
struct RegisterLimits {
  static constexpr int kTwo = 200, kThree = 128, kThreeRagged = 120;
  static constexpr int kWatchedTwo = 196, kWatchedTwoRagged = 180, kWatchedTwoEnds = 184;
  static constexpr int kWatchedThree = 140, kWatchedThreeOpen = 144, kWatchedThreeBounded = 132;
  static constexpr int kConverters = 24;  ///< less beside warps that widen tiles
  /// More with three warpgroups and no mask, for the next P beside this one (97).
  static constexpr int kNextP = 8;
  /// What the launch gives a thread: 65536 by threads, in eights, which setmaxnreg shares out.
  static constexpr int kMathOfTwo = 232, kMathOfThree = 160, kProducerOfTwo = 40, kProducerOfThree = 32;
  static constexpr int kMostParts = 5;     ///< that S is watched in (41, 140)
  static constexpr int kPartOfThree = 16;  ///< registers of one, with three warpgroups
  /// Columns of V in one product for which ptxas 13.0 has registers in a launch of three math warpgroups.
  static constexpr int kColumnsOfThree = 192;
  static constexpr int kKeptModifier =
      8;  ///< of a score modifier, of whose others three warpgroups keep half
};

/// Registers that a consumer thread lends (lent_registers), by what the producer's warpgroup does with them.
struct LentRegisters {
  static constexpr int kLookUp = 8;         ///< pages, and transposed V (161)
  static constexpr int kWiden = 16;         ///< converters (66)
  static constexpr int kWidenFewRows = 24;  ///< and pages of few rows, or scales of tokens (161, 164)
  static constexpr int kWidenMost = 32;     ///< several scales a row; causal items up to kCausalDepth (164)
  static constexpr int kCausalFrom = 128, kCausalDepth = 160, kCausalOneScale = 192;
  static constexpr int kPageRows = 64, kFewRows = 16;  ///< of a page
};

// ---- tiles.cpp

/// Registers that a consumer thread gives to the producer's warpgroup, where that has converters and copies
/// scales, or transposes V, or looks up pages with what the consumers would leave it: of a few rows, of a
/// number of rows that no tile is a multiple of, or beside three warpgroups. Found by compiling (ptxas 13.0).
int lent_registers(const Config& config, int num_math_warpgroups);

/// O, S and P of a lane.
int live_registers(const Config& config, int BN);

/// What a consumer warpgroup has for them; bounds of a ragged item live through its loops.
int register_limit(const Config& config, int num_math_warpgroups, bool ragged);

/// The widest tile of a score_mod with captured tensors: their addresses and what is loaded of them take registers
/// beside S.
struct CapturedTile {
  int BM, BN;
};
std::optional<CapturedTile> captured_tile(const Config& config);

/// Several scales a row, of n elements each: what converters take apart (row_scales.cpp).
bool has_many_scales(const Config& config);
/// Each row or few of them are looked up on their own.
bool has_pages_of_few_rows(const Config& config);

/// Of K and V of bytes, the widest tile that consumers find registers for beside their scales (ptxas 13.0).
int widest_narrow(const Config& config);

/// What BN is a multiple of.
int key_step(const Config& config);

/// Query rows of a block: the fastest measured on H200 (QueryRows of tiles.cpp).
int default_bm(const Config& config);

/// Keys of a tile: the fastest measured, narrowed until mask and score modifier find registers beside O, S
/// and P, and to whole pages.
int default_bn(const Config& config, int num_math_warpgroups, bool ragged);

bool default_ping_pong(const Config& config);

/// How many parts S is watched in (OnlineSoftmax::emit_watched): as few as the registers allow, since each
/// ends in a vote that nothing overlaps; 0 where not even small ones fit. What fits was tried with
/// ptxas 13.0. exp2_fma wraps where exp2 overflows, which the watch must see.
int watched_parts(const PrefillPlan& plan, const Config& config);

// ---- storage.cpp

/// The widest swizzle span that rows of so many bytes are whole multiples of.
inline int span_of(int row_bytes) {
  return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : 32;
}

/// PrefillPlan::raw_rows.
bool comes_in_rows(const Config& config, int BN);

/// Bytes of shared memory of narrow K and V: two stages of 16 bits and two tiles of bytes, beside Q (or O in
/// its place).
int narrow_bytes(const Config& config, int BM, int BN);

/// Rings of K and V and every other place in shared memory. Sets `num_kv_stages` and `shared_ring` of
/// `config` where it has none. False after a refusal that nothing further can be said beside.
bool plan_storage(PrefillPlan& plan, Config& config, const Refusals& refuse);

}  // namespace kiln::sm90
