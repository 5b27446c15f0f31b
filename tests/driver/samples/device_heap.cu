// Memory that kernels allocate: new and delete with constructors, a container on malloc, a limit of the heap.
#include "common.hpp"

class Stack {
 public:
  __device__ explicit Stack(int room) : data_(new int[room]) {}
  __device__ virtual ~Stack() { delete[] data_; }
  __device__ virtual void push(int x) { data_[size_++] = x; }
  __device__ virtual int pop() { return data_[--size_]; }

 private:
  int *data_, size_ = 0;
};
__device__ Stack* global_stack;

__global__ void make() { global_stack = new Stack(256); }
__global__ void use(int* out) {
  __shared__ int* s;
  if (threadIdx.x == 0) s = static_cast<int*>(malloc(blockDim.x * sizeof(int)));
  __syncthreads();
  if (s == nullptr) return;
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    free(s);
    if (blockIdx.x == 0)
      for (int i = 0; i < 10; ++i) global_stack->push(i);
  }
}
__global__ void finish(int* out) {
  int sum = 0;
  for (int i = 0; i < 10; ++i) sum = 2 * sum + global_stack->pop();
  *out = sum;
  delete global_stack;
  void* p = malloc(size_t(1) << 40);
  if (p != nullptr) *out = -1;
}

int main() {
  OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
  int* out = on_device<int>(256);
  make<<<1, 1>>>();
  use<<<4, 64>>>(out);
  const auto got = to_host(out, 256);
  for (int i = 0; i < 256; ++i) EXPECT(got[i] == 63 - i % 64);
  finish<<<1, 1>>>(out);
  int want = 0;
  for (int i = 9; i >= 0; --i) want = 2 * want + i;
  EXPECT(to_host(out, 1)[0] == want);
  return right();
}
