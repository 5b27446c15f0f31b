// mma.m8n8k4 of f16, the form of sm_70: four products at once, each by two groups of four lanes.
#pragma once

#include <cstdint>

#include "emulator/tensor/mma.hpp"

namespace kiln::emulator {

struct MmaQuadsOp {
  bool a_column_major = false, b_row_major = false;
  bool c_half = false, d_half = false;  ///< f16, else f32
};

/// Registers of A and B, 2 each; of C and D 4 (f16) or 8 (f32).
inline constexpr int kQuadInputs = 2;
inline int quad_sums(bool half) {
  return half ? 4 : 8;
}

/// Place of element `index` of `lane`: rows (columns) of the four products follow one another, 8 each.
FragmentPlace quad_place_a(const MmaQuadsOp& op, int lane, int index);  ///< (m, k)
FragmentPlace quad_place_b(const MmaQuadsOp& op, int lane, int index);  ///< (k, n)
FragmentPlace quad_place_sum(bool half, int lane, int index);           ///< (m, n)

void mma_quads(const MmaQuadsOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
               const std::uint32_t* const* b, const std::uint32_t* const* c);

}  // namespace kiln::emulator
