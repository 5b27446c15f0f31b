// Single-pass scan over blocks with decoupled look-back: blocks wait for their predecessors through global memory.
KERNEL(256) lookback(const u32* x, u32* y, u32* state, u32* ticket) {
  __shared__ u32 s[256], block, prefix;
  const int t = tid();
  if (t == 0) block = atomic_add(ticket, 1);
  sync();
  const u32 b = block;
  s[t] = x[b * 256 + t];
  for (int d = 1; d < 256; d *= 2) {
    sync();
    const u32 v = t >= d ? s[t - d] : 0;
    sync();
    s[t] += v;
  }
  sync();
  if (t == 0) {
    u32 before = 0;
    if (b != 0) {
      u32 v;
      do v = __hip_atomic_load(&state[b - 1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
      while ((v & 0x80000000u) == 0);
      before = v & 0x7fffffffu;
    }
    __hip_atomic_store(&state[b], (before + s[255]) | 0x80000000u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    prefix = before;
  }
  sync();
  y[b * 256 + t] = s[t] + prefix;
}
