// The products of MFMA on whole registers. A register of D holds, lane by lane, consecutive columns of one row
// after another; one of B consecutive columns of a row, and one of A, transposed, the same. Internal.
#pragma once

#include <cstdint>

namespace kiln::emulator::amdgcn {

/// How 64 lanes of 32-bit registers become rows of floats.
enum class RowFormat : std::uint8_t { f32, bf16, f16 };

/// Register `reg` (64 lanes) of an operand with `side` lanes a row: `per_lane` values of k in each lane, of which this
/// register holds those from `first` on. `out` is [k][side].
void decode_rows(RowFormat format, const std::uint32_t* reg, int side, int per_lane, int first, float* out);
/// 8-bit values by a table, as above.
void decode_bytes(const float* values, const std::uint32_t* reg, int side, int per_lane, int first,
                  float* out);

/// d[register][64] += A * B in ascending k, fused; `a` is [k][side], `b` [k][side], both of `k` rows. The registers are
/// `side * side / 64`, of side 16 or 32.
void multiply_registers(int side, int k, const float* a, const float* b, float (*d)[64]);

}  // namespace kiln::emulator::amdgcn
