// Sums by cooperative groups: tiles of a warp, cg::reduce, blocks of several sizes in two passes.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "common.hpp"
namespace cg = cooperative_groups;

template <int Threads>
__global__ void sum(const int* in, int* out, int n) {
  __shared__ int parts[Threads / 32];
  const cg::thread_block block = cg::this_thread_block();
  const auto warp = cg::tiled_partition<32>(block);
  int mine = 0;
  for (int i = blockIdx.x * Threads * 2 + threadIdx.x; i < n; i += gridDim.x * Threads * 2) {
    mine += in[i];
    if (i + Threads < n) mine += in[i + Threads];
  }
  mine = cg::reduce(warp, mine, cg::plus<int>());
  if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = mine;
  cg::sync(block);
  if (warp.meta_group_rank() == 0) {
    mine = warp.thread_rank() < warp.meta_group_size() ? parts[warp.thread_rank()] : 0;
    mine = cg::reduce(warp, mine, cg::plus<int>());
    if (warp.thread_rank() == 0) out[blockIdx.x] = mine;
  }
}
template <int Threads>
int total(const int* in, int* out, int n) {
  const int blocks = std::min(16, (n + 2 * Threads - 1) / (2 * Threads));
  sum<Threads><<<blocks, Threads>>>(in, out, n);
  sum<32><<<1, 32>>>(out, out + 16, blocks);
  return to_host(out + 16, 1)[0];
}

int main() {
  for (const int n : {1, 1000, 12345}) {
    const std::vector<int> in = some_ints(n, 100);
    int want = 0;
    for (const int x : in) want += x;
    int *d = to_device(in), *out = on_device<int>(32);
    EXPECT(total<512>(d, out, n) == want);
    EXPECT(total<128>(d, out, n) == want);
    EXPECT(total<64>(d, out, n) == want);
    OK(cudaFree(d));
    OK(cudaFree(out));
  }
  return right();
}
