// Byte histogram: LDS atomics per block, then global ones.
KERNEL(256) histogram(const u8* x, u32* bins, int n) {
  __shared__ u32 s[256];
  s[tid()] = 0;
  sync();
  for (int i = block_x() * 256 + tid(); i < n; i += 256 * 3) atomic_add_shared(&s[x[i]], 1);
  sync();
  if (s[tid()] != 0) atomic_add(&bins[tid()], s[tid()]);
}
