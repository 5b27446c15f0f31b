// Producer and consumer warps with a two-slot ring and named barriers (bar.sync, bar.arrive).
__device__ void sync_on(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__device__ void arrive_on(int id) { asm volatile("bar.arrive %0, 128;" ::"r"(id) : "memory"); }

extern "C" __global__ void ring(const int* in, int* out, int tiles) {
  __shared__ int slots[2][64];
  const int t = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    for (int i = 0; i < tiles; ++i) {
      if (i >= 2) sync_on(3 + i % 2);  // the slot is empty again
      slots[i % 2][t] = in[i * 64 + t] * 3;
      __threadfence_block();
      arrive_on(1 + i % 2);  // the slot is full
    }
  } else {
    for (int i = 0; i < tiles; ++i) {
      sync_on(1 + i % 2);
      out[i * 64 + t] = slots[i % 2][63 - t] + 1;
      if (i + 2 < tiles) arrive_on(3 + i % 2);
    }
  }
}
