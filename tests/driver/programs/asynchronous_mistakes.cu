// Kernels with one mistake of synchronisation each (2 has none): copies, pipelines, clusters, flags. `asynchronous_mistakes N` runs the Nth.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include "tests/driver/samples/common.hpp"
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
// no wait
__global__ void m1(const int* x, int* y) {
  extern __shared__ int s[];
  auto b = cg::this_thread_block();
  cg::memcpy_async(b, s, x, sizeof(int) * 128);
  y[threadIdx.x] = s[127 - threadIdx.x];
}
// fine: two buffers, a barrier each
__global__ void m2(const int* x, int* y) {
  __shared__ int s[2][128];
  auto pipe = cuda::make_pipeline();
  for (int k = 0; k < 4; ++k) {
    pipe.producer_acquire();
    cuda::memcpy_async(&s[k & 1][threadIdx.x], x + k * 128 + threadIdx.x, 4, pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    __syncthreads();
    y[k * 128 + threadIdx.x] = s[k & 1][127 - threadIdx.x];
    pipe.consumer_release();
  }
}
// one buffer: race
__global__ void m3(const int* x, int* y) {
  __shared__ int s[128];
  auto pipe = cuda::make_pipeline();
  for (int k = 0; k < 4; ++k) {
    pipe.producer_acquire();
    cuda::memcpy_async(&s[threadIdx.x], x + k * 128 + threadIdx.x, 4, pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    __syncthreads();
    y[k * 128 + threadIdx.x] = s[127 - threadIdx.x];
    pipe.consumer_release();
  }
}
// no cluster barrier before
__global__ void __cluster_dims__(2) m4(int* y) {
  __shared__ int s[64];
  auto c = cg::this_cluster();
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = *c.map_shared_rank(&s[threadIdx.x], c.block_rank() ^ 1);
  c.sync();
}
// may end while the other reads
__global__ void __cluster_dims__(2) m5(int* y) {
  __shared__ int s[64];
  auto c = cg::this_cluster();
  s[threadIdx.x] = threadIdx.x;
  c.sync();
  y[blockIdx.x * 64 + threadIdx.x] = *c.map_shared_rank(&s[threadIdx.x], c.block_rank() ^ 1);
}
// relaxed store
__global__ void m6(int* y, int* flag, int* v) {
  if (blockIdx.x == 0) {
    v[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0)
      cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(1, cuda::memory_order_relaxed);
  } else {
    if (threadIdx.x == 0)
      while (!cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).load(cuda::memory_order_acquire)) {
      }
    __syncthreads();
    y[threadIdx.x] = v[threadIdx.x];
  }
}
// scope of a block
__global__ void m7(int* y, int* flag, int* v) {
  if (blockIdx.x == 0) {
    v[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0)
      cuda::atomic_ref<int, cuda::thread_scope_block>(*flag).store(1, cuda::memory_order_release);
  } else {
    if (threadIdx.x == 0)
      while (!cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).load(cuda::memory_order_acquire)) {
      }
    __syncthreads();
    y[threadIdx.x] = v[threadIdx.x];
  }
}
// copy over what others may still read, no proxy fence
__global__ void m8(const int* x, int* y) {
  __shared__ alignas(128) int s[256];
  __shared__ alignas(8) uint64_t b;
  if (!threadIdx.x) {
    ptx::mbarrier_init(&b, 1);
    ptx::fence_proxy_async();
  }
  __syncthreads();
  s[threadIdx.x] = 5;
  __syncthreads();
  int v = s[threadIdx.x ^ 1];
  if (!threadIdx.x) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &b, 1024);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, 1024, &b);
  }
  while (!ptx::mbarrier_try_wait_parity(&b, 0)) {
  }
  y[threadIdx.x] = s[threadIdx.x] + v;
}
// no proxy fence
__global__ void m9(const int* x, int* y) {
  __shared__ alignas(128) int s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (!threadIdx.x) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(y),
                 "r"((unsigned)__cvta_generic_to_shared(s))
                 : "memory");
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
// overwritten while read
__global__ void m10(const int* x, int* y) {
  __shared__ alignas(128) int s[256];
  s[threadIdx.x] = x[threadIdx.x];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (!threadIdx.x) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, s, 1024);
    ptx::cp_async_bulk_commit_group();
  }
  __syncthreads();
  s[threadIdx.x] = 0;
  if (!threadIdx.x) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  y[300] = s[threadIdx.x ^ 1] * 0;
}
// sync too late
__global__ void m11(int* y) {
  __shared__ int s[64];
  auto t = cg::tiled_partition<16>(cg::this_thread_block());
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[threadIdx.x ^ 8];
  t.sync();
}
// one warp, no warp barrier before the release
__global__ void m12(int* y, int* flag, int* v) {
  if (blockIdx.x == 0) {
    v[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 0)
      cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(1, cuda::memory_order_release);
  } else {
    if (threadIdx.x == 0)
      while (!cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).load(cuda::memory_order_acquire)) {
      }
    __syncwarp();
    y[threadIdx.x] = v[threadIdx.x];
  }
}
__global__ void m13(int* y, int n) {
  __shared__ int s[64];
  s[threadIdx.x] = n;
  if (threadIdx.x < 40) __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}
// a[3] never written
__global__ void m14(const float* x, float* y) {
  float a[4];
  for (int i = 0; i < 3; ++i) a[i] = x[i];
  y[threadIdx.x] = a[threadIdx.x & 3];
}
// mask names lanes elsewhere
__global__ void m15(unsigned* y) {
  unsigned m = __activemask();
  if (threadIdx.x & 1)
    y[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 0);
  else
    y[threadIdx.x] = m;
}
// last block, no fence
__global__ void m16(int* y, int* count) {
  __shared__ bool last;
  y[blockIdx.x] = blockIdx.x;
  if (threadIdx.x == 0) last = atomicAdd(count, 1) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int s = 0;
    for (int i = 0; i < (int)gridDim.x; ++i) s += y[i];
    y[64] = s;
  }
}
int main(int c, char** a) {
  int k = atoi(a[1]);
  int* x = to_device(some_ints(1024, 10));
  int* y = on_device<int>(1024);
  int* f = to_device(std::vector<int>(4, 0));
  int* v = on_device<int>(256);
  OK(cudaMemset(v, 0, 1024));

  if (k == 1) m1<<<1, 128, 512>>>(x, y);
  if (k == 2) m2<<<1, 128>>>(x, y);
  if (k == 3) m3<<<1, 128>>>(x, y);
  if (k == 4) m4<<<2, 64>>>(y);
  if (k == 5) m5<<<2, 64>>>(y);
  if (k == 6) m6<<<2, 64>>>(y, f, v);
  if (k == 7) m7<<<2, 64>>>(y, f, v);
  if (k == 8) m8<<<1, 256>>>(x, y);
  if (k == 9) m9<<<1, 256>>>(x, y);
  if (k == 10) m10<<<1, 256>>>(x, y);
  if (k == 11) m11<<<1, 64>>>(y);
  if (k == 12) m12<<<2, 32>>>(y, f, v);
  if (k == 13) m13<<<1, 64>>>(y, 3);
  if (k == 14) m14<<<1, 32>>>((float*)x, (float*)y);
  if (k == 15) m15<<<1, 32>>>((unsigned*)y);
  if (k == 16) m16<<<4, 32>>>(y, f);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
