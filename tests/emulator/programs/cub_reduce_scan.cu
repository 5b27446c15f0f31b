// cub::BlockReduce and cub::BlockScan over the same values.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

extern "C" __global__ void block_sums(const int* in, int* total, int* prefix) {
  using Reduce = cub::BlockReduce<int, 128>;
  using Scan = cub::BlockScan<int, 128>;
  __shared__ union {
    Reduce::TempStorage reduce;
    Scan::TempStorage scan;
  } storage;
  int items[4];
  for (int i = 0; i < 4; ++i) items[i] = in[(blockIdx.x * 128 + threadIdx.x) * 4 + i];
  const int sum = Reduce(storage.reduce).Sum(items);
  if (threadIdx.x == 0) total[blockIdx.x] = sum;
  __syncthreads();
  Scan(storage.scan).ExclusiveSum(items, items);
  for (int i = 0; i < 4; ++i) prefix[(blockIdx.x * 128 + threadIdx.x) * 4 + i] = items[i];
}
