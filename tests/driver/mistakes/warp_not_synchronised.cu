// A sum within a warp by shared memory, written for lanes in lockstep, and unrolled.
#include "launch.hpp"

__global__ void sum(const int* in, int* out) {
  __shared__ int s[32];
  int v = in[threadIdx.x];
#pragma unroll
  for (int i = 1; i < 32; i *= 2) {
    s[threadIdx.x] = v;  // a __syncwarp() belongs after this
    v += s[threadIdx.x ^ i];
    __syncwarp();
  }
  out[threadIdx.x] = v;
}
inline int main() {
  sum<<<1, 32>>>(device<int>(32), device<int>(32));
  return end();
}
