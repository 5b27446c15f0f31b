// Cooperative groups: sums of blocks and tiles, partitions by a predicate, coalesced groups that add once for all.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "common.hpp"
namespace cg = cooperative_groups;

template <class Group>
__device__ int group_sum(const Group& g, int* s, int value) {
  const int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    s[lane] = value;
    g.sync();
    if (lane < i) value += s[lane + i];
    g.sync();
  }
  return g.thread_rank() == 0 ? value : -1;
}
__global__ void sums(int* out) {
  extern __shared__ int s[];
  const cg::thread_block block = cg::this_thread_block();
  const int whole = group_sum(block, s, block.thread_rank());
  if (block.thread_rank() == 0) out[0] = whole;
  block.sync();
  const auto tile = cg::tiled_partition<16>(block);
  const int part = group_sum(tile, s + block.thread_rank() - tile.thread_rank(), tile.thread_rank());
  if (tile.thread_rank() == 0) out[1 + block.thread_rank() / 16] = part;
}
__device__ int add_one(int* counter) {
  const cg::coalesced_group active = cg::coalesced_threads();
  int before = 0;
  if (active.thread_rank() == 0) before = atomicAdd(counter, active.size());
  return active.shfl(before, 0) + active.thread_rank();
}
__global__ void keep_odd(int* out, int* counter, const int* in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    if (in[i] & 1) out[add_one(counter)] = in[i];
}
__global__ void partition(int* sums, const int* in) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  const auto same = cg::binary_partition(warp, bool(value & 1));
  const int sum = cg::reduce(same, value, cg::plus<int>());
  if (same.thread_rank() == 0) atomicAdd(&sums[value & 1], sum);
}

int main() {
  int* out = on_device<int>(5000);
  sums<<<1, 64, 64 * 4>>>(out);
  EXPECT(to_host(out, 5) == (std::vector<int>{64 * 63 / 2, 120, 120, 120, 120}));
  const int n = 4096;
  const std::vector<int> in = some_ints(n, 1000);
  int *d = to_device(in), *counter = on_device<int>(3);
  OK(cudaMemset(counter, 0, 12));
  keep_odd<<<4, 256>>>(out, counter, d, n);
  partition<<<n / 256, 256>>>(counter + 1, d);
  int count = 0, odd = 0, even = 0;
  for (const int x : in) count += x & 1, (x & 1 ? odd : even) += x;
  EXPECT(to_host(counter, 3) == (std::vector<int>{count, even, odd}));
  int kept = 0;
  for (const int x : to_host(out, count)) kept += x;
  EXPECT(kept == odd);
  return right();
}
