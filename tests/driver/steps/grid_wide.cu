// Order over the whole grid: the last block, a barrier by hand, scans by look-back. `grid_wide STEP` leaves out a step of it, 0 for none.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include "tests/driver/samples/common.hpp"
namespace cg = cooperative_groups;
__constant__ int left_out;
#define STEP(n) if (left_out != (n))
__device__ unsigned retirementCount = 0;
__device__ float block_sum(float v, cg::thread_block cta) {
  __shared__ float s[256];
  s[threadIdx.x] = v;
  cg::sync(cta);
  for (int o = blockDim.x / 2; o > 0; o /= 2) {
    if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o];
    cg::sync(cta);
  }
  return s[0];
}
__global__ void single_pass(const float* in, volatile float* partial, unsigned n) {
  cg::thread_block cta = cg::this_thread_block();
  float v = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
  v = block_sum(v, cta);
  if (threadIdx.x == 0) partial[blockIdx.x] = v;
  __shared__ bool amLast;
  STEP(1) __threadfence();
  if (threadIdx.x == 0) {
    unsigned ticket = atomicInc(&retirementCount, gridDim.x);
    amLast = ticket == gridDim.x - 1;
  }
  cg::sync(cta);
  if (amLast) {
    float s = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) s += partial[i];
    cg::sync(cta);
    s = block_sum(s, cta);
    if (threadIdx.x == 0) {
      partial[0] = s;
      retirementCount = 0;
    }
  }
}
// plain partials with fences
__device__ unsigned done = 0;
__global__ void plain_pass(const float* in, float* partial, float* out, int n) {
  __shared__ bool last;
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
  v = block_sum(v, cg::this_thread_block());
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = v;
    STEP(2) __threadfence();
    last = atomicAdd(&done, 1) == gridDim.x - 1;
    STEP(3) __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int i = 0; i < (int)gridDim.x; ++i) s += partial[i];
    *out = s;
    done = 0;
  }
}
// hand-made grid barrier with sense reversal
struct GB {
  unsigned count;
  volatile unsigned sense;
};
__device__ void grid_barrier(GB* b, unsigned& sense) {
  __syncthreads();
  if (threadIdx.x == 0) {
    sense ^= 1;
    STEP(4) __threadfence();
    if (atomicAdd(&b->count, 1) == gridDim.x - 1) {
      b->count = 0;
      STEP(5) __threadfence();
      b->sense = sense;
    } else
      while (b->sense != sense) {
      }
    STEP(6) __threadfence();
  }
  __syncthreads();
}
__global__ void jacobi(float* a, float* b, int n, int iters, GB* gb) {
  unsigned sense = 0;
  for (int it = 0; it < iters; ++it) {
    float *s = it & 1 ? b : a, *d = it & 1 ? a : b;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
      d[i] = (s[(i + n - 1) % n] + s[i] + s[(i + 1) % n]) / 3;
    grid_barrier(gb, sense);
  }
}
// decoupled look-back, flag and value in separate words
__global__ void lookback(const int* in, int* out, int n, volatile int* flag, volatile int* agg,
                         volatile int* incl) {
  __shared__ int s[128], prefix;
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int o = 1; o < 128; o *= 2) {
    int v = threadIdx.x >= o ? s[threadIdx.x - o] : 0;
    __syncthreads();
    s[threadIdx.x] += v;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    int total = s[127], p = 0;
    if (blockIdx.x == 0) {
      incl[0] = total;
      STEP(7) __threadfence();
      flag[0] = 2;
    } else {
      agg[blockIdx.x] = total;
      STEP(8) __threadfence();
      flag[blockIdx.x] = 1;
      for (int j = blockIdx.x - 1; j >= 0;) {
        int f;
        while ((f = flag[j]) == 0) {
        }
        STEP(9) __threadfence();
        if (f == 2) {
          p += incl[j];
          break;
        }
        p += agg[j];
        --j;
      }
      incl[blockIdx.x] = p + total;
      STEP(10) __threadfence();
      flag[blockIdx.x] = 2;
    }
    prefix = p;
  }
  __syncthreads();
  if (i < n) out[i] = s[threadIdx.x] + prefix;
}
// packed 64-bit look-back, relaxed
__global__ void packed(const int* in, int* out, int n, unsigned long long* st) {
  __shared__ int s[128], prefix;
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int o = 1; o < 128; o *= 2) {
    int v = threadIdx.x >= o ? s[threadIdx.x - o] : 0;
    __syncthreads();
    s[threadIdx.x] += v;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    using A = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>;
    unsigned total = s[127], p = 0;
    A(st[blockIdx.x]).store((blockIdx.x ? 1ull : 2ull) << 32 | total, cuda::memory_order_relaxed);
    for (int j = (int)blockIdx.x - 1; j >= 0;) {
      unsigned long long v;
      do v = A(st[j]).load(cuda::memory_order_relaxed);
      while (v >> 32 == 0);
      p += (unsigned)v;
      if (v >> 32 == 2) break;
      --j;
    }
    if (blockIdx.x) A(st[blockIdx.x]).store(2ull << 32 | (p + total), cuda::memory_order_relaxed);
    prefix = p;
  }
  __syncthreads();
  if (i < n) out[i] = s[threadIdx.x] + prefix;
}
int main(int c, char** a) {
  int skip = c > 1 ? atoi(a[1]) : 0;
  cudaMemcpyToSymbol(left_out, &skip, 4);
  auto x = some_floats(5000);
  double e = 0;
  for (float f : x) e += f;
  float *dx = to_device(x), *p = on_device<float>(64), *o = on_device<float>(1);
  for (int r = 0; r < 2; ++r) {
    single_pass<<<16, 128>>>(dx, p, 5000);
    OK(cudaMemcpy(&x[0], p, 4, cudaMemcpyDeviceToHost));
    if (std::abs(x[0] - e) > 1e-3) std::printf("wrong single\n");
    plain_pass<<<16, 128>>>(dx, p, o, 5000);
    OK(cudaMemcpy(&x[0], o, 4, cudaMemcpyDeviceToHost));
    if (std::abs(x[0] - e) > 1e-3) std::printf("wrong plain\n");
  }
  GB* gb;
  OK(cudaMalloc(&gb, sizeof *gb));
  OK(cudaMemset(gb, 0, sizeof *gb));
  auto j = some_floats(1000);
  float *ja = to_device(j), *jb = on_device<float>(1000);
  jacobi<<<4, 64>>>(ja, jb, 1000, 6, gb);
  auto hj = to_host(ja, 1000);
  for (int it = 0; it < 6; ++it) {
    auto q = j;
    for (int i = 0; i < 1000; ++i) q[i] = (j[(i + 999) % 1000] + j[i] + j[(i + 1) % 1000]) / 3;
    j = q;
  }
  for (int i = 0; i < 1000; ++i)
    if (std::abs(hj[i] - j[i]) > 1e-5) {
      std::printf("wrong jacobi\n");
      break;
    }
  auto v = some_ints(1300, 50);
  int *dv = to_device(v), *ov = on_device<int>(1300), *st = on_device<int>(64);
  OK(cudaMemset(st, 0, 256));
  lookback<<<11, 128>>>(dv, ov, 1300, st, st + 16, st + 32);
  auto check = [&](const char* n) {
    auto h = to_host(ov, 1300);
    int s = 0;
    for (int i = 0; i < 1300; ++i) {
      s += v[i];
      if (h[i] != s) {
        std::printf("wrong %s\n", n);
        break;
      }
    }
  };
  check("lookback");
  unsigned long long* st8 = on_device<unsigned long long>(16);
  OK(cudaMemset(st8, 0, 128));
  packed<<<11, 128>>>(dv, ov, 1300, st8);
  check("packed");
  std::puts("right");
}
