// Recursive functions whose locals are passed down by address: each call's frame is its own.
__device__ __noinline__ int total(const int* below, int depth) {
  int own[6];
  for (int i = 0; i < 6; ++i) own[i] = depth * 6 + i + (below != nullptr ? below[i] : 0);
  int sum = 0;
  for (int i = 0; i < 6; ++i) sum += own[i];
  if (depth > 0) sum += total(own, depth - 1);
  for (int i = 0; i < 6; ++i) sum += own[i] % 3;
  return sum;
}

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion_frames(int* sums, int* values) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  sums[t] = total(nullptr, t % 7);
  values[t] = ackermann(2, t % 4);
}
