// A pipeline of copies whose wait is missing, unrolled.
#include <cuda_pipeline.h>

#include "launch.hpp"

__global__ void sum(const int* in, int* out) {
  __shared__ alignas(16) int s[2][256];
  int total = 0;
  __pipeline_memcpy_async(&s[0][threadIdx.x * 4], in + threadIdx.x * 4, 16);
  __pipeline_commit();
#pragma unroll
  for (int t = 0; t < 6; ++t) {
    if (t + 1 < 6) __pipeline_memcpy_async(&s[(t + 1) % 2][threadIdx.x * 4], in + (t + 1) * 256 + threadIdx.x * 4, 16);
    __pipeline_commit();
    __syncthreads();  // a __pipeline_wait_prior(1) belongs before this
    total += s[t % 2][threadIdx.x * 3];
    __syncthreads();
  }
  out[threadIdx.x] = total;
}
inline int main() {
  sum<<<1, 64>>>(device<int>(6 * 256), device<int>(64));
  return end();
}
