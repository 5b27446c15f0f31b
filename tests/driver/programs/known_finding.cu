// Two kernels, each of which exchanges values through shared memory: `early` reads without a barrier (run it with an
// argument), `other` waits as it should. Nothing of it is printed.
#include <cstdio>

__global__ void early(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = threadIdx.x < 32 ? 0 : s[threadIdx.x - 32];
}

__global__ void other(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = s[(threadIdx.x + 32) % 64];
}

int main(int count, char**) {
  int* out = nullptr;
  cudaMalloc(&out, 64 * sizeof(int));
  if (count > 1) early<<<1, 64>>>(out);
  other<<<1, 64>>>(out);
  const bool good = cudaDeviceSynchronize() == cudaSuccess;
  std::puts(good ? "ended" : "failed");
  return good ? 0 : 1;
}
