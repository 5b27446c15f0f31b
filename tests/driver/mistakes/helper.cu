// The barrier is missing in a function that is inlined at three places, and in two instances of a template.
#include "launch.hpp"

template <class T>
__device__ __forceinline__ T block_sum(T value, T* s) {
  s[threadIdx.x] = value;
  T sum = 0;  // a __syncthreads() belongs before this
  for (int i = 0; i < 64; ++i) sum += s[i];
  __syncthreads();
  return sum;
}
template <class T>
__global__ void moments(const T* in, T* out) {
  __shared__ T s[64];
  const T x = in[threadIdx.x];
  const T one = block_sum(x, s), two = block_sum(x * x, s);
  out[threadIdx.x] = one + two + block_sum(x * x * x, s);
}
inline int main() {
  moments<<<1, 64>>>(device<float>(64), device<float>(64));
  moments<<<1, 64>>>(device<int>(64), device<int>(64));
  return end();
}
