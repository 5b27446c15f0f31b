// A barrier is missing after the step of a tree, which nvcc unrolls.
#include "launch.hpp"

__global__ void sum(const float* in, float* out) {
  __shared__ float s[512];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 256; i > 0; i /= 2) {
    if (threadIdx.x < i) s[threadIdx.x] += s[threadIdx.x + i];
  }
  if (threadIdx.x == 0) *out = s[0];
}
inline int main() {
  sum<<<1, 512>>>(device<float>(512), device<float>(1));
  return end();
}
