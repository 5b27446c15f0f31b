// 4-bit and one-bit products of nvcuda::wmma::experimental.
#include <mma.h>
using namespace nvcuda;
using namespace nvcuda::wmma::experimental;

extern "C" __global__ void wmma_bits(const unsigned* a, const unsigned* b, int* fours, int* bits) {
  wmma::fragment<wmma::matrix_a, 8, 8, 32, precision::s4, wmma::row_major> a4;
  wmma::fragment<wmma::matrix_b, 8, 8, 32, precision::s4, wmma::col_major> b4;
  wmma::fragment<wmma::accumulator, 8, 8, 32, int> c4;
  wmma::fill_fragment(c4, 3);
  wmma::load_matrix_sync(a4, a, 32);
  wmma::load_matrix_sync(b4, b, 32);
  wmma::mma_sync(c4, a4, b4, c4);
  wmma::store_matrix_sync(fours, c4, 8, wmma::mem_row_major);
  wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> a1;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> b1;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> c1;
  wmma::fill_fragment(c1, 0);
  wmma::load_matrix_sync(a1, a, 128);
  wmma::load_matrix_sync(b1, b, 128);
  wmma::bmma_sync(c1, a1, b1, c1);
  wmma::store_matrix_sync(bits, c1, 8, wmma::mem_col_major);
}
