// A scan that reads and writes one array: the barrier between reading and writing is missing, eight times unrolled.
#include "launch.hpp"

__global__ void scan(const int* in, int* out) {
  __shared__ int s[256];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int step = 1; step < 256; step *= 2) {
    int v = s[threadIdx.x];
    if (threadIdx.x >= step) v += s[threadIdx.x - step];
    s[threadIdx.x] = v;  // a __syncthreads() belongs before this
    __syncthreads();
  }
  out[threadIdx.x] = s[threadIdx.x];
}
inline int main() {
  scan<<<1, 256>>>(device<int>(256), device<int>(256));
  return end();
}
