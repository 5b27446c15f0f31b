// cub::BlockRadixSort of key-value pairs.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

extern "C" __global__ void sort(unsigned* keys, int* values) {
  using Sort = cub::BlockRadixSort<unsigned, 64, 4, int>;
  __shared__ Sort::TempStorage storage;
  unsigned key[4];
  int value[4];
  cub::LoadDirectBlocked(threadIdx.x, keys + blockIdx.x * 256, key);
  for (int i = 0; i < 4; ++i) value[i] = static_cast<int>(threadIdx.x) * 4 + i;
  Sort(storage).Sort(key, value);
  cub::StoreDirectBlocked(threadIdx.x, keys + blockIdx.x * 256, key);
  cub::StoreDirectBlocked(threadIdx.x, values + blockIdx.x * 256, value);
}
