// The dense MFMA instructions and where their lanes' elements are in the matrices.
#include "emulator/amdgcn/ops/matrix.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using E = Element;
constexpr MatrixShape kTable[] = {
    {"v_mfma_f32_32x32x1f32", 32, 32, 1, 2, E::f32, E::f32},
    {"v_mfma_f32_16x16x1f32", 16, 16, 1, 4, E::f32, E::f32},
    {"v_mfma_f32_4x4x1f32", 4, 4, 1, 16, E::f32, E::f32},
    {"v_mfma_f32_32x32x2f32", 32, 32, 2, 1, E::f32, E::f32},
    {"v_mfma_f32_16x16x4f32", 16, 16, 4, 1, E::f32, E::f32},
    {"v_mfma_f32_32x32x4f16", 32, 32, 4, 2, E::f16, E::f16},
    {"v_mfma_f32_16x16x4f16", 16, 16, 4, 4, E::f16, E::f16},
    {"v_mfma_f32_4x4x4f16", 4, 4, 4, 16, E::f16, E::f16},
    {"v_mfma_f32_32x32x8f16", 32, 32, 8, 1, E::f16, E::f16},
    {"v_mfma_f32_16x16x16f16", 16, 16, 16, 1, E::f16, E::f16},
    {"v_mfma_f32_32x32x4bf16_1k", 32, 32, 4, 2, E::bf16, E::bf16},
    {"v_mfma_f32_16x16x4bf16_1k", 16, 16, 4, 4, E::bf16, E::bf16},
    {"v_mfma_f32_4x4x4bf16_1k", 4, 4, 4, 16, E::bf16, E::bf16},
    {"v_mfma_f32_32x32x8bf16_1k", 32, 32, 8, 1, E::bf16, E::bf16},
    {"v_mfma_f32_16x16x16bf16_1k", 16, 16, 16, 1, E::bf16, E::bf16},
    {"v_mfma_f32_32x32x2bf16", 32, 32, 2, 2, E::bf16, E::bf16},
    {"v_mfma_f32_16x16x2bf16", 16, 16, 2, 4, E::bf16, E::bf16},
    {"v_mfma_f32_4x4x2bf16", 4, 4, 2, 16, E::bf16, E::bf16},
    {"v_mfma_f32_32x32x4bf16", 32, 32, 4, 1, E::bf16, E::bf16},
    {"v_mfma_f32_16x16x8bf16", 16, 16, 8, 1, E::bf16, E::bf16},
    {"v_mfma_i32_32x32x4i8", 32, 32, 4, 2, E::i8, E::i8},
    {"v_mfma_i32_16x16x4i8", 16, 16, 4, 4, E::i8, E::i8},
    {"v_mfma_i32_4x4x4i8", 4, 4, 4, 16, E::i8, E::i8},
    {"v_mfma_i32_32x32x8i8", 32, 32, 8, 1, E::i8, E::i8},
    {"v_mfma_i32_16x16x16i8", 16, 16, 16, 1, E::i8, E::i8},
    {"v_mfma_f64_16x16x4f64", 16, 16, 4, 1, E::f64, E::f64},
    {"v_mfma_f64_4x4x4f64", 4, 4, 4, 4, E::f64, E::f64},
    // The same under the names of gfx942 and later.
    {"v_mfma_f32_32x32x1_2b_f32", 32, 32, 1, 2, E::f32, E::f32},
    {"v_mfma_f32_16x16x1_4b_f32", 16, 16, 1, 4, E::f32, E::f32},
    {"v_mfma_f32_4x4x1_16b_f32", 4, 4, 1, 16, E::f32, E::f32},
    {"v_mfma_f32_32x32x2_f32", 32, 32, 2, 1, E::f32, E::f32},
    {"v_mfma_f32_16x16x4_f32", 16, 16, 4, 1, E::f32, E::f32},
    {"v_mfma_f32_32x32x4_2b_f16", 32, 32, 4, 2, E::f16, E::f16},
    {"v_mfma_f32_16x16x4_4b_f16", 16, 16, 4, 4, E::f16, E::f16},
    {"v_mfma_f32_4x4x4_16b_f16", 4, 4, 4, 16, E::f16, E::f16},
    {"v_mfma_f32_32x32x8_f16", 32, 32, 8, 1, E::f16, E::f16},
    {"v_mfma_f32_16x16x16_f16", 16, 16, 16, 1, E::f16, E::f16},
    {"v_mfma_f32_32x32x4_2b_bf16", 32, 32, 4, 2, E::bf16, E::bf16},
    {"v_mfma_f32_16x16x4_4b_bf16", 16, 16, 4, 4, E::bf16, E::bf16},
    {"v_mfma_f32_4x4x4_16b_bf16", 4, 4, 4, 16, E::bf16, E::bf16},
    {"v_mfma_f32_32x32x8_bf16", 32, 32, 8, 1, E::bf16, E::bf16},
    {"v_mfma_f32_16x16x16_bf16", 16, 16, 16, 1, E::bf16, E::bf16},
    {"v_mfma_i32_32x32x4_2b_i8", 32, 32, 4, 2, E::i8, E::i8},
    {"v_mfma_i32_16x16x4_4b_i8", 16, 16, 4, 4, E::i8, E::i8},
    {"v_mfma_i32_4x4x4_16b_i8", 4, 4, 4, 16, E::i8, E::i8},
    {"v_mfma_f64_16x16x4_f64", 16, 16, 4, 1, E::f64, E::f64},
    {"v_mfma_f64_4x4x4_4b_f64", 4, 4, 4, 4, E::f64, E::f64},
    // gfx942.
    {"v_mfma_i32_32x32x16_i8", 32, 32, 16, 1, E::i8, E::i8},
    {"v_mfma_i32_16x16x32_i8", 16, 16, 32, 1, E::i8, E::i8},
    {"v_mfma_f32_32x32x4_xf32", 32, 32, 4, 1, E::xf32, E::xf32},
    {"v_mfma_f32_16x16x8_xf32", 16, 16, 8, 1, E::xf32, E::xf32},
    {"v_mfma_f32_32x32x16_fp8_fp8", 32, 32, 16, 1, E::fp8, E::fp8},
    {"v_mfma_f32_32x32x16_fp8_bf8", 32, 32, 16, 1, E::fp8, E::bf8},
    {"v_mfma_f32_32x32x16_bf8_fp8", 32, 32, 16, 1, E::bf8, E::fp8},
    {"v_mfma_f32_32x32x16_bf8_bf8", 32, 32, 16, 1, E::bf8, E::bf8},
    {"v_mfma_f32_16x16x32_fp8_fp8", 16, 16, 32, 1, E::fp8, E::fp8},
    {"v_mfma_f32_16x16x32_fp8_bf8", 16, 16, 32, 1, E::fp8, E::bf8},
    {"v_mfma_f32_16x16x32_bf8_fp8", 16, 16, 32, 1, E::bf8, E::fp8},
    {"v_mfma_f32_16x16x32_bf8_bf8", 16, 16, 32, 1, E::bf8, E::bf8},
    // gfx950.
    {"v_mfma_f32_32x32x16_f16", 32, 32, 16, 1, E::f16, E::f16},
    {"v_mfma_f32_16x16x32_f16", 16, 16, 32, 1, E::f16, E::f16},
    {"v_mfma_f32_32x32x16_bf16", 32, 32, 16, 1, E::bf16, E::bf16},
    {"v_mfma_f32_16x16x32_bf16", 16, 16, 32, 1, E::bf16, E::bf16},
    {"v_mfma_i32_32x32x32_i8", 32, 32, 32, 1, E::i8, E::i8},
    {"v_mfma_i32_16x16x64_i8", 16, 16, 64, 1, E::i8, E::i8},
    {"v_mfma_f32_32x32x64_f8f6f4", 32, 32, 64, 1, E::f8f6f4, E::f8f6f4},
    {"v_mfma_f32_16x16x128_f8f6f4", 16, 16, 128, 1, E::f8f6f4, E::f8f6f4},
    {"v_mfma_scale_f32_32x32x64_f8f6f4", 32, 32, 64, 1, E::f8f6f4, E::f8f6f4},
    {"v_mfma_scale_f32_16x16x128_f8f6f4", 16, 16, 128, 1, E::f8f6f4, E::f8f6f4},
};

}  // namespace

