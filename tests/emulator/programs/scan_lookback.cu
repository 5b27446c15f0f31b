// Single-pass scan with decoupled look-back: blocks publish flags with release stores and wait for their predecessors.
#include <cuda/atomic>

extern "C" __global__ void scan(const int* in, int* out, unsigned* tickets, int* sums, int* prefixes, int* flags) {
  __shared__ int scratch[128];
  __shared__ int ticket, before;
  const int t = threadIdx.x;
  // Blocks take numbers in the order in which they start, so that every predecessor is running.
  if (t == 0) ticket = static_cast<int>(atomicAdd(tickets, 1u));
  __syncthreads();
  const int block = ticket;
  int value = in[block * 128 + t];
  scratch[t] = value;
  __syncthreads();
  for (int offset = 1; offset < 128; offset *= 2) {
    const int other = t >= offset ? scratch[t - offset] : 0;
    __syncthreads();
    value += other;
    scratch[t] = value;
    __syncthreads();
  }
  if (t == 127) {
    using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
    int prefix = 0;
    if (block > 0) {
      sums[block] = value;
      Flag(flags[block]).store(1, cuda::memory_order_release);
      for (int previous = block - 1; previous >= 0; --previous) {
        int state = 0;
        while ((state = Flag(flags[previous]).load(cuda::memory_order_acquire)) == 0) {
        }
        if (state == 2) {
          prefix += prefixes[previous];
          break;
        }
        prefix += sums[previous];
      }
    }
    prefixes[block] = prefix + value;
    Flag(flags[block]).store(2, cuda::memory_order_release);
    before = prefix;
  }
  __syncthreads();
  out[block * 128 + t] = before + value;
}
