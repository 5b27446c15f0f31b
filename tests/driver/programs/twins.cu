// Pairs of kernels that differ in one step of synchronisation: `twins N` runs the Nth without the step, `twins N right`
// with it. Copies that fill with zeros, bytes counted by mbarriers, clusters, groups, atomics, flags.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstring>
#include <cuda/atomic>
#include <cuda/ptx>
#include "tests/driver/samples/common.hpp"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

__device__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
template <bool kRight>
__device__ void sync_if() {
  if (kRight) __syncthreads();
}
__device__ void copy_or_zero(int* to, const int* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
__device__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// A tail filled with zeros; each thread waits for its own copies, and reads its neighbour's.
template <bool kRight>
__global__ void zero_tail(const int* x, int* y, int n) {
  __shared__ int s[128];
  copy_or_zero(&s[threadIdx.x], x + threadIdx.x, threadIdx.x < n ? 4 : 0);
  wait_for_copies();
  sync_if<kRight>();
  y[threadIdx.x] = s[127 - threadIdx.x];
}
// Zeros come from nowhere, whatever the address; a whole copy has to lie in the array.
template <bool kRight>
__global__ void past_the_tail(const int* x, int* y, int n) {
  __shared__ int s[128];
  const int at = threadIdx.x + n - 64;
  copy_or_zero(&s[threadIdx.x], x + at, !kRight || at < n ? 4 : 0);
  wait_for_copies();
  __syncthreads();
  y[threadIdx.x] = s[127 - threadIdx.x];
}
// The arrival ends the phase, unless it expects the bytes.
template <bool kRight>
__global__ void bytes_expected(const int* x, int* y) {
  __shared__ alignas(16) int s[128];
  __shared__ alignas(8) uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    if (kRight)
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof s);
    else
      ptx::mbarrier_arrive(&bar);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, sizeof s, &bar);
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {
  }
  y[threadIdx.x] = s[127 - threadIdx.x];
}
// A ring of two stages; the parity turns when the ring has been gone round.
template <bool kRight>
__global__ void parity(const int* x, int* y) {
  __shared__ alignas(16) int s[2][64];
  __shared__ alignas(8) uint64_t bar[2];
  if (threadIdx.x == 0) {
    for (auto& b : bar) ptx::mbarrier_init(&b, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  int sum = 0;
  for (int k = 0; k < 6; ++k) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar[k & 1],
                                     sizeof s[0]);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s[k & 1], x + 64 * k, sizeof s[0],
                         &bar[k & 1]);
    }
    while (!ptx::mbarrier_try_wait_parity(&bar[k & 1], kRight ? k / 2 & 1 : 0)) {
    }
    sum += s[k & 1][63 - threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
// Blocks pass a value on; the place is written again before the other has read it.
template <bool kRight>
__global__ void __cluster_dims__(2) passed_twice(int* y) {
  __shared__ int box[2][64];
  auto cluster = cg::this_cluster();
  int v = threadIdx.x;
  cluster.sync();
  for (int k = 0; k < 4; ++k) {
    *cluster.map_shared_rank(&box[kRight ? k & 1 : 0][threadIdx.x], cluster.block_rank() ^ 1) = v + k;
    cluster.sync();
    v += box[kRight ? k & 1 : 0][63 - threadIdx.x];
  }
  y[blockIdx.x * 64 + threadIdx.x] = v;
  cluster.sync();
}
// A tile waits for itself, and reads what the warp's other tile has written.
template <bool kRight>
__global__ void half_warps(int* y) {
  __shared__ int s[32];
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  s[threadIdx.x] = threadIdx.x * 3;
  tile.sync();
  y[threadIdx.x] = s[kRight ? threadIdx.x ^ 15 : threadIdx.x ^ 16];
}
// The first of the threads that took a branch writes for all of them.
template <bool kRight>
__global__ void taken_together(const int* x, int* y) {
  __shared__ int s;
  if (x[threadIdx.x] % 2 != 0) {
    auto group = cg::coalesced_threads();
    const int sum = cg::reduce(group, x[threadIdx.x], cg::plus<int>());
    if (group.thread_rank() == 0) s = sum;
    if (kRight) group.sync();
    y[threadIdx.x] = s;
  }
}
// Sums of warps, read by the other warps.
template <bool kRight>
__global__ void warp_sums(const int* x, int* y) {
  __shared__ int s[4];
  int v = x[threadIdx.x];
  for (int d = 16; d != 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  if (kRight)
    __syncthreads();
  else
    __syncwarp();
  y[threadIdx.x] = s[0] + s[1] + s[2] + s[3];
}
using Flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
__device__ void wait_for(int* flag, int value) {
  while (Flag(*flag).load(cuda::memory_order_acquire) < value) {
  }
}
// Of three blocks the second passes on that the first has written.
template <bool kRight>
__global__ void passed_on(int* y, int* flags, int* data) {
  if (blockIdx.x == 0) {
    data[0] = 7;
    Flag(flags[0]).store(1, cuda::memory_order_release);
  } else if (blockIdx.x == 1) {
    wait_for(&flags[0], 1);
    Flag(flags[1]).store(1, kRight ? cuda::memory_order_release : cuda::memory_order_relaxed);
  } else {
    wait_for(&flags[1], 1);
    y[0] = data[0];
  }
}
// One thread fences for its block: before the barrier that is for itself alone.
template <bool kRight>
__global__ void fenced_by_one(int* y, volatile int* flag, int* data) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x;
    if (!kRight && threadIdx.x == 0) __threadfence();
    __syncthreads();
    if (kRight && threadIdx.x == 0) __threadfence();
    if (threadIdx.x == 0) *flag = 1;
  } else {
    if (threadIdx.x == 0)
      while (*flag == 0) {
      }
    __threadfence();
    __syncthreads();
    y[threadIdx.x] = data[63 - threadIdx.x];
  }
}
// Two blocks read what a third one writes over when it has heard of both, or of the second one.
template <bool kRight>
__global__ void two_readers(int* y, int* flags, int* data) {
  if (blockIdx.x < 2) {
    y[blockIdx.x * 32 + threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) Flag(flags[blockIdx.x]).store(1, cuda::memory_order_release);
  } else {
    if (threadIdx.x == 0) {
      if (kRight) wait_for(&flags[0], 1);
      wait_for(&flags[1], 1);
    }
    __syncthreads();
    data[threadIdx.x] = 1;
  }
}
// The same of warps: the third one writes over what the other two have read.
template <bool kRight>
__global__ void two_reading_warps(const int* x, int* y) {
  __shared__ int s[32];
  if (threadIdx.x < 32) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (warp < 2) y[threadIdx.x] = s[31 - threadIdx.x % 32];
  if (kRight)
    named_barrier(1, 96);
  else if (warp > 0)
    named_barrier(1, 64);
  if (warp == 2) s[threadIdx.x % 32] = 1;
}
// Two warps count, and a third one reads when it has met both, or the second one.
template <bool kRight>
__global__ void two_counting_warps(int* y) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (warp < 2) atomicAdd(&count, 1);
  if (kRight)
    named_barrier(1, 96);
  else if (warp > 0)
    named_barrier(1, 64);
  if (warp == 2) y[threadIdx.x % 32] = count;
}
// The same of blocks.
template <bool kRight>
__global__ void two_counting_blocks(int* y, int* flags, int* data) {
  if (blockIdx.x < 2) {
    if (threadIdx.x == 0) {
      atomicAdd(data, 1);
      Flag(flags[blockIdx.x]).store(1, cuda::memory_order_release);
    }
  } else if (threadIdx.x == 0) {
    if (kRight) wait_for(&flags[0], 1);
    wait_for(&flags[1], 1);
    y[0] = data[0];
  }
}
// The barrier of the cluster publishes what was done before, unless it is relaxed.
template <bool kRight>
__global__ void __cluster_dims__(2) relaxed_arrival(int* y) {
  __shared__ int s[64];
  auto cluster = cg::this_cluster();
  s[threadIdx.x] = threadIdx.x;
  if (kRight)
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  else
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  y[blockIdx.x * 64 + threadIdx.x] = *cluster.map_shared_rank(&s[threadIdx.x], cluster.block_rank() ^ 1);
  cluster.sync();
}
// Reductions into another block, of which the barrier of the cluster knows nothing.
template <bool kRight>
__global__ void __cluster_dims__(2) remote_sums(int* y) {
  __shared__ int sum[64];
  __shared__ alignas(8) uint64_t bar;
  auto cluster = cg::this_cluster();
  sum[threadIdx.x] = 100;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof sum);
  }
  cluster.sync();
  const unsigned other = cluster.block_rank() ^ 1;
  ptx::red_async(ptx::op_add, cluster.map_shared_rank(&sum[threadIdx.x], other),
                 static_cast<int>(threadIdx.x), cluster.map_shared_rank(&bar, other));
  cluster.sync();
  if (kRight)
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0)) {
    }
  y[blockIdx.x * 64 + threadIdx.x] = sum[63 - threadIdx.x];
  cluster.sync();
}
// Counts of two blocks in the memory of one, by atomics whose scope has both of them in it, or not.
template <bool kRight>
__global__ void __cluster_dims__(2) narrow_counts(int* y) {
  __shared__ int count;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) count = 0;
  cluster.sync();
  int* const all = cluster.map_shared_rank(&count, 0);
  if (kRight)
    atomicAdd(all, 1);
  else
    atomicAdd_block(all, 1);
  cluster.sync();
  if (cluster.block_rank() == 0) y[threadIdx.x] = count;
}
// A flag of volatile accesses between warps, with fences on both sides.
template <bool kRight>
__global__ void flag_of_block(const int* x, int* y) {
  __shared__ int s[32];
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    if (kRight) __threadfence_block();
    if (threadIdx.x == 0) flag = 1;
  } else {
    while (flag == 0) {
    }
    if (kRight) __threadfence_block();
    y[threadIdx.x] = s[63 - threadIdx.x];
  }
}
// One lane waits for a copy, and the others read.
template <bool kRight>
__global__ void one_lane_waits(const int* x, int* y) {
  __shared__ alignas(16) int s[32];
  __shared__ alignas(8) uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof s);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, sizeof s, &bar);
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {
    }
  }
  const int other = __shfl_sync(~0u, threadIdx.x, 31 - threadIdx.x);
  if (kRight) __syncwarp();
  y[threadIdx.x] = s[other];
}
// One lane has acquired, and tells the others by a shuffle.
template <bool kRight>
__global__ void one_lane_acquires(int* y, int* flags, int* data) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) Flag(flags[0]).store(1, cuda::memory_order_release);
  } else {
    int seen = 0;
    do {
      if (threadIdx.x == 0) seen = Flag(flags[0]).load(cuda::memory_order_acquire);
      seen = __shfl_sync(~0u, seen, 0);
    } while (seen == 0);
    if (kRight) __syncwarp();
    y[threadIdx.x] = data[31 - threadIdx.x];
  }
}

