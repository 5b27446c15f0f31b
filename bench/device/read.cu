// Pure read of `count` 16-byte words: what the memory gives when nothing else is asked of it. The bound of decode.
extern "C" __global__ void __launch_bounds__(512, 2) read_words(const uint4* words, long long count, unsigned* out) {
  uint4 x = make_uint4(0, 0, 0, 0);
  const long long step = (long long)gridDim.x * blockDim.x;
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + 7 * step < count; i += 8 * step) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                   : "l"(words + i + j * step));
#pragma unroll
    for (int j = 0; j < 8; ++j) x.x ^= v[j].x, x.y ^= v[j].y, x.z ^= v[j].z, x.w ^= v[j].w;
  }
  for (; i < count; i += step) x.x ^= words[i].x, x.y ^= words[i].y;
  if ((x.x ^ x.y ^ x.z ^ x.w) == 0x9e3779b9u) *out = 1;
}
