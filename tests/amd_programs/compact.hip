// Stream compaction: ballot, mbcnt, one atomic per wave; order within the wave is kept.
KERNEL(256) compact(const int* x, int* out, u32* count, int n) {
  const int i = block_x() * 256 + tid();
  const int v = i < n ? x[i] : 0;
  const bool keep = i < n && v % 3 == 0;
  const u64 mask = __builtin_amdgcn_uicmp((u32)keep, 0u, 33);
  const int before = (int)__builtin_amdgcn_mbcnt_hi((u32)(mask >> 32), __builtin_amdgcn_mbcnt_lo((u32)mask, 0));
  u32 base = 0;
  if (lane_id() == 0) base = atomic_add(count, (u32)__builtin_popcountll(mask));
  base = __builtin_amdgcn_readfirstlane(base);
  if (keep) out[base + before] = v;
}