template <bool kRight>
void run(int number) {
  const int* x = to_device(some_ints(512, 10));
  int* y = to_device(std::vector<int>(1024, 0));
  int* flags = to_device(std::vector<int>(4, 0));
  int* data = to_device(std::vector<int>(256, 0));
  const int* last = to_device(some_ints(96, 10));
  switch (number) {
    case 1:
      return zero_tail<kRight><<<1, 128>>>(x, y, 100);
    case 2:
      return past_the_tail<kRight><<<1, 128>>>(last, y, 96);
    case 3:
      return bytes_expected<kRight><<<1, 128>>>(x, y);
    case 4:
      return parity<kRight><<<1, 64>>>(x, y);
    case 5:
      return passed_twice<kRight><<<2, 64>>>(y);
    case 6:
      return half_warps<kRight><<<1, 32>>>(y);
    case 7:
      return taken_together<kRight><<<1, 32>>>(x, y);
    case 8:
      return warp_sums<kRight><<<1, 128>>>(x, y);
    case 9:
      return passed_on<kRight><<<3, 1>>>(y, flags, data);
    case 10:
      return fenced_by_one<kRight><<<2, 64>>>(y, flags, data);
    case 11:
      return two_readers<kRight><<<3, 32>>>(y, flags, data);
    case 12:
      return two_reading_warps<kRight><<<1, 96>>>(x, y);
    case 13:
      return two_counting_warps<kRight><<<1, 96>>>(y);
    case 14:
      return two_counting_blocks<kRight><<<3, 32>>>(y, flags, data);
    case 15:
      return relaxed_arrival<kRight><<<2, 64>>>(y);
    case 16:
      return remote_sums<kRight><<<2, 64>>>(y);
    case 17:
      return narrow_counts<kRight><<<2, 64>>>(y);
    case 18:
      return flag_of_block<kRight><<<1, 64>>>(x, y);
    case 19:
      return one_lane_waits<kRight><<<1, 32>>>(x, y);
    case 20:
      return one_lane_acquires<kRight><<<2, 32>>>(y, flags, data);
    default:
      std::exit(2);
  }
}

int main(int c, char** a) {
  const int number = std::atoi(a[1]);
  if (c > 2 && std::strcmp(a[2], "right") == 0)
    run<true>(number);
  else
    run<false>(number);
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
