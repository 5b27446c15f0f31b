// Sum of an array: grid-stride loop, LDS tree, one float atomic per block.
KERNEL(256) reduce(const float* x, float* sum, int n) {
  __shared__ float s[256];
  const int t = tid();
  float a = 0;
  for (int i = block_x() * 256 + t; i < n; i += 256 * 4) a += x[i];
  s[t] = a;
  for (int d = 128; d > 0; d >>= 1) {
    sync();
    if (t < d) s[t] += s[t + d];
  }
  if (t == 0) atomic_add(sum, s[0]);
}
