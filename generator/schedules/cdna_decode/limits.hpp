// Registers of a lane in AMD decode kernels, as compiled kernels show (clang 22; bench/NOTES.md by number).
#pragma once

namespace kiln::cdna {

/// Of the loop, beside those that live through it.
struct LoopRegisters {
  // Whole tiles: fragments of one step, addresses, the softmax. They want 90 to 110 and spill nothing with the least; of a
  // ring up to the most (174).
  static constexpr int kLeast = 80, kMost = 112;
  static constexpr int kBesideFragments = 72;  ///< beside the fragments of whole rows of K (166)
  static constexpr int kUneven = 116;          ///< of more than twelve waves, whose copies are unequal (166)
  // Strips.
  static constexpr int kOf32 = 112;  ///< addresses and the softmax of 32 rows (174)
  static constexpr int kSpareOf32 =
      32;  ///< what custom masks and ragged rows were seen to take besides (174)
  static constexpr int kLongWave =
      120;  ///< addresses, V's fragments and the softmax of kLongKeys and more (174)
};

/// Registers that more than twelve waves have each: unequal copies of theirs take nearly all (166).
inline constexpr int kFewRegisters = 128;
/// Keys of a wave past which rows by way of registers are counted. Shorter ones were not seen to spill (174).
inline constexpr int kLongKeys = 256;
/// Depth past which one block has a compute unit to itself: wide rows take more registers than two leave (174).
inline constexpr int kDeepestOfTwo = 256;

}  // namespace kiln::cdna
