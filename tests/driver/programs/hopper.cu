// Managed memory, a grid that synchronises, clusters with distributed shared memory.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "check.hpp"

namespace cg = cooperative_groups;

__managed__ int total = 3;

__global__ void reverse_twice(int* data, int n) {
  const cg::grid_group grid = cg::this_grid();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int mine = data[n - 1 - i];
  grid.sync();
  data[i] = mine + 1;
  grid.sync();
  if (i == 0) total = data[0] + data[n - 1];
}

__global__ void neighbours(int* out) {
  __shared__ int value;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) value = 10 * static_cast<int>(blockIdx.x);
  cluster.sync();
  if (threadIdx.x == 0)
    out[blockIdx.x] = *cluster.map_shared_rank(&value, (cluster.block_rank() + 1) % cluster.num_blocks());
  cluster.sync();
}

int main() {
  const int n = 4 * 64;
  int* data;
  OK(cudaMallocManaged(&data, n * sizeof(int)));
  for (int i = 0; i < n; ++i) data[i] = i;
  int size = n;
  void* args[] = {&data, &size};
  EXPECT(total == 3);
  OK(cudaLaunchCooperativeKernel((const void*)reverse_twice, dim3(4), dim3(64), args, 0, nullptr));
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT(data[i] == n - i);
  EXPECT(total == n + 1);
  EXPECT(cudaLaunchCooperativeKernel((const void*)reverse_twice, dim3(100000), dim3(64), args, 0, nullptr) ==
         cudaErrorCooperativeLaunchTooLarge);
  cudaGetLastError();

  int* out;
  OK(cudaMallocManaged(&out, 8 * sizeof(int)));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(8);
  config.blockDim = dim3(32);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {4, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, neighbours, out));
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 8; ++i) EXPECT(out[i] == 10 * (i / 4 * 4 + (i + 1) % 4));
  std::puts("hopper: right");
  return 0;
}
