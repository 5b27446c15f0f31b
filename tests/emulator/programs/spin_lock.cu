// A critical section: a spin lock by compare-and-swap, taken by one thread of each block, protecting plain data.
extern "C" __global__ void locked(int* lock, int* data, int rounds) {
  if (threadIdx.x != 0) return;
  for (int i = 0; i < rounds; ++i) {
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
    __threadfence();
    data[0] += 1;
    data[1] += data[0];
    __threadfence();
    atomicExch(lock, 0);
  }
}
