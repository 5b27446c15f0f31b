// Eight elements for each thread, and room for fewer.
#include "launch.hpp"

__global__ void scale(float* x) {
#pragma unroll
  for (int i = 0; i < 8; ++i) x[threadIdx.x + i * 64] = x[threadIdx.x + i * 64] * 2;
}
inline int main() {
  scale<<<1, 64>>>(device<float>(300));
  return end();
}
