// A library with kernels and NVIDIA's runtime of its own, for opened.cu. It uses the device while it is opened.
#include "check.hpp"

namespace {

__device__ int offset = 7;
__global__ void add(const int* in, int* out, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i] + offset;
}

struct Buffer {
  Buffer() { OK(cudaMalloc(&memory, 4096)); }
  ~Buffer() { cudaFree(memory); }
  int* memory = nullptr;
} buffer;

}  // namespace

extern "C" int use(int first) {
  constexpr int kCount = 500;
  int in[kCount], out[kCount];
  for (int i = 0; i < kCount; ++i) in[i] = first + i;
  OK(cudaMemcpy(buffer.memory, in, sizeof in, cudaMemcpyHostToDevice));
  int* result = nullptr;
  OK(cudaMalloc(&result, sizeof out));
  add<<<4, 128>>>(buffer.memory, result, kCount);
  OK(cudaGetLastError());
  OK(cudaMemcpy(out, result, sizeof out, cudaMemcpyDeviceToHost));
  OK(cudaFree(result));
  for (int i = 0; i < kCount; ++i)
    if (out[i] != first + i + 7) return 1;
  return 0;
}
