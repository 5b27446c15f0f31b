// Half of a program of relocatable device code: the other half has a function, a variable and a table of its own name.
#include <cuda_runtime.h>

#include "check.hpp"

extern __device__ int twice(int x);
extern __device__ int counter;
static __device__ int table[2] = {1, 2};
__global__ void other(int* out);

__global__ void run(int* out) {
  out[threadIdx.x] = twice(threadIdx.x) + counter + table[threadIdx.x % 2];
}

int main() {
  int* p;
  OK(cudaMallocManaged(&p, 256));
  run<<<1, 32>>>(p);
  other<<<1, 1>>>(p + 32);
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 32; ++i) EXPECT(p[i] == 2 * i + 5 + 1 + i % 2);
  EXPECT(p[32] == 30);
  int seven = 7;
  OK(cudaMemcpyFromSymbol(&seven, counter, 4));
  EXPECT(seven == 5);
  std::puts("relocatable: right");
  return 0;
}
