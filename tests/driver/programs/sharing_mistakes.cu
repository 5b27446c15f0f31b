// Kernels with one mistake each (10 has none): what threads, warps and blocks share. `sharing_mistakes N` runs the Nth.
#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>
#include <mma.h>
#include <cuda/atomic>
#include <cuda/ptx>
#include "tests/driver/samples/common.hpp"
namespace ptx = cuda::ptx;
namespace cg = cooperative_groups;
// warps of a block through global memory without a barrier
__global__ void m1(const int* x, int* part, int* out, int n) {
  __shared__ int s[4];
  int v = 0;
  for (int i = threadIdx.x; i < n; i += 128) v += x[i];
  for (int o = 16; o; o /= 2) v += __shfl_down_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  if (threadIdx.x == 0) {
    int t = 0;
    for (int i = 0; i < 4; ++i) t += part[i];
    *out = t;
  }
}
// lanes through global memory
__global__ void m2(int* a) {
  int i = threadIdx.x;
  a[i] = i;
  if (i < 31) a[i] = a[i + 1];
}
__global__ void m3(float* y, const float* x) {
  __shared__ float s[33];
  s[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  if (threadIdx.x < 16) s[threadIdx.x] += s[threadIdx.x + 16];
  if (threadIdx.x < 8) s[threadIdx.x] += s[threadIdx.x + 8];
  y[threadIdx.x] = s[0];
}
// buffer refilled too early? s[(k+1)&1] is written next iteration while others may read
__global__ void m4(const int* x, int* y) {
  __shared__ alignas(16) int s[2][128];
  for (int k = 0; k < 4; ++k) {
    __pipeline_memcpy_async(&s[k & 1][threadIdx.x * 4], x + k * 128 + threadIdx.x * 4, 16);
    __pipeline_commit();
    if (k) {
      __pipeline_wait_prior(1);
      __syncthreads();
      y[k * 32 + threadIdx.x] = s[(k - 1) & 1][127 - threadIdx.x];
    }
  }
}
// reads the counter without a barrier
__global__ void m6(int* y) {
  __shared__ int n;
  if (threadIdx.x == 0) n = 0;
  __syncthreads();
  if (threadIdx.x & 1) atomicAdd(&n, 1);
  y[threadIdx.x] = n;
}
// reads past the block's shared memory
__global__ void m7(const int* x, int* y, int n) {
  extern __shared__ int s[];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x + n];
}
__global__ void m8(int* p, int n) {
  int* q = p + n + 5;
  *q = 1;
}
// lock released by a volatile store, no fence
__global__ void m9(int* lock, int* c) {
  while (atomicCAS(lock, 0, 1)) {
  }
  ++*c;
  *(volatile int*)lock = 0;
}
// right
__global__ void m10(int* lock, int* c) {
  bool done = false;
  while (!done)
    if (!atomicCAS(lock, 0, 1)) {
      __threadfence();
      ++*c;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
}
// block barrier in place of the grid's
__global__ void m11(float* x, float* y) {
  auto g = cg::this_grid();
  x[g.thread_rank()] = g.thread_rank();
  cg::this_thread_block().sync();
  y[g.thread_rank()] = x[(g.thread_rank() + 64) % g.size()];
}
// a barrier for 32 that 64 come to
__global__ void m12(int* y) {
  __shared__ int s[64];
  s[threadIdx.x] = 1;
  asm volatile("bar.sync 1, 32;" ::: "memory");
  y[threadIdx.x] = s[63 - threadIdx.x];
}
// misaligned
__global__ void m13(const double* x, float* y) {
  y[threadIdx.x] = *(const float*)((const char*)x + 2 + threadIdx.x * 4);
}
// used after free
__global__ void m14(int* p) {
  int* q = (int*)malloc(64);
  q[threadIdx.x & 15] = 1;
  free(q);
  p[threadIdx.x] = q[0];
}
// remote write, block barrier
__global__ void __cluster_dims__(2) m15(int* y) {
  __shared__ int s;
  auto c = cg::this_cluster();
  s = 0;
  c.sync();
  if (c.block_rank() == 0 && threadIdx.x == 0) *c.map_shared_rank(&s, 1) = 7;
  __syncthreads();
  if (c.block_rank() == 1) y[threadIdx.x] = s;
  c.sync();
}
// fence of a block only
__global__ void m16(volatile int* flag, int* data, int* y) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 3;
    __threadfence_block();
    __syncthreads();
    if (!threadIdx.x) *flag = 1;
  } else {
    if (!threadIdx.x)
      while (!*flag) {
      }
    __syncthreads();
    __threadfence();
    y[threadIdx.x] = data[threadIdx.x];
  }
}
int main(int c, char** a) {
  int k = atoi(a[1]);
  int* x = to_device(some_ints(1024, 10));
  int* y = on_device<int>(1024);
  int* f = to_device(std::vector<int>(64, 0));
  float* fx = to_device(some_floats(256));
  float* fy = on_device<float>(256);

  if (k == 1) m1<<<1, 128>>>(x, f, y, 1000);
  if (k == 2) m2<<<1, 32>>>(f);
  if (k == 3) m3<<<1, 32>>>(fy, fx);
  if (k == 4) m4<<<1, 32>>>(x, y);
  if (k == 6) m6<<<1, 32>>>(y);
  if (k == 7) m7<<<1, 64, 256>>>(x, y, 40);
  if (k == 8) m8<<<1, 1>>>(x, 1024);
  if (k == 9) m9<<<4, 1>>>(f, f + 1);
  if (k == 10) m10<<<4, 64>>>(f, f + 1);
  if (k == 11) m11<<<4, 64>>>(fx, fy);
  if (k == 12) m12<<<1, 64>>>(y);
  if (k == 13) m13<<<1, 32>>>((double*)fx, fy);
  if (k == 14) m14<<<1, 32>>>(y);
  if (k == 15) m15<<<2, 64>>>(y);
  if (k == 16) m16<<<2, 64>>>(f, x, y);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
