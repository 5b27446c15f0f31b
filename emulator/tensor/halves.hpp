// 16-bit matrix elements in bulk: widening to f32, and 8 x 8 transposition. Internal to the tensor operations.
#pragma once

#include <cstdint>

namespace kiln::emulator {

/// `rows` rows of 8 elements (bf16 or f16) to floats, `stride` floats from row to row.
void widen_halves(bool bf16, const std::uint16_t* in, int rows, float* out, int stride);
/// out[column][row] of 8 rows of 8 elements.
void transpose_halves(const std::uint8_t* const* rows, std::uint16_t* out);

}  // namespace kiln::emulator
