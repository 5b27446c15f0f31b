// cub::BlockLoad (transposing), cub::BlockExchange, cub::BlockStore, cub::BlockHistogram.
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>

extern "C" __global__ void exchange(const unsigned char* in, unsigned char* striped, unsigned char* copy, unsigned* histogram) {
  using Load = cub::BlockLoad<unsigned char, 128, 8, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Exchange = cub::BlockExchange<unsigned char, 128, 8>;
  using Store = cub::BlockStore<unsigned char, 128, 8, cub::BLOCK_STORE_TRANSPOSE>;
  using Histogram = cub::BlockHistogram<unsigned char, 128, 8, 64, cub::BLOCK_HISTO_ATOMIC>;
  __shared__ union {
    Load::TempStorage load;
    Exchange::TempStorage exchange;
    Store::TempStorage store;
    Histogram::TempStorage histogram;
  } storage;
  __shared__ unsigned bins[64];
  unsigned char items[8], other[8];
  Load(storage.load).Load(in, items);
  __syncthreads();
  for (int i = 0; i < 8; ++i) other[i] = items[i];
  Store(storage.store).Store(copy, other);  // rearranges its argument
  __syncthreads();
  Exchange(storage.exchange).BlockedToStriped(items, other);
  for (int i = 0; i < 8; ++i) striped[threadIdx.x * 8 + i] = other[i];
  __syncthreads();
  Histogram(storage.histogram).Histogram(items, bins);
  __syncthreads();
  if (threadIdx.x < 64) histogram[threadIdx.x] = bins[threadIdx.x];
}
