// A barrier is missing: warp 1 reads what warp 0 writes.
#include <cuda_runtime.h>

#include "check.hpp"

__global__ void shift(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = values[63 - threadIdx.x];  // the finding
}

int main() {
  int* out;
  OK(cudaMalloc(&out, 256));
  shift<<<1, 64>>>(out);
  OK(cudaDeviceSynchronize());
  shift<<<1, 64>>>(out);
  OK(cudaDeviceSynchronize());
  return 0;
}
