// Cooperative groups: tiles of four sizes, reductions and scans of the library, coalesced groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void groups(const int* in, int* sums8, int* scans16, int* odd_ranks, int* block_max) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile8 = cg::tiled_partition<8>(block);
  const auto tile16 = cg::tiled_partition<16>(block);
  const int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
  const int sum = cg::reduce(tile8, value, cg::plus<int>());
  if (tile8.thread_rank() == 0) sums8[i / 8] = sum;
  scans16[i] = cg::inclusive_scan(tile16, value);
  odd_ranks[i] = -1;
  if (value % 2 != 0) {
    const cg::coalesced_group odd = cg::coalesced_threads();
    odd_ranks[i] = static_cast<int>(odd.thread_rank());
  }
  __shared__ int greatest;
  if (block.thread_rank() == 0) greatest = 0;
  block.sync();
  const int of_warp = cg::reduce(cg::tiled_partition<32>(block), value, cg::greater<int>());
  if (threadIdx.x % 32 == 0) atomicMax(&greatest, of_warp);
  block.sync();
  if (block.thread_rank() == 0) block_max[blockIdx.x] = greatest;
}
