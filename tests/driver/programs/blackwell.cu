// A program for compute capability 10.0: each thread's word goes through tensor memory.
#include <cstdio>

#include <cuda_runtime.h>

__global__ void through_tensor_memory(const unsigned* in, unsigned* out) {
  __shared__ unsigned base;
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&base));
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(at) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  __syncthreads();
  const unsigned quarter = base + (threadIdx.x / 32 << 21);  // a warp has 32 lanes of its own
  unsigned word = in[threadIdx.x];
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(quarter), "r"(word) : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(quarter) : "memory");
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  out[threadIdx.x] = word + 1;
  __syncthreads();
  if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(base));
}

int main() {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return 1;
  std::printf("%s, %d.%d, %d SMs\n", properties.name, properties.major, properties.minor,
              properties.multiProcessorCount);
  constexpr unsigned kThreads = 128;
  unsigned *in, *out;
  cudaMallocManaged(&in, sizeof(unsigned) * kThreads);
  cudaMallocManaged(&out, sizeof(unsigned) * kThreads);
  for (unsigned i = 0; i < kThreads; ++i) in[i] = 1000 * i;
  through_tensor_memory<<<1, kThreads>>>(in, out);
  bool right = cudaDeviceSynchronize() == cudaSuccess;
  for (unsigned i = 0; right && i < kThreads; ++i) right = out[i] == 1000 * i + 1;
  std::printf("blackwell: %s\n", right ? "right" : "WRONG");
  return right ? 0 : 1;
}
