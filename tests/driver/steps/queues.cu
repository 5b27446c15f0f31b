// Blocks that work together: queues, stream-K, ordered split-K, rings, named barriers, a search by levels. `queues STEP` leaves out a step of it, 0 for none.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <numeric>
#include "tests/driver/samples/common.hpp"
namespace cg = cooperative_groups;
__constant__ int left_out;
#define STEP(n) if (left_out != (n))
// work queue with a broadcast ticket
__global__ void persistent(int* next, int tiles, const float* x, float* y) {
  __shared__ int tile;
  while (true) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    STEP(1) __syncthreads();
    int t = tile;
    STEP(2) __syncthreads();
    if (t >= tiles) break;
    y[t * 64 + threadIdx.x] = x[t * 64 + threadIdx.x] * 2 + t;
  }
}
// stream-K: blocks share output tiles; partial sums through a workspace with flags
__global__ void stream_k(const float* x, float* out, float* ws, int* flags, int tiles, int per) {
  int total = tiles * per, share = (total + gridDim.x - 1) / gridDim.x, b = blockIdx.x * share,
      e = min(total, b + share);
  for (int i = b; i < e;) {
    int tile = i / per, last = min(e, (tile + 1) * per);
    float acc = 0;
    bool starts = i % per == 0, ends = last == (tile + 1) * per;
    for (int k = i; k < last; ++k) acc += x[(size_t)k * 64 + threadIdx.x];
    if (!starts) {
      ws[blockIdx.x * 64 + threadIdx.x] = acc;
      STEP(3) __threadfence();
      STEP(4) __syncthreads();
      if (threadIdx.x == 0) atomicExch(flags + blockIdx.x, 1);
    } else {
      if (!ends) {
        int peer = blockIdx.x + 1, have = last;
        while (have < (tile + 1) * per) {
          if (threadIdx.x == 0) {
            while (atomicAdd(flags + peer, 0) == 0) {
            }
            STEP(5) __threadfence();
          }
          STEP(6) __syncthreads();
          acc += ws[peer * 64 + threadIdx.x];
          have = min(total, (peer + 1) * share);
          ++peer;
        }
      }
      out[tile * 64 + threadIdx.x] = acc;
    }
    i = last;
  }
}
// semaphore-ordered serial reduction (split-K as in CUTLASS)
__device__ void sem_wait(int* l, int v) {
  if (threadIdx.x == 0) {
    int s;
    do {
      asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(s) : "l"(l) : "memory");
    } while (s != v);
  }
  STEP(7) __syncthreads();
}
__device__ void sem_release(int* l, int v) {
  STEP(8) __syncthreads();
  if (threadIdx.x == 0) asm volatile("st.global.release.gpu.b32 [%0], %1;" ::"l"(l), "r"(v) : "memory");
}
__global__ void serial_split(const float* x, float* y, int* lock) {
  float v = x[blockIdx.x * 64 + threadIdx.x];
  sem_wait(lock, blockIdx.x);
  if (blockIdx.x) v += y[threadIdx.x] * 0.5f;
  y[threadIdx.x] = v;
  sem_release(lock, blockIdx.x + 1 == gridDim.x ? 0 : blockIdx.x + 1);
}
// ring between a producer block and a consumer block
__global__ void pipe(const int* x, int* y, int n, int* ring, unsigned* head, unsigned* tail) {
  using A = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;
  if (blockIdx.x == 0) {
    for (int i = 0; i < n; ++i) {
      if (threadIdx.x == 0)
        while ((unsigned)i - A(*tail).load(cuda::memory_order_acquire) >= 4) {
        }
      STEP(9) __syncthreads();
      ring[i % 4 * 32 + threadIdx.x] = x[i * 32 + threadIdx.x] + 1;
      STEP(10) __syncthreads();
      if (threadIdx.x == 0) A(*head).store(i + 1, cuda::memory_order_release);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      if (threadIdx.x == 0)
        while (A(*head).load(cuda::memory_order_acquire) <= (unsigned)i) {
        }
      STEP(11) __syncthreads();
      y[i * 32 + threadIdx.x] = ring[i % 4 * 32 + threadIdx.x] * 3;
      STEP(12) __syncthreads();
      if (threadIdx.x == 0) A(*tail).store(i + 1, cuda::memory_order_release);
    }
  }
}
// warp-specialised with named barriers, two buffers
__device__ void bs(int id, int n) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory");
}
__device__ void ba(int id, int n) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory");
}
__global__ void named(const float* x, float* y, int n) {
  __shared__ float buf[2][64];
  int w = threadIdx.x / 32, l = threadIdx.x % 32;
  if (w == 0) {
    for (int i = 0; i < n; ++i) {
      int b = i & 1;
      if (i >= 2) {
        STEP(13) bs(3 + b, 96);
      }
      buf[b][l] = x[i * 64 + l];
      buf[b][l + 32] = x[i * 64 + 32 + l];
      STEP(14) ba(1 + b, 96);
    }
  } else {
    float acc = 0;
    int t = threadIdx.x - 32;
    for (int i = 0; i < n; ++i) {
      int b = i & 1;
      STEP(14) bs(1 + b, 96);
      acc = acc * 0.5f + buf[b][63 - t];
      if (i + 2 < n) {
        STEP(13) ba(3 + b, 96);
      }
    }
    y[t] = acc;
  }
}
// cooperative grid: breadth first search. Each block reads plainly what the first one counts in, so that no order of
// the blocks can make it right without step 15. (Blocks that all end before the first one starts race on nothing else.)
__global__ void bfs(const int* row, const int* col, int n, int* dist, int* changed) {
  auto grid = cg::this_grid();
  for (int level = 0; level < n; ++level) {
    if (grid.thread_rank() == 0) changed[(level + 1) % 3] = 0;
    for (int v = grid.thread_rank(); v < n; v += grid.size())
      if (*(volatile int*)(dist + v) == level)
        for (int e = row[v]; e < row[v + 1]; ++e)
          if (atomicCAS(dist + col[e], -1, level + 1) == -1) atomicExch(changed + level % 3, 1);
    STEP(15) grid.sync();
    if (!changed[level % 3]) break;
  }
}
int main(int c, char** a) {
  int skip = c > 1 ? atoi(a[1]) : 0;
  cudaMemcpyToSymbol(left_out, &skip, 4);
  auto x = some_floats(64 * 64);
  float *dx = to_device(x), *y = on_device<float>(64 * 64);
  int* fl = on_device<int>(64);
  OK(cudaMemset(fl, 0, 256));
  persistent<<<3, 64>>>(fl, 20, dx, y);
  auto h = to_host(y, 20 * 64);
  if (!skip)
    for (int i = 0; i < 20 * 64; ++i) EXPECT(h[i] == x[i] * 2 + i / 64);
  OK(cudaMemset(fl, 0, 256));
  float* ws = on_device<float>(64 * 64);
  stream_k<<<5, 64>>>(dx, y, ws, fl, 7, 6);
  h = to_host(y, 7 * 64);
  if (!skip)
    for (int t = 0; t < 7; ++t)
      for (int i = 0; i < 64; ++i) {
        double e = 0;
        for (int k = 0; k < 6; ++k) e += x[(t * 6 + k) * 64 + i];
        EXPECT(std::abs(e - h[t * 64 + i]) < 1e-5);
      }
  OK(cudaMemset(fl, 0, 256));
  serial_split<<<6, 64>>>(dx, y, fl);
  h = to_host(y, 64);
  if (!skip)
    for (int i = 0; i < 64; ++i) {
      float v = x[i];
      for (int b = 1; b < 6; ++b) v = x[b * 64 + i] + v * 0.5f;
      EXPECT(h[i] == v);
    }
  auto xi = some_ints(32 * 20, 1000);
  int *di = to_device(xi), *yi = on_device<int>(32 * 20), *ring = on_device<int>(128);
  OK(cudaMemset(fl, 0, 256));
  pipe<<<2, 32>>>(di, yi, 20, ring, (unsigned*)fl, (unsigned*)fl + 16);
  auto hi = to_host(yi, 640);
  if (!skip)
    for (int i = 0; i < 640; ++i) EXPECT(hi[i] == (xi[i] + 1) * 3);
  named<<<1, 96>>>(dx, y, 9);
  h = to_host(y, 64);
  if (!skip)
    for (int i = 0; i < 64; ++i) {
      float acc = 0;
      for (int k = 0; k < 9; ++k) acc = acc * 0.5f + x[k * 64 + 63 - i];
      EXPECT(h[i] == acc);
    }
  if (skip && skip < 15) {
    OK(cudaDeviceSynchronize());
    std::puts("right");
    return 0;
  }
  int n = 500;
  std::vector<int> row(n + 1), col;
  unsigned s = 3;
  for (int v = 0; v < n; ++v) {
    row[v] = col.size();
    for (int k = 0; k < 3; ++k) {
      s = s * 1664525 + 1013904223;
      col.push_back((s >> 8) % n);
    }
  }
  row[n] = col.size();
  std::vector<int> d(n, -1);
  d[0] = 0;
  int *dr = to_device(row), *dc = to_device(col), *dd = to_device(d), *ch = on_device<int>(3);
  OK(cudaMemset(ch, 0, 12));
  void* args[] = {&dr, &dc, &n, &dd, &ch};
  OK(cudaLaunchCooperativeKernel((void*)bfs, dim3(3), dim3(64), args, 0, 0));
  auto hd = to_host(dd, n);
  std::vector<int> q{0};
  for (size_t i = 0; i < q.size(); ++i)
    for (int e = row[q[i]]; e < row[q[i] + 1]; ++e)
      if (d[col[e]] < 0) d[col[e]] = d[q[i]] + 1, q.push_back(col[e]);
  if (!skip) EXPECT(d == hd);
  OK(cudaDeviceSynchronize());
  std::puts("right");
}
