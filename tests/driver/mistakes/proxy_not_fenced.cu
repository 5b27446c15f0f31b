// Threads write a tile, and a bulk copy stores it; the fence between the proxies is missing, in each of four steps.
#include "launch.hpp"

__global__ void store(int* out) {
  __shared__ alignas(128) int s[64];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    s[threadIdx.x] = threadIdx.x + t;
    __syncthreads();  // a fence.proxy.async belongs before this
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(out + t * 64),
                   "r"((unsigned)__cvta_generic_to_shared(s))
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
  }
}
inline int main() {
  store<<<1, 64>>>(device<int>(256));
  return end();
}
