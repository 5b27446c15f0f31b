// Persistent blocks that take work items from a counter; switch statement, local array, device function not inlined.
__device__ __noinline__ unsigned collatz(unsigned n) {
  unsigned steps = 0;
  for (; n != 1; ++steps) n = n % 2 ? 3 * n + 1 : n / 2;
  return steps;
}

extern "C" __global__ void work(unsigned* next, unsigned* out, int items) {
  __shared__ int item;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) item = static_cast<int>(atomicAdd(next, 1u));
    __syncthreads();
    if (item >= items) return;
    const unsigned n = item * 64 + threadIdx.x + 1;
    unsigned digits[10] = {};
    for (unsigned rest = n; rest; rest /= 10) ++digits[rest % 10];
    unsigned result = 0;
    switch (n % 4) {
      case 0: result = collatz(n); break;
      case 1: result = digits[n % 10]; break;
      case 2: result = n / 7 * 7; break;
      default: result = __brev(n); break;
    }
    out[n - 1] = result;
  }
}
