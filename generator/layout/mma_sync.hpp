// Fragments of mma.sync m16n8k16 (bf16, fp16) and m16n8k32 (fp8), and the 8x8 matrices of ldmatrix and
// stmatrix. PTX ISA, "Matrix fragments for mma.m16n8k16" and "mma.m16n8k32"; lane = 4*g + t.
//
//   A, k16: 8 elements in 4 registers        B, k16: 4 elements in 2         C: 4 floats
//            k 0..7      k 8..15                     n 0..7                          n 0..7
//   m 0..7  a0: g, 2t..  a2: g, 8+2t..       k 0..7  b0: k 2t.., n g         m 0..7  c0 c1: g, 2t..
//   m 8..15 a1: g+8, ..  a3: g+8, ..         k 8..15 b1: k 8+2t.., n g       m 8..15 c2 c3: g+8, 2t..
//
//   k32 is k16 with groups of four consecutive k per register instead of two.
#pragma once

#include "generator/layout/fragment.hpp"

namespace kiln::layout {

/// A of m16n8kK as rows = m, cols = k. `k` is 16 (2-byte elements) or 32 (1-byte elements).
FragmentMap mma_a(int k);
/// B of m16n8kK as rows = k, cols = n.
FragmentMap mma_b(int k);
/// C and D of m16n8kK as rows = m, cols = n.
FragmentMap mma_c();

/// P goes from the accumulators of S to the A operand of P V by renaming registers: A element e of a k16 step
/// is accumulator e % 4 of n-tile e / 4.
bool accumulators_are_a_fragments();

/// One ldmatrix or stmatrix .x{matrices}: register r of a lane holds two 16-bit elements of matrix r.
/// Rows of matrix r are stored at the addresses of lanes 8r .. 8r+7.
///
///   plain: lane 4g+t holds row g, columns 2t 2t+1;   .trans: rows 2t 2t+1 of column g
struct MatrixElement {
  int matrix = 0, row = 0, col = 0;
  bool operator==(const MatrixElement&) const = default;
};
MatrixElement ldmatrix(int lane, int element, bool trans);

/// What each 8x8 matrix of an .x4 covers in a 16x16 tile: matrix i starts at row 8*row, column 8*col of it.
enum class MatrixOrder {
  rows_first,  ///< (0,0) (8,0) (0,8) (8,8): an A operand; V as B operand through .trans
  cols_first,  ///< (0,0) (0,8) (8,0) (8,8): K (rows = n, contiguous k) as B operand
};
Coord matrix_origin(MatrixOrder order, int matrix);
/// Row and 16-byte chunk (0, 1) of the 16x16 tile whose address lane `lane` gives to an .x4.
Coord ldmatrix_source(MatrixOrder order, int lane);

}  // namespace kiln::layout
