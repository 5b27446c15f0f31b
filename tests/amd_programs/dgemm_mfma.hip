// C = A B in FP64 with 16x16x4 MFMA, one wave per 16 x 16 tile, straight from memory.
typedef double double4v __attribute__((ext_vector_type(4)));
KERNEL(64) dgemm_mfma(const double* a, const double* b, double* c, int n, int k) {
  const int lane = tid(), m0 = block_y() * 16, n0 = block_x() * 16;
  double4v acc = {0, 0, 0, 0};
  for (int k0 = 0; k0 < k; k0 += 4) {
    const double fa = a[(m0 + lane % 16) * k + k0 + lane / 16], fb = b[(k0 + lane / 16) * n + n0 + lane % 16];
    acc = __builtin_amdgcn_mfma_f64_16x16x4f64(fa, fb, acc, 0, 0, 0);
  }
  for (int e = 0; e < 4; ++e) c[(m0 + lane / 16 + 4 * e) * n + n0 + lane % 16] = acc[e];
}
