// What the steps of planning a cdna_prefill kernel share.
#pragma once

#include "generator/config/rules.hpp"
#include "generator/schedules/cdna_prefill/plan.hpp"

namespace kiln::cdna {

/// What leaves the lanes of a block their registers, as compiled kernels show (clang 22; bench/NOTES.md by number).
struct RegisterLimits {
  static constexpr int kLoop = 64;  ///< of the loop, beside what lasts (174)
  /// Columns of O under 32 x 32 instructions, past which compilers spill hundreds of registers; without a mask that ends
  /// rows early they keep a second copy (174).
  static constexpr int kWideColumns = 384, kWideColumnsTwice = 256;
  /// Offsets of the copies of a tile, each in a register if the compiler may keep it: more are computed anew. Fewer
  /// where waves copy unequal parts, fewest in two waves a SIMD (166).
  static constexpr int kOffsets = 64, kOffsetsUnequal = 48, kOffsetsOfTwo = 15;
  /// Past this depth two waves a SIMD leave too few registers, and scratch memory is used in the loop. At some depths it
  /// is not (174).
  static constexpr int kDeepest = 256, kWaves = 4;
  // Compilers were seen to keep below five sixths of the registers, or to spill; of few registers a sixteenth of O's copy
  // is saved (174).
  static constexpr int kFew = 256;
  static constexpr int usable(int registers) { return registers * 5 / 6; }
  static constexpr int with_copy(int registers) { return registers * 17 / 16; }
};

/// Whether registers hold what the plan asks for (registers.cpp); violations otherwise.
bool check_registers(const PrefillPlan& plan, const Config& user, Violations& out);

}  // namespace kiln::cdna
