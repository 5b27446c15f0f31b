// Warp intrinsics: votes, matches, ballots that compact, shuffles that scan, and one atomic for the active lanes.
#include "common.hpp"

__device__ int add_for_all(int* counter) {
  const unsigned active = __activemask();
  const int leader = __ffs(active) - 1, lane = threadIdx.x & 31;
  int before = 0;
  if (lane == leader) before = atomicAdd(counter, __popc(active));
  before = __shfl_sync(active, before, leader);
  return before + __popc(active & ((1u << lane) - 1));
}
__global__ void keep(int* out, int* counter, const int* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] > 50) out[add_for_all(counter)] = in[i];
}
__global__ void votes(int* out, const int* in) {
  const int i = threadIdx.x, x = in[i];
  const unsigned all = 0xffffffffu;
  out[i] = __any_sync(all, x == 7) + 2 * __all_sync(all, x < 100) + 4 * (__popc(__ballot_sync(all, x & 1)) > 16);
  out[32 + i] = __popc(__match_any_sync(all, x % 4));
  out[64 + i] = __reduce_add_sync(all, x);
  int sum = x;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(all, sum, step);
    if (i >= step) sum += other;
  }
  out[96 + i] = sum;
}

int main() {
  const int n = 3000;
  const std::vector<int> in = some_ints(n, 100);
  int *d = to_device(in), *out = on_device<int>(n), *counter = on_device<int>(1);
  OK(cudaMemset(counter, 0, 4));
  keep<<<(n + 127) / 128, 128>>>(out, counter, d, n);
  long want = 0, got = 0;
  int count = 0;
  for (const int x : in)
    if (x > 50) want += x, ++count;
  EXPECT(to_host(counter, 1)[0] == count);
  for (const int x : to_host(out, count)) got += x;
  EXPECT(got == want);
  votes<<<1, 32>>>(out, d);
  const auto r = to_host(out, 128);
  int any = 0, odd = 0, sum = 0, same[4] = {};
  for (int i = 0; i < 32; ++i) any |= in[i] == 7, odd += in[i] & 1, ++same[in[i] % 4];
  for (int i = 0; i < 32; ++i) {
    sum += in[i];
    EXPECT(r[i] == any + 2 + 4 * (odd > 16) && r[32 + i] == same[in[i] % 4] && r[96 + i] == sum);
  }
  EXPECT(r[64] == sum);
  return right();
}
