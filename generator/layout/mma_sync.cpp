#include "generator/layout/mma_sync.hpp"

namespace kiln::layout {

FragmentMap mma_a(int k) {
  const int run = k / 8;  // consecutive k of one register
  return {16, k, 32, k / 2, [run, k](int lane, int e) {
            const int reg = e / run;
            return Coord{lane / 4 + 8 * (reg % 2), run * (lane % 4) + e % run + k / 2 * (reg / 2)};
          }};
}

FragmentMap mma_b(int k) {
  const int run = k / 8;
  return {k, 8, 32, k / 4, [run, k](int lane, int e) {
            return Coord{run * (lane % 4) + e % run + k / 2 * (e / run), lane / 4};
          }};
}

FragmentMap mma_c() {
  return {16, 8, 32, 4, [](int lane, int e) {
            return Coord{lane / 4 + 8 * (e / 2), 2 * (lane % 4) + e % 2};
          }};
}

bool accumulators_are_a_fragments() {
  const FragmentMap a = mma_a(16), c = mma_c();
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < 8; ++e) {
      const Coord score = c(lane, e % 4);
      if (a(lane, e) != Coord{score.row, score.col + 8 * (e / 4)}) return false;
    }
  }
  return true;
}

MatrixElement ldmatrix(int lane, int element, bool trans) {
  const int major = lane / 4, minor = 2 * (lane % 4) + element % 2;
  return trans ? MatrixElement{element / 2, minor, major} : MatrixElement{element / 2, major, minor};
}

Coord matrix_origin(MatrixOrder order, int matrix) {
  const int low = 8 * (matrix % 2), high = 8 * (matrix / 2);
  return order == MatrixOrder::rows_first ? Coord{low, high} : Coord{high, low};
}

Coord ldmatrix_source(MatrixOrder order, int lane) {
  const Coord origin = matrix_origin(order, lane / 8);
  return {origin.row + lane % 8, origin.col / 8};
}

}  // namespace kiln::layout
