// A warp sorts 4 keys a lane by merging; the block does the same with fewer keys than places.
#include <cub/block/block_merge_sort.cuh>
#include <cub/warp/warp_merge_sort.cuh>

struct Less {
  __device__ bool operator()(int a, int b) const { return a < b; }
};

extern "C" __global__ void cub_merge_sort(const int* in, int* out, int* block_out, int valid) {
  using Warp = cub::WarpMergeSort<int, 4, 32>;
  using Block = cub::BlockMergeSort<int, 64, 4>;
  __shared__ typename Warp::TempStorage warp_storage[2];
  __shared__ typename Block::TempStorage block_storage;
  const int warp = threadIdx.x / 32;
  int keys[4], all[4];
  for (int i = 0; i < 4; ++i) {
    keys[i] = in[threadIdx.x * 4 + i];
    all[i] = threadIdx.x * 4 + i < valid ? keys[i] : 1 << 30;
  }
  Warp(warp_storage[warp]).Sort(keys, Less());
  Block(block_storage).Sort(all, Less(), valid, 1 << 30);
  for (int i = 0; i < 4; ++i) {
    out[threadIdx.x * 4 + i] = keys[i];
    block_out[threadIdx.x * 4 + i] = all[i];
  }
}
