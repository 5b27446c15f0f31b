// Uses the GPU, something that is not implemented, and returns 3.
#include <cuda_runtime.h>

#include "check.hpp"

__global__ void fill(int* p) {
  p[threadIdx.x] = 1;
}

int main() {
  int* p;
  if (cudaMalloc(&p, 128) != cudaSuccess) return 4;
  fill<<<1, 32>>>(p);
  if (cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return 5;
  cudaIpcMemHandle_t handle;
  EXPECT(cudaIpcGetMemHandle(&handle, p) == cudaErrorNotSupported);
  EXPECT(cudaIpcGetMemHandle(&handle, p) == cudaErrorNotSupported);
  return 3;
}
