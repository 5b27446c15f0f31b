// 64-bit integer arithmetic: multiplication, division, shifts, remainders, and a call through a real function.
static __device__ __attribute__((noinline)) u64 mix(u64 h, u64 k) {
  h ^= k * 0x9e3779b97f4a7c15ull;
  h = (h << 27 | h >> 37) * 5 + 0x52dce729;
  return h;
}
KERNEL(64) hash(const u64* x, u64* y, u64 divisor) {
  const int t = block_x() * 64 + tid();
  u64 h = x[t];
  for (int i = 0; i < 4; ++i) h = mix(h, x[(t + i) % 64] / divisor + x[t] % (divisor + (u64)i));
  y[t] = h;
}