std::span<const MatrixShape> matrix_shapes() {
  return kTable;
}

Coordinate a_coordinate(const MatrixShape& s, int lane, int e, int bits) {
  const int group = lane / (s.m * s.blocks), per_lane = s.elements();
  int k = group * per_lane + e;
  // 8-bit f8f6f4 operands are two runs of 16, half of K apart; 6- and 4-bit ones are one run of 32.
  if (s.a == E::f8f6f4 && bits == 8) k = s.k / 2 * (e / 16) + 16 * group + e % 16;
  return {lane % s.m, k, lane / s.m % s.blocks};
}

Coordinate b_coordinate(const MatrixShape& s, int lane, int e, int bits) {
  const Coordinate c = a_coordinate(s, lane, e, bits);  // square shapes: B is the mirror image
  return {c.column, c.row, c.block};
}

Coordinate d_coordinate(const MatrixShape& s, int lane, int e) {
  if (s.a == E::f64) {
    if (s.m == 4) return {lane / 16, lane % 4, lane / 4 % 4};
    return {lane / 16 + 4 * e, lane % 16, 0};
  }
  if (s.m == 32) return {8 * (e % 16 / 4) + 4 * (lane / 32) + e % 4, lane % 32, e / 16};
  if (s.m == 16) return {4 * (lane / 16) + e % 4, lane % 16, e / 4};
  return {e, lane % 4, lane / 4};
}

}  // namespace kiln::emulator::amdgcn
