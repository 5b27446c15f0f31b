// Sorting: bitonic networks in shared and global memory, odd-even merging, and a merge of sorted runs by ranks.
#include <algorithm>

#include "common.hpp"

constexpr int kShared = 256;

__device__ void order(int& a, int& b, bool up) {
  if ((a > b) == up) {
    const int t = a;
    a = b;
    b = t;
  }
}
__global__ void bitonic_shared(int* keys) {
  __shared__ int s[kShared];
  int* base = keys + blockIdx.x * kShared;
  s[threadIdx.x] = base[threadIdx.x];
  s[threadIdx.x + kShared / 2] = base[threadIdx.x + kShared / 2];
  for (int size = 2; size <= kShared; size <<= 1) {
    const bool up = size < kShared ? (threadIdx.x & (size / 2)) == 0 : (blockIdx.x & 1) == 0;
    for (int stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      const int at = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      order(s[at], s[at + stride], up);
    }
  }
  __syncthreads();
  base[threadIdx.x] = s[threadIdx.x];
  base[threadIdx.x + kShared / 2] = s[threadIdx.x + kShared / 2];
}
__global__ void bitonic_global(int* keys, int size, int stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, at = 2 * i - (i & (stride - 1));
  order(keys[at], keys[at + stride], (i & (size / 2)) == 0);
}
__global__ void odd_even(int* keys, int size, int stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, at = 2 * i - (i & (stride - 1));
  if (stride < size / 2) {
    if ((i & (size / 2 - 1)) >= stride) order(keys[at - stride], keys[at], true);
  } else {
    order(keys[at], keys[at + stride], true);
  }
}
/// Every key of two neighbouring sorted runs goes to its own place plus its rank in the other run.
__global__ void merge_runs(int* out, const int* in, int run) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, mine = i / run, other = mine ^ 1;
  int low = other * run, high = low + run;
  const int key = in[i];
  while (low < high) {
    const int middle = (low + high) / 2;
    if (in[middle] < key || (mine > other && in[middle] == key)) low = middle + 1;
    else high = middle;
  }
  out[min(mine, other) * run + (i - mine * run) + (low - other * run)] = key;
}

int main() {
  const int n = 2048;
  const std::vector<int> in = some_ints(n, 5000);
  std::vector<int> want = in;
  std::sort(want.begin(), want.end());
  int *a = to_device(in), *b = on_device<int>(n);
  bitonic_shared<<<n / kShared, kShared / 2>>>(a);
  for (int size = 2 * kShared; size <= n; size <<= 1)
    for (int stride = size / 2; stride > 0; stride >>= 1) bitonic_global<<<n / 256, 128>>>(a, size, stride);
  EXPECT(to_host(a, n) == want);
  OK(cudaMemcpy(a, in.data(), n * 4, cudaMemcpyHostToDevice));
  for (int size = 2; size <= n; size <<= 1)
    for (int stride = size / 2; stride > 0; stride >>= 1) odd_even<<<n / 256, 128>>>(a, size, stride);
  EXPECT(to_host(a, n) == want);
  OK(cudaMemcpy(a, in.data(), n * 4, cudaMemcpyHostToDevice));
  for (int run = 1; run < n; run *= 2, std::swap(a, b)) merge_runs<<<n / 128, 128>>>(b, a, run);
  EXPECT(to_host(a, n) == want);
  return right();
}
