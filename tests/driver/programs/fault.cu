// A kernel that writes where nothing is: the error comes with the next call and stays.
#include <cuda_runtime.h>

#include "check.hpp"

__global__ void store(int* p) {
  *p = 1;
}

int main() {
  int* good;
  OK(cudaMalloc(&good, 4));
  store<<<1, 1>>>(reinterpret_cast<int*>(16));
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
  EXPECT(cudaMalloc(&good, 4) == cudaErrorIllegalAddress);
  std::puts("fault: seen");
  return 0;
}
