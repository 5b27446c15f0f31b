// libcu++: pipelines, barriers, a latch and a semaphore. `pipelines STEP` leaves out a step of it, 0 for none.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include "tests/driver/samples/common.hpp"
namespace cg = cooperative_groups;
__constant__ int left_out;
#define STEP(n) if (left_out != (n))
constexpr int S = 3, T = 128;
__global__ void block_pipe(const int* x, int* y, int tiles) {
  __shared__ int buf[S][T];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, S> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int fetched = 0, acc = 0;
  for (int t = 0; t < tiles; ++t) {
    for (; fetched < tiles && fetched < t + S; ++fetched) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, buf[fetched % S], x + fetched * T, sizeof(int) * T, pipe);
      STEP(1) pipe.producer_commit();
    }
    STEP(2) pipe.consumer_wait();
    acc = acc * 3 + buf[t % S][T - 1 - threadIdx.x];
    STEP(3) pipe.consumer_release();
  }
  y[threadIdx.x] = acc;
}
__global__ void partitioned(const int* x, int* y, int tiles) {
  __shared__ int buf[S][T];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, S> state;
  auto block = cg::this_thread_block();
  auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  if (role == cuda::pipeline_role::producer) {
    auto warp = cg::tiled_partition<32>(block);
    for (int t = 0; t < tiles; ++t) {
      pipe.producer_acquire();
      cuda::memcpy_async(warp, buf[t % S], x + t * T, sizeof(int) * T, pipe);
      pipe.producer_commit();
    }
  } else {
    int acc = 0, k = threadIdx.x - 32;
    for (int t = 0; t < tiles; ++t) {
      STEP(4) pipe.consumer_wait();
      acc = acc * 3 + buf[t % S][(k * 5) % T];
      STEP(5) pipe.consumer_release();
    }
    y[k] = acc;
  }
}
__global__ void thread_pipe(const int4* x, int4* y, int n) {
  __shared__ int4 buf[2][64];
  auto pipe = cuda::make_pipeline();
  int4 acc{};
  pipe.producer_acquire();
  cuda::memcpy_async(&buf[0][threadIdx.x], x + threadIdx.x, cuda::aligned_size_t<16>(16), pipe);
  pipe.producer_commit();
  for (int t = 0; t < n; ++t) {
    if (t + 1 < n) {
      pipe.producer_acquire();
      cuda::memcpy_async(&buf[(t + 1) & 1][threadIdx.x], x + (t + 1) * 64 + threadIdx.x,
                         cuda::aligned_size_t<16>(16), pipe);
      pipe.producer_commit();
      STEP(6) cuda::pipeline_consumer_wait_prior<1>(pipe);
    } else {
      cuda::pipeline_consumer_wait_prior<0>(pipe);
    }
    int4 v = buf[t & 1][threadIdx.x];
    acc.x += v.x;
    acc.y ^= v.y;
    acc.z += v.z;
    acc.w ^= v.w;
    pipe.consumer_release();
  }
  y[threadIdx.x] = acc;
}
using Bar = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
__global__ void bars(const int* x, int* y, int rounds) {
  __shared__ Bar b[2];
  __shared__ int buf[2][256];
  if (threadIdx.x == 0) {
    init(&b[0], blockDim.x);
    init(&b[1], blockDim.x);
  }
  STEP(7) __syncthreads();
  int v = x[threadIdx.x];
  for (int r = 0; r < rounds; ++r) {
    buf[r & 1][threadIdx.x] = v;
    auto token = b[r & 1].arrive();
    int extra = r * 3;
    STEP(8) b[r & 1].wait(std::move(token));
    v += buf[r & 1][(threadIdx.x + 33) % blockDim.x] + extra;
  }
  y[threadIdx.x] = v;
}
__global__ void drop(int* y) {
  __shared__ Bar b;
  __shared__ int buf[128];
  if (threadIdx.x == 0) init(&b, blockDim.x);
  __syncthreads();
  buf[threadIdx.x] = threadIdx.x;
  b.arrive_and_wait();
  if (threadIdx.x >= 64) {
    (void)b.arrive_and_drop();
    return;
  }
  int v = buf[threadIdx.x + 64];
  b.arrive_and_wait();
  buf[threadIdx.x] = v * 2;
  b.arrive_and_wait();
  y[threadIdx.x] = buf[63 - threadIdx.x];
}
__global__ void tx(const int* x, int* y) {
  __shared__ alignas(16) int buf[256];
  __shared__ Bar b;
  if (threadIdx.x == 0) init(&b, blockDim.x);
  __syncthreads();
  Bar::arrival_token t;
  if (threadIdx.x == 0) {
    cuda::memcpy_async(buf, x, cuda::aligned_size_t<16>(sizeof buf), b);
  }
  t = b.arrive();
  STEP(9) b.wait(std::move(t));
  y[threadIdx.x] = buf[255 - threadIdx.x];
}
struct Shared {
  cuda::latch<cuda::thread_scope_device> latch;
  cuda::counting_semaphore<cuda::thread_scope_device, 4> sem;
  cuda::atomic<int, cuda::thread_scope_device> flag;
};
__global__ void make(Shared* s, int n) {
  new (&s->latch) cuda::latch<cuda::thread_scope_device>(n);
  new (&s->sem) cuda::counting_semaphore<cuda::thread_scope_device, 4>(2);
  new (&s->flag) cuda::atomic<int, cuda::thread_scope_device>(0);
}
__global__ void across(Shared* s, int* data, int* out, int* inside) {
  if (threadIdx.x == 0) {
    data[blockIdx.x] = blockIdx.x * 10;
    STEP(10) s->latch.arrive_and_wait();
    int sum = 0;
    for (int i = 0; i < (int)gridDim.x; ++i) sum += data[i];
    out[blockIdx.x] = sum;
    s->sem.acquire();
    int now = atomicAdd(inside, 1);
    if (now >= 2) atomicAdd(inside + 1, 1);
    atomicSub(inside, 1);
    s->sem.release();
    if (blockIdx.x == 0) {
      data[100] = 77;
      s->flag.store(1, cuda::memory_order_release);
      s->flag.notify_all();
    } else {
      s->flag.wait(0, cuda::memory_order_acquire);
      out[blockIdx.x] += data[100];
    }
  }
}
int main(int c, char** a) {
  int skip = c > 1 ? atoi(a[1]) : 0;
  cudaMemcpyToSymbol(left_out, &skip, 4);
  int tiles = 7;
  auto x = some_ints(tiles * T, 1000);
  int *dx = to_device(x), *y = on_device<int>(1024);
  auto expect = [&](int mul, bool rev) {
    auto h = to_host(y, T);
    for (int i = 0; i < T; ++i) {
      int acc = 0;
      for (int t = 0; t < tiles; ++t) acc = acc * 3 + x[t * T + (rev ? T - 1 - i : i * mul % T)];
      if (!skip) EXPECT(h[i] == acc);
    }
  };
  if (!skip || skip <= 3) {
    block_pipe<<<1, T>>>(dx, y, tiles);
    expect(1, true);
  }
  if (!skip || skip == 4 || skip == 5) {
    partitioned<<<1, T + 32>>>(dx, y, tiles);
    expect(5, false);
  }
  if (!skip || skip == 6) {
    auto x4 = some_ints(64 * 4 * 5, 1000);
    int* d4 = to_device(x4);
    thread_pipe<<<1, 64>>>((int4*)d4, (int4*)y, 5);
    auto h = to_host(y, 256);
    for (int i = 0; i < 256; ++i) {
      int e = 0;
      for (int t = 0; t < 5; ++t) {
        int v = x4[t * 256 + i];
        if (i % 2)
          e ^= v;
        else
          e += v;
      }
      if (!skip) EXPECT(h[i] == e);
    }
  }
  if (!skip || skip == 7 || skip == 8) {
    bars<<<1, 96>>>(dx, y, 5);
    std::vector<int> v(x.begin(), x.begin() + 96);
    for (int r = 0; r < 5; ++r) {
      auto o = v;
      for (int i = 0; i < 96; ++i) v[i] = o[i] + o[(i + 33) % 96] + r * 3;
    }
    auto h = to_host(y, 96);
    if (!skip) EXPECT(h == v);
  }
  if (!skip) {
    drop<<<1, 128>>>(y);
    auto h = to_host(y, 64);
    for (int i = 0; i < 64; ++i) EXPECT(h[i] == (63 - i + 64) * 2);
  }
  if (!skip || skip == 9) {
    tx<<<1, 256>>>(dx, y);
    auto h = to_host(y, 256);
    if (!skip)
      for (int i = 0; i < 256; ++i) EXPECT(h[i] == x[255 - i]);
  }
  if (!skip || skip == 10) {
    Shared* s;
    OK(cudaMalloc(&s, sizeof *s));
    make<<<1, 1>>>(s, 6);
    int *data = on_device<int>(128), *in = on_device<int>(2);
    OK(cudaMemset(in, 0, 8));
    across<<<6, 32>>>(s, data, y, in);
    OK(cudaDeviceSynchronize());
    auto h = to_host(y, 6);
    auto hin = to_host(in, 2);
    if (!skip) {
      for (int i = 0; i < 6; ++i) EXPECT(h[i] == 150 + (i ? 77 : 0));
      EXPECT(hin[1] == 0);
    }
  }
  OK(cudaDeviceSynchronize());
  std::puts("right");
}
