// The inner product kernel of wgmma: 8 rows x 8 columns in registers. Internal to the tensor operations.
#pragma once

#include <cstdint>

namespace kiln::emulator {

/// Accumulators stay in their fragment registers: with the 8 columns of a block stored in the order 0 2 4 6 1
/// 3 5 7, the four lanes of a row hold them as two runs of four floats, one in register `even`, one in
/// register `odd`.
struct AccumulatorBlock {
  std::uint32_t* even;  ///< f32 bits, 32 lanes; lane 4 * row + j holds column 2j
  std::uint32_t* odd;   ///< f32 bits, 32 lanes; lane 4 * row + j holds column 2j + 1
};

/// block[row][column] (+)= sum over k of a[row * k_extent + k] * b[k * 8 + column], ascending k, canonical
/// NaNs. `a` holds 8 rows, `b` is a column block in the permuted order.
void multiply_block(const AccumulatorBlock& block, const float* a, const float* b, int k_extent,
                    bool accumulate);

}  // namespace kiln::emulator
