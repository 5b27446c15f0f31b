// C = A B^T in BF16 with 32x32x8 MFMA: four waves, a 64 x 64 tile, K strips of 32 through LDS.
typedef short short4v __attribute__((ext_vector_type(4)));
typedef float float16v __attribute__((ext_vector_type(16)));
KERNEL(256) gemm_mfma(const short* a, const short* b, float* c, int n, int k) {
  __shared__ short sa[64][40], sb[64][40];
  const int t = tid(), lane = t % 64, wave = t / 64, m0 = block_y() * 64, n0 = block_x() * 64;
  float16v acc = {0};
  for (int k0 = 0; k0 < k; k0 += 32) {
    const int row = t / 4, col = t % 4 * 8;
    *(__attribute__((ext_vector_type(4))) int*)&sa[row][col] = *(__attribute__((ext_vector_type(4))) int*)&a[(m0 + row) * k + k0 + col];
    *(__attribute__((ext_vector_type(4))) int*)&sb[row][col] = *(__attribute__((ext_vector_type(4))) int*)&b[(n0 + row) * k + k0 + col];
    sync();
    for (int kk = 0; kk < 32; kk += 8) {
      const short4v fa = *(short4v*)&sa[wave / 2 * 32 + lane % 32][kk + lane / 32 * 4];
      const short4v fb = *(short4v*)&sb[wave % 2 * 32 + lane % 32][kk + lane / 32 * 4];
      acc = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(fa, fb, acc, 0, 0, 0);
    }
    sync();
  }
  for (int e = 0; e < 16; ++e) {
    const int row = m0 + wave / 2 * 32 + 8 * (e / 4) + 4 * (lane / 32) + e % 4;
    c[row * n + n0 + wave % 2 * 32 + lane % 32] = acc[e];
  }
}
