// Neighbours exchange through shared memory, a counter is counted up, and small values are counted: one barrier, one
// atomic, one bound.
#include <cstdio>

__global__ void unused(int* x) {
  __shared__ int s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void exchange(int* x, int* count) {
  __shared__ int s[64];
  const int i = threadIdx.x;
  s[i] = x[i] + static_cast<int>(blockIdx.x);
  __syncthreads();
  const int other = s[63 - i];
  if (other < 20) atomicAdd(count, 1);
  x[64 * (blockIdx.x + 1) + i] = other;
}

int main() {
  int *x, *count, host[64], counted;
  cudaMalloc(&x, 5 * 64 * sizeof(int));
  cudaMalloc(&count, sizeof(int));
  for (int i = 0; i < 64; ++i) host[i] = i;
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemset(count, 0, sizeof(int));
  exchange<<<4, 64>>>(x, count);
  cudaMemcpy(host, x + 3 * 64, sizeof host, cudaMemcpyDeviceToHost);
  cudaMemcpy(&counted, count, sizeof counted, cudaMemcpyDeviceToHost);
  if (cudaGetLastError() != cudaSuccess) return 1;
  printf("%d %d %d, %d small\n", host[0], host[1], host[63], counted);
}
