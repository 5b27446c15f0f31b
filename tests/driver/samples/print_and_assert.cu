// printf from kernels, in order within a thread; then an assertion that fails, which the host sees as an error.
#include <cassert>

#include "common.hpp"

__global__ void say(float x, const char* unused) {
  printf("block %d of %u, thread (%d,%d): %s %5.2f %lld %c %%\n", blockIdx.x, gridDim.x, threadIdx.x, threadIdx.y,
         threadIdx.x ? "odd" : "even", x, 1ll << 40, 'z');
}
__global__ void check(int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(i < n);
}

int main() {
  say<<<2, dim3(2, 1)>>>(1.5f, nullptr);
  OK(cudaDeviceSynchronize());
  check<<<2, 32>>>(64);
  OK(cudaDeviceSynchronize());
  check<<<2, 32>>>(60);
  EXPECT(cudaDeviceSynchronize() == cudaErrorAssert);
  EXPECT(cudaGetLastError() == cudaErrorAssert);
  OK(cudaDeviceReset());
  std::puts("right");
  return 0;
}
