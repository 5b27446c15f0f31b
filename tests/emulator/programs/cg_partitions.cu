// Groups of lanes that meet in one instruction, each with a mask of its own; and tiles of several warps, which use
// the shared memory that is reserved for cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void partitions(const int* in, int* by_label, unsigned* ballots, int* by_tile) {
  const cg::thread_block block = cg::this_thread_block();
  const int i = static_cast<int>(threadIdx.x), value = in[i];
  const auto warp = cg::tiled_partition<32>(block);
  const auto label = cg::labeled_partition(warp, value % 3);
  by_label[i] = cg::reduce(label, value, cg::plus<int>());
  ballots[i] = cg::tiled_partition<16>(block).ballot(value % 2);
  const auto tile = cg::tiled_partition<64>(block);
  by_tile[i] = cg::reduce(tile, value, cg::plus<int>());
}
