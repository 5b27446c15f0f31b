#include "emulator/tensor/wgmma_kernel.hpp"

#include "emulator/tensor/numeric.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kiln::emulator {

namespace {

using Kernel = void (*)(const AccumulatorBlock&, const float*, const float*, int, bool);

void multiply_generic(const AccumulatorBlock& block, const float* a, const float* b, int k_extent,
                      bool accumulate) {
  for (int row = 0; row < 8; ++row) {
    float sums[8] = {};
    std::uint32_t* const halves[2] = {block.even + 4 * row, block.odd + 4 * row};
    for (int j = 0; accumulate && j < 8; ++j) sums[j] = std::bit_cast<float>(halves[j / 4][j % 4]);
    for (int k = 0; k < k_extent; ++k) {
      const float factor = a[row * k_extent + k];
      for (int j = 0; j < 8; ++j) sums[j] += factor * b[8 * k + j];
    }
    for (int j = 0; j < 8; ++j) halves[j / 4][j % 4] = std::bit_cast<std::uint32_t>(canonicalize(sums[j]));
  }
}

#if defined(__x86_64__)
// Fused multiply-add gives the same sums as above: the products of all operand types are exact in f32.
__attribute__((target("avx2,fma"))) void multiply_avx2(const AccumulatorBlock& block, const float* a,
                                                       const float* b, int k_extent, bool accumulate) {
  // The vector loads and stores below may alias any type.
  float* const even = reinterpret_cast<float*>(block.even);
  float* const odd = reinterpret_cast<float*>(block.odd);
  __m256 sums[8];
  for (int row = 0; row < 8; ++row) {
    sums[row] = accumulate ? _mm256_loadu2_m128(odd + 4 * row, even + 4 * row) : _mm256_setzero_ps();
  }
  for (int k = 0; k < k_extent; ++k) {
    const __m256 columns = _mm256_loadu_ps(b + 8 * k);
#pragma GCC unroll 8
    for (int row = 0; row < 8; ++row) {
      sums[row] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + row * k_extent + k), columns, sums[row]);
    }
  }
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  for (int row = 0; row < 8; ++row) {
    const __m256 unordered = _mm256_cmp_ps(sums[row], sums[row], _CMP_UNORD_Q);
    const __m256 result = _mm256_blendv_ps(sums[row], nan, unordered);
    _mm256_storeu2_m128(odd + 4 * row, even + 4 * row, result);
  }
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

void multiply_block(const AccumulatorBlock& block, const float* a, const float* b, int k_extent,
                    bool accumulate) {
  static const Kernel kernel = choose();
  kernel(block, a, b, k_extent, accumulate);
}

}  // namespace kiln::emulator
