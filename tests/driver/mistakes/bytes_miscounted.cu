// A barrier expects other bytes than its copies bring, in each of four unrolled steps.
#include "launch.hpp"

__global__ void load(const int* in, int* out) {
  __shared__ alignas(128) int s[64];
  __shared__ alignas(8) unsigned long long ready;
  const unsigned bar = (unsigned)__cvta_generic_to_shared(&ready), to = (unsigned)__cvta_generic_to_shared(s);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
  __syncthreads();
  int sum = 0;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    if (threadIdx.x == 0)
      asm volatile(
          "mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;\n\t"  // 256
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 256, [%0];" ::"r"(bar),
          "r"(to), "l"(in + t * 64)
          : "memory");
    asm volatile(
        "{\n\t.reg .pred p;\n\tW_%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n\t@!p bra W_%=;\n\t}" ::"r"(bar),
        "r"(t & 1)
        : "memory");
    sum += s[threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
inline int main() {
  load<<<1, 64>>>(device<int>(256), device<int>(64));
  return end();
}
