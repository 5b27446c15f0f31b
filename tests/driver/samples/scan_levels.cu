// An exclusive scan longer than a block: scan of blocks, scan of their sums, and the sums added.
#include "common.hpp"

__device__ unsigned scan_block(unsigned value, volatile unsigned* s) {
  int at = 2 * threadIdx.x - (threadIdx.x & 31);
  at = threadIdx.x + blockDim.x;
  s[threadIdx.x] = 0;
  s[at] = value;
  for (unsigned step = 1; step < blockDim.x; step <<= 1) {
    __syncthreads();
    const unsigned t = s[at] + s[at - step];
    __syncthreads();
    s[at] = t;
  }
  return s[at] - value;
}
__global__ void scan(unsigned* out, const unsigned* in, unsigned* sums, int n) {
  __shared__ unsigned s[512];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned value = i < n ? in[i] : 0, before = scan_block(value, s);
  if (i < n) out[i] = before;
  if (sums != nullptr && threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = before + value;
}
__global__ void add(unsigned* out, const unsigned* sums, int n) {
  __shared__ unsigned base;
  if (threadIdx.x == 0) base = sums[blockIdx.x];
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += base;
}

int main() {
  const int n = 10000, blocks = (n + 255) / 256;
  std::vector<unsigned> in(n);
  for (int i = 0; i < n; ++i) in[i] = i % 7;
  unsigned *d = to_device(in), *out = on_device<unsigned>(n), *sums = on_device<unsigned>(256);
  scan<<<blocks, 256>>>(out, d, sums, n);
  scan<<<1, 256>>>(sums, sums, nullptr, blocks);
  add<<<blocks, 256>>>(out, sums, n);
  const auto got = to_host(out, n);
  unsigned want = 0;
  for (int i = 0; i < n; ++i) {
    EXPECT(got[i] == want);
    want += in[i];
  }
  return right();
}
