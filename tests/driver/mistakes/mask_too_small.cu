// All 32 lanes shuffle with a mask of 16, five steps unrolled.
#include "launch.hpp"

__global__ void sum(const int* in, int* out) {
  int v = in[threadIdx.x];
#pragma unroll
  for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(0xffff, v, i);
  out[threadIdx.x] = v;
}
inline int main() {
  sum<<<1, 32>>>(device<int>(32), device<int>(32));
  return end();
}
