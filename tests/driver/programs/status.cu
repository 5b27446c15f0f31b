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
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  EXPECT(cudaMallocArray(&array, &format, 8, 8, 0) == cudaErrorNotSupported);
  EXPECT(cudaMallocArray(&array, &format, 8, 8, 0) == cudaErrorNotSupported);
  return 3;
}
