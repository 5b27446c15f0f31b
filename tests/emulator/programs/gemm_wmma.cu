// c = a b (row-major), one warp per 16 x 16 tile through nvcuda::wmma, the result doubled in the fragment and passed
// through shared memory; then an 8-bit integer product.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void gemm_wmma(const __half* a, const __half* b, float* c, const signed char* ia, const signed char* ib,
                                     int* ic, int n, int k) {
  __shared__ float tile[16 * 20];
  const int row = 16 * blockIdx.y, column = 16 * blockIdx.x;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> isum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::fill_fragment(isum, 0);
  for (int x = 0; x < k; x += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, a + row * k + x, k);
    wmma::load_matrix_sync(fb, b + x * n + column, n);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> ja;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> jb;
    wmma::load_matrix_sync(ja, ia + row * k + x, k);
    wmma::load_matrix_sync(jb, ib + column * k + x, k);
    wmma::mma_sync(isum, ja, jb, isum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2.0f;
  wmma::store_matrix_sync(tile, sum, 20, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) c[(row + i / 16) * n + column + i % 16] = tile[i / 16 * 20 + i % 16];
  wmma::store_matrix_sync(ic + row * n + column, isum, n, wmma::mem_row_major);
}
