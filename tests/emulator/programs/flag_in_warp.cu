// One lane of a warp tells the others of it, which spin on a flag.
#include <cuda/atomic>

extern "C" __global__ void flag_in_warp(int* out) {
  __shared__ unsigned flag;
  __shared__ int data;
  cuda::atomic_ref<unsigned, cuda::thread_scope_block> told(flag);
  if (threadIdx.x == 0) told.store(0, cuda::memory_order_relaxed);
  __syncthreads();
  if (threadIdx.x == 0) {
    data = 42;
    told.store(1, cuda::memory_order_release);
  } else {
    while (told.load(cuda::memory_order_acquire) == 0) {
    }
  }
  out[threadIdx.x] = data + (int)threadIdx.x;
}
