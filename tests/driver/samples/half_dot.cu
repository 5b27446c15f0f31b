// A scalar product of halves: by intrinsics and by operators, in pairs, reduced in shared memory.
#include <cuda_fp16.h>

#include <cmath>

#include "common.hpp"

__device__ __forceinline__ void reduce(__half2* v) {
  for (int i = 64; i > 0; i /= 2) {
    __syncthreads();
    if (threadIdx.x < i) v[threadIdx.x] = __hadd2(v[threadIdx.x], v[threadIdx.x + i]);
  }
  __syncthreads();
}
__global__ void dot(const half2* a, const half2* b, float* out, size_t n, bool operators) {
  __shared__ half2 s[128];
  half2 sum = __float2half2_rn(0.f);
  for (size_t i = threadIdx.x + blockDim.x * blockIdx.x; i < n; i += blockDim.x * gridDim.x)
    if (operators) sum = a[i] * b[i] + sum;
    else sum = __hfma2(a[i], b[i], sum);
  s[threadIdx.x] = sum;
  reduce(s);
  if (threadIdx.x == 0) out[blockIdx.x] = __low2float(s[0]) + __high2float(s[0]);
}

int main() {
  const int n = 2048, blocks = 4;
  const std::vector<int> x = some_ints(2 * n, 4), y = some_ints(2 * n, 4, 5);
  std::vector<half2> a(n), b(n);
  float want = 0;
  for (int i = 0; i < n; ++i) {
    a[i] = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
    b[i] = __floats2half2_rn(y[2 * i], y[2 * i + 1]);
    want += x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
  }
  half2 *da = to_device(a), *db = to_device(b);
  float* out = on_device<float>(blocks);
  for (const bool operators : {false, true}) {
    dot<<<blocks, 128>>>(da, db, out, n, operators);
    float got = 0;
    for (const float part : to_host(out, blocks)) got += part;
    EXPECT(std::fabs(got - want) < 0.01 * want);
  }
  return right();
}
