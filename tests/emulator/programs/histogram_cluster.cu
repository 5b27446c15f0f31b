// Histogram whose bins are spread over the shared memory of a cluster's blocks (distributed shared memory).
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void histogram(const int* in, unsigned* bins, int n, int bins_per_block) {
  extern __shared__ unsigned local[];
  const cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) local[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned* owner = cluster.map_shared_rank(local, in[i] / bins_per_block);
    atomicAdd(&owner[in[i] % bins_per_block], 1u);
  }
  cluster.sync();
  const unsigned first = cluster.block_rank() * bins_per_block;
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) atomicAdd(&bins[first + i], local[i]);
}
