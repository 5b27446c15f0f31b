// A barrier that half a warp reaches.
#include "launch.hpp"

__global__ void half(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 48) __syncthreads();
  __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
}
inline int main() {
  half<<<1, 64>>>(device<int>(64));
  return end();
}
