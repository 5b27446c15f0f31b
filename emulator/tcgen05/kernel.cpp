#include "emulator/tcgen05/kernel.hpp"

#include "emulator/tensor/numeric.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kiln::emulator::tcgen05 {
namespace {

using Kernel = void (*)(CellFloat* const*, const float* const*, int, const float*, int, int, int, bool);

void multiply_generic(CellFloat* const* d, const float* const* a, int rows, const float* b, int stride,
                      int columns, int k, bool accumulate) {
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < columns; ++j) {
      float sum = accumulate ? d[r][j] : 0.0F;
      for (int i = 0; i < k; ++i) sum = __builtin_fmaf(a[r][i], b[i * stride + j], sum);
      d[r][j] = canonicalize(sum);
    }
}

#if defined(__x86_64__)
/// Rows x 8 * Vectors columns in registers.
template <int Rows, int Vectors>
__attribute__((target("avx2,fma"))) void tile(CellFloat* const* d, const float* const* a, const float* b,
                                              int stride, int column, int k, bool accumulate) {
  __m256 sums[Rows][Vectors];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v)
      sums[r][v] = accumulate ? _mm256_loadu_ps(d[r] + column + std::ptrdiff_t{8} * v) : _mm256_setzero_ps();
  for (int i = 0; i < k; ++i) {
    const float* const line = b + std::ptrdiff_t{i} * stride + column;
    __m256 columns[Vectors];
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) columns[v] = _mm256_loadu_ps(line + std::ptrdiff_t{8} * v);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const __m256 factor = _mm256_broadcast_ss(a[r] + i);
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v) sums[r][v] = _mm256_fmadd_ps(factor, columns[v], sums[r][v]);
    }
  }
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v) {
      const __m256 unordered = _mm256_cmp_ps(sums[r][v], sums[r][v], _CMP_UNORD_Q);
      _mm256_storeu_ps(d[r] + column + std::ptrdiff_t{8} * v, _mm256_blendv_ps(sums[r][v], nan, unordered));
    }
}

template <int Rows>
__attribute__((target("avx2,fma"))) void rows_of(CellFloat* const* d, const float* const* a, const float* b,
                                                 int stride, int columns, int k, bool accumulate) {
  int j = 0;
  for (; j + 24 <= columns; j += 24) tile<Rows, 3>(d, a, b, stride, j, k, accumulate);
  for (; j + 16 <= columns; j += 16) tile<Rows, 2>(d, a, b, stride, j, k, accumulate);
  for (; j + 8 <= columns; j += 8) tile<Rows, 1>(d, a, b, stride, j, k, accumulate);
}

__attribute__((target("avx2,fma"))) void multiply_avx2(CellFloat* const* d, const float* const* a, int rows,
                                                       const float* b, int stride, int columns, int k,
                                                       bool accumulate) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) rows_of<4>(d + r, a + r, b, stride, columns, k, accumulate);
  for (; r < rows; ++r) rows_of<1>(d + r, a + r, b, stride, columns, k, accumulate);
}

Kernel choose() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? multiply_avx2 : multiply_generic;
}
#else
Kernel choose() {
  return multiply_generic;
}
#endif

}  // namespace

void multiply_rows(CellFloat* const* d, const float* const* a, int rows, const float* b, int stride,
                   int columns, int k, bool accumulate) {
  static const Kernel kernel = choose();
  kernel(d, a, rows, b, stride, columns, k, accumulate);
}

}  // namespace kiln::emulator::tcgen05
