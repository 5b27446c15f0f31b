// PTX in the source: special registers, carries, byte permutations, prefetches, predicated branches, cache operators.
#include "common.hpp"

__global__ void run(unsigned* out, const unsigned* in) {
  unsigned lane, warp, smid, low, high, x = in[threadIdx.x], y;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm("mov.u32 %0, %%smid;" : "=r"(smid));
  asm("add.cc.u32 %0, %2, %2;\n\taddc.u32 %1, 0, 0;" : "=r"(low), "=r"(high) : "r"(x | 0x80000000u));
  asm("prmt.b32 %0, %1, %1, 0x0123;" : "=r"(y) : "r"(x));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(in));
  asm volatile("{\n\t.reg .pred p;\n\tsetp.lt.u32 p, %1, 16;\n\t@p bra SKIP_%=;\n\tadd.u32 %0, %0, 1;\nSKIP_%=:\n\t}" : "+r"(y) : "r"(lane));
  asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(out + 4 * threadIdx.x), "r"(lane + 100 * warp), "r"(low), "r"(high), "r"(y) : "memory");
  if (smid > 1000) out[0] = 0;
}

int main() {
  const std::vector<int> numbers = some_ints(64, 1 << 30);
  const std::vector<unsigned> in(numbers.begin(), numbers.end());
  unsigned *d = to_device(in), *out = on_device<unsigned>(256);
  run<<<1, 64>>>(out, d);
  const auto got = to_host(out, 256);
  for (unsigned i = 0; i < 64; ++i) {
    EXPECT(got[4 * i] == i % 32 + 100 * (i / 32) && got[4 * i + 1] == 2 * in[i] && got[4 * i + 2] == 1);
    EXPECT(got[4 * i + 3] == __builtin_bswap32(in[i]) + (i % 32 >= 16));
  }
  return right();
}
