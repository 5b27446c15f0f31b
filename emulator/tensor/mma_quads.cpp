#include "emulator/tensor/mma_quads.hpp"

#include <bit>

#include "emulator/tensor/mma_elements.hpp"

namespace kiln::emulator {
namespace {

/// Product q is of lanes 4q to 4q + 3 and 4q + 16 to 4q + 19; the upper lanes have its upper half.
int first_of_product(int lane) {
  return lane / 4 % 4 * 8;
}
int upper(int lane) {
  return lane < 16 ? 0 : 4;
}
float half_at(const std::uint32_t* const* registers, int lane, int index) {
  return element_as_float(MatrixType::f16, registers[index / 2][lane], index % 2);
}

}  // namespace

FragmentPlace quad_place_a(const MmaQuadsOp& op, int lane, int index) {
  const int row = first_of_product(lane) + upper(lane);
  if (op.a_column_major) return {row + index, lane % 4};
  return {row + lane % 4, index};
}

FragmentPlace quad_place_b(const MmaQuadsOp& op, int lane, int index) {
  const int column = first_of_product(lane) + upper(lane);
  if (op.b_row_major) return {lane % 4, column + index};
  return {index, column + lane % 4};
}

FragmentPlace quad_place_sum(bool half, int lane, int index) {
  const int first = first_of_product(lane);
  if (half) return {first + upper(lane) + lane % 4, first + index};
  return {first + upper(lane) + (lane & 1) + (index & 2), first + (index & 4) + (lane & 2) + (index & 1)};
}

void mma_quads(const MmaQuadsOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
               const std::uint32_t* const* b, const std::uint32_t* const* c) {
  float left[32][4], right[4][32], sums[32][8];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const FragmentPlace p = quad_place_a(op, lane, i), q = quad_place_b(op, lane, i);
      left[p.row][p.column] = half_at(a, lane, i);
      right[q.row][q.column] = half_at(b, lane, i);
    }
    for (int i = 0; i < 8; ++i) {
      const FragmentPlace p = quad_place_sum(op.c_half, lane, i);
      sums[p.row][p.column % 8] = op.c_half ? half_at(c, lane, i) : std::bit_cast<float>(c[i][lane]);
    }
  }
  for (int row = 0; row < 32; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < 4; ++k) sums[row][column] += left[row][k] * right[k][row / 8 * 8 + column];
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      const FragmentPlace p = quad_place_sum(op.d_half, lane, i);
      const float sum = sums[p.row][p.column % 8];
      if (!op.d_half) {
        d[i][lane] = std::bit_cast<std::uint32_t>(canonicalize(sum));
      } else {
        const std::uint32_t bits = f32_to_f16(sum);
        d[i / 2][lane] = i % 2 == 0 ? bits : d[i / 2][lane] | bits << 16;
      }
    }
}

}  // namespace kiln::emulator
