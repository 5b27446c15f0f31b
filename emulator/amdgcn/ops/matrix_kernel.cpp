// See matrix_kernel.hpp.
#include "emulator/amdgcn/ops/matrix_kernel.hpp"

#include <bit>

#include "emulator/amdgcn/load/isa.hpp"
#include "emulator/tensor/multiversion.hpp"

namespace kiln::emulator::amdgcn {
namespace {

/// The same as f16_to_f32, without branches.
[[gnu::always_inline]] inline float half_to_float(std::uint32_t h) {
  const std::uint32_t magnitude = h & 0x7fffu, sign = (h & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled) | sign;
  const std::uint32_t other = magnitude == 0x7c00 ? sign | 0x7f800000u : 0x7fffffffu;
  return std::bit_cast<float>(magnitude >= 0x7c00 ? other : finite);
}

KILN_MULTIVERSION void bf16_row(const std::uint32_t* reg, int count, float* even, float* odd) {
  for (int l = 0; l < count; ++l) {
    even[l] = std::bit_cast<float>(reg[l] << 16);
    odd[l] = std::bit_cast<float>(reg[l] & 0xffff0000u);
  }
}
KILN_MULTIVERSION void f16_row(const std::uint32_t* reg, int count, float* even, float* odd) {
  for (int l = 0; l < count; ++l) {
    even[l] = half_to_float(reg[l] & 0xffffu);
    odd[l] = half_to_float(reg[l] >> 16);
  }
}

/// `rows` rows of D at a time, so that their sums do not wait for one another. Lane l of register r is column l % Side
/// of row Rows * (l / Side) + r % 4, and 8 rows further on for each four registers (Side 32).
template <int Side>
[[gnu::always_inline]] inline void multiply_side(int k, const float* a, const float* b, float (*d)[kLanes]) {
  constexpr int kRegisters = Side * Side / kLanes, kParts = kLanes / Side;
  for (int four = 0; four < kRegisters; four += 4) {
    for (int part = 0; part < kParts; ++part) {
      const int row = (Side == 32 ? 8 * (four / 4) : 0) + 4 * part;
      float sums[4][Side];
      for (int r = 0; r < 4; ++r)
        for (int j = 0; j < Side; ++j) sums[r][j] = d[four + r][Side * part + j];
      for (int kk = 0; kk < k; ++kk) {
        const float* const columns = b + kk * Side;
        for (int r = 0; r < 4; ++r) {
          const float x = a[kk * Side + row + r];
          for (int j = 0; j < Side; ++j) sums[r][j] = __builtin_fmaf(x, columns[j], sums[r][j]);
        }
      }
      for (int r = 0; r < 4; ++r)
        for (int j = 0; j < Side; ++j) d[four + r][Side * part + j] = sums[r][j];
    }
  }
}
KILN_MULTIVERSION void multiply_16(int k, const float* a, const float* b, float (*d)[kLanes]) {
  multiply_side<16>(k, a, b, d);
}
KILN_MULTIVERSION void multiply_32(int k, const float* a, const float* b, float (*d)[kLanes]) {
  multiply_side<32>(k, a, b, d);
}

}  // namespace

void decode_rows(RowFormat format, const std::uint32_t* reg, int side, int per_lane, int first, float* out) {
  for (int group = 0; group < kLanes / side; ++group) {
    float* const row = out + (group * per_lane + first) * side;
    const std::uint32_t* const lanes = reg + group * side;
    if (format == RowFormat::bf16)
      bf16_row(lanes, side, row, row + side);
    else if (format == RowFormat::f16)
      f16_row(lanes, side, row, row + side);
    else
      for (int l = 0; l < side; ++l) row[l] = std::bit_cast<float>(lanes[l]);
  }
}

void decode_bytes(const float* values, const std::uint32_t* reg, int side, int per_lane, int first,
                  float* out) {
  for (int group = 0; group < kLanes / side; ++group)
    for (int e = 0; e < 4; ++e)
      for (int l = 0; l < side; ++l)
        out[(group * per_lane + first + e) * side + l] = values[reg[group * side + l] >> 8 * e & 0xff];
}

void multiply_registers(int side, int k, const float* a, const float* b, float (*d)[kLanes]) {
  if (side == 32)
    multiply_32(k, a, b, d);
  else
    multiply_16(k, a, b, d);
}

}  // namespace kiln::emulator::amdgcn
