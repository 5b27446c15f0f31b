// The inner product of tcgen05.mma on rows of floats. Internal to the tensor operations.
#pragma once

namespace kiln::emulator::tcgen05 {

/// A cell of tensor memory as a float.
using CellFloat [[gnu::may_alias]] = float;

/// Rows of D (+)= rows of A times B: d[r][j] (+)= sum over k of a[r][k] * b[k * stride + j] for j < columns, ascending
/// k, canonical NaNs. `columns` is a multiple of 8.
void multiply_rows(CellFloat* const* d, const float* const* a, int rows, const float* b, int stride,
                   int columns, int k, bool accumulate);

}  // namespace kiln::emulator::tcgen05
