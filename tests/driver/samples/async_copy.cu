// Copies to shared memory that do not wait: cooperative_groups::memcpy_async, cuda::memcpy_async on a barrier of the
// block, and a pipeline shared by producers and consumers.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>

#include "common.hpp"
namespace cg = cooperative_groups;

constexpr int kTile = 128;

__global__ void by_group(int* out, const int* in, int tiles) {
  __shared__ int s[2][kTile];
  const auto block = cg::this_thread_block();
  int sum = 0;
  cg::memcpy_async(block, s[0], in, sizeof(int) * kTile);
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      cg::memcpy_async(block, s[(t + 1) % 2], in + (t + 1) * kTile, sizeof(int) * kTile);
      cg::wait_prior<1>(block);
    } else {
      cg::wait(block);
    }
    block.sync();
    sum += s[t % 2][kTile - 1 - threadIdx.x];
    block.sync();
  }
  out[threadIdx.x] = sum;
}
__global__ void by_barrier(int* out, const int* in, int tiles) {
  __shared__ int s[kTile];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  const auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) {
    init(&ready, block.size());
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // copies may be bulk copies
  }
  block.sync();
  int sum = 0;
  for (int t = 0; t < tiles; ++t) {
    cuda::memcpy_async(block, s, in + t * kTile, cuda::aligned_size_t<16>(sizeof(int) * kTile), ready);
    ready.arrive_and_wait();
    sum += s[kTile - 1 - threadIdx.x];
    ready.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}
__global__ void by_roles(int* out, const int* in, int tiles) {
  __shared__ int s[3][kTile];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> state;
  const auto block = cg::this_thread_block();
  const bool producer = threadIdx.x >= kTile;
  auto pipe = cuda::make_pipeline(block, &state, producer ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  if (producer) {
    for (int t = 0; t < tiles; ++t) {
      pipe.producer_acquire();
      const int lane = threadIdx.x - kTile;
      for (int i = lane * 4; i < kTile; i += 32 * 4)
        cuda::memcpy_async(&s[t % 3][i], in + t * kTile + i, cuda::aligned_size_t<16>(16), pipe);
      pipe.producer_commit();
    }
    return;
  }
  int sum = 0;
  for (int t = 0; t < tiles; ++t) {
    pipe.consumer_wait();
    sum += s[t % 3][kTile - 1 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}

int main() {
  const int tiles = 7;
  const std::vector<int> in = some_ints(tiles * kTile, 1000);
  std::vector<int> want(kTile);
  for (int i = 0; i < tiles * kTile; ++i) want[kTile - 1 - i % kTile] += in[i];
  int *d = to_device(in), *out = on_device<int>(kTile);
  by_group<<<1, kTile>>>(out, d, tiles);
  EXPECT(to_host(out, kTile) == want);
  by_barrier<<<1, kTile>>>(out, d, tiles);
  EXPECT(to_host(out, kTile) == want);
  by_roles<<<1, kTile + 32>>>(out, d, tiles);
  EXPECT(to_host(out, kTile) == want);
  return right();
}
