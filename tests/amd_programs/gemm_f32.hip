// C = A B in FP32, 16 x 16 tiles in LDS, no matrix instructions.
KERNEL(256) gemm_f32(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float sa[16][16], sb[16][17];
  const int tx = tid() % 16, ty = tid() / 16, row = block_y() * 16 + ty, col = block_x() * 16 + tx;
  float acc = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    sa[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
    sb[ty][tx] = col < n && k0 + ty < k ? b[(k0 + ty) * n + col] : 0.0f;
    sync();
    for (int i = 0; i < 16; ++i) acc += sa[ty][i] * sb[i][tx];
    sync();
  }
  if (row < m && col < n) c[row * n + col] = acc;
}
