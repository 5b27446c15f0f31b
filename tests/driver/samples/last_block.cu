// A sum in one launch: partial sums, a fence, a counter, and the last block adds up.
#include <cmath>

#include "common.hpp"

__device__ unsigned count = 0;
__device__ volatile float parts[64];

__device__ float block_sum(float value) {
  __shared__ float s[128];
  s[threadIdx.x] = value;
  __syncthreads();
  for (int i = blockDim.x / 2; i > 0; i /= 2) {
    if (threadIdx.x < i) s[threadIdx.x] += s[threadIdx.x + i];
    __syncthreads();
  }
  return s[0];
}
__global__ void sum(const float* in, float* out, int n) {
  __shared__ bool last;
  float mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += in[i];
  mine = block_sum(mine);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = mine;
    __threadfence();
    last = atomicInc(&count, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  mine = threadIdx.x < gridDim.x ? parts[threadIdx.x] : 0;
  __syncthreads();
  mine = block_sum(mine);
  if (threadIdx.x == 0) {
    *out = mine;
    count = 0;
  }
}

int main() {
  const int n = 30000;
  const std::vector<float> in = some_floats(n);
  double want = 0;
  for (const float x : in) want += x;
  float *d = to_device(in), *out = on_device<float>(1);
  for (int i = 0; i < 3; ++i) {
    OK(cudaMemset(out, 0, 4));
    sum<<<48, 128>>>(d, out, n);
    EXPECT(std::fabs(to_host(out, 1)[0] - want) < 1e-2);
  }
  return right();
}
