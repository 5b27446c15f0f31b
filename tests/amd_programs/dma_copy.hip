// Memory -> LDS by buffer loads with LDS destination, two stages, counted waits; LDS -> memory reversed.
typedef int int4v __attribute__((ext_vector_type(4)));
DEVICE void dma(int4v buffer, u32 lds, u32 offset) {
  __asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tbuffer_load_dword %1, %2, 0 offen lds" ::"s"(lds), "v"(offset), "s"(buffer) : "memory");
}
KERNEL(256) dma_copy(const u32* x, u32* y, u32 bytes, int tiles) {
  __shared__ u32 stage[2][1024];
  const u32 wave = __builtin_amdgcn_readfirstlane(tid() / 64), lane = tid() % 64;
  const u64 base = (u64)x;
  const int4v buffer = {(int)base, (int)(base >> 32), (int)bytes, 0x00027000};
  const u32 lds = (u32)(u64)(__attribute__((address_space(3))) u32*)&stage[0][0];
  for (int i = 0; i < 4; ++i) dma(buffer, lds + (wave * 4 + i) * 256, (wave * 4 + i) * 256 + lane * 4);
  for (int t = 0; t < tiles; ++t) {
    const u32 next = t + 1 < tiles ? t + 1 : tiles - 1;
    for (int i = 0; i < 4; ++i)
      dma(buffer, lds + (t + 1) % 2 * 4096 + (wave * 4 + i) * 256, next * 4096 + (wave * 4 + i) * 256 + lane * 4);
    __asm volatile("s_waitcnt vmcnt(4)\n\ts_barrier" ::: "memory");
    u32 v[4];
    for (int i = 0; i < 4; ++i) v[i] = *(volatile u32*)&stage[t % 2][1023 - (tid() * 4 + i)];
    for (int i = 0; i < 4; ++i) y[t * 1024 + tid() * 4 + i] = v[i];
    __asm volatile("s_waitcnt vmcnt(0) lgkmcnt(0)\n\ts_barrier" ::: "memory");
  }
}
