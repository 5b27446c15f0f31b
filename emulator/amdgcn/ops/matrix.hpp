// Shapes and register layouts of the dense MFMA instructions. Internal (and for the layout tests).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kiln::emulator::amdgcn {

enum class Element : std::uint8_t { f64, f32, xf32, bf16, f16, i8, fp8, bf8, f8f6f4 };

struct MatrixShape {
  std::string_view name;  ///< mnemonic
  int m, n, k, blocks;
  Element a, b;
  int elements() const { return m * k * blocks / 64; }  ///< of A (and of B) per lane
  int results() const { return m * n * blocks / 64; }   ///< of D per lane
};
struct Coordinate {
  int row, column, block;
};

std::span<const MatrixShape> matrix_shapes();

/// A[row m][column k] that element `e` of lane `lane` holds; `bits` is the width of an f8f6f4 element, else
/// ignored.
Coordinate a_coordinate(const MatrixShape& shape, int lane, int e, int bits = 8);
/// B[row k][column n].
Coordinate b_coordinate(const MatrixShape& shape, int lane, int e, int bits = 8);
/// D[row m][column n], and C alike.
Coordinate d_coordinate(const MatrixShape& shape, int lane, int e);

}  // namespace kiln::emulator::amdgcn
