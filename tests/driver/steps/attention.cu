// Causal attention in the manner of FlashAttention-2: cp.async, ldmatrix, mma, online softmax. `attention STEP` leaves out a step of it, 0 for none.
#include <cuda_fp16.h>
#include <cmath>
#include <cstdint>
#include "tests/driver/samples/common.hpp"
__constant__ int left_out;
#define STEP(n) if (left_out != (n))
constexpr int D = 64, BM = 64, BN = 64;
__device__ uint32_t sa(const void* p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}
__device__ void cp16(void* d, const void* s, bool ok) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sa(d)), "l"(s), "r"(ok ? 16 : 0));
}
__device__ int sw(int r, int c) {
  return r * D + ((c / 8) ^ (r & 7)) * 8 + c % 8;
}
__device__ void ldm4(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(sa(p)));
}
__device__ void ldm4t(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(sa(p)));
}
__device__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ void load_tile(__half* s, const __half* g, int row0, int n) {
  for (int i = threadIdx.x; i < BN * D / 8; i += blockDim.x) {
    int r = i / (D / 8), c = i % (D / 8) * 8;
    cp16(s + sw(r, c), g + (size_t)(row0 + r < n ? row0 + r : 0) * D + c, row0 + r < n);
  }
}
__global__ void __launch_bounds__(128)
    flash(const __half* Q, const __half* K, const __half* V, __half* O, float* L, int n, float scale) {
  __shared__ alignas(128) __half sQ[BM * D], sK[2][BN * D], sV[2][BN * D];
  int m0 = blockIdx.x * BM, h = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Q += (size_t)h * n * D;
  K += (size_t)h * n * D;
  V += (size_t)h * n * D;
  O += (size_t)h * n * D;
  load_tile(sQ, Q, m0, n);
  load_tile(sK[0], K, 0, n);
  asm volatile("cp.async.commit_group;");
  load_tile(sV[0], V, 0, n);
  asm volatile("cp.async.commit_group;");
  float o[8][4] = {}, mx[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  uint32_t q[4][4];
  int tiles = (min(n, m0 + BM) + BN - 1) / BN;
  for (int t = 0; t < tiles; ++t) {
    int st = t & 1;
    STEP(1) asm volatile("cp.async.wait_group 1;" ::: "memory");
    STEP(2) __syncthreads();
    if (t + 1 < tiles) load_tile(sK[st ^ 1], K, (t + 1) * BN, n);
    asm volatile("cp.async.commit_group;");
    if (t == 0)
      for (int k = 0; k < 4; ++k) ldm4(q[k], sQ + sw(warp * 16 + lane % 16, k * 16 + lane / 16 * 8));
    float s[8][4] = {};
    for (int k = 0; k < 4; ++k)
      for (int j = 0; j < 4; ++j) {
        uint32_t b[4];
        ldm4(b, sK[st] + sw(j * 16 + lane % 8 + lane / 16 * 8, k * 16 + lane / 8 % 2 * 8));
        mma(s[2 * j], q[k], b[0], b[1]);
        mma(s[2 * j + 1], q[k], b[2], b[3]);
      }
    for (int j = 0; j < 8; ++j)
      for (int e = 0; e < 4; ++e) {
        int row = m0 + warp * 16 + lane / 4 + e / 2 * 8, col = t * BN + j * 8 + lane % 4 * 2 + e % 2;
        s[j][e] = col > row || col >= n ? -INFINITY : s[j][e] * scale;
      }
    for (int r = 0; r < 2; ++r) {
      float m = mx[r];
      for (int j = 0; j < 8; ++j) m = fmaxf(m, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
      float f = exp2f(mx[r] - m);
      mx[r] = m;
      sum[r] *= f;
      for (int j = 0; j < 8; ++j) {
        o[j][2 * r] *= f;
        o[j][2 * r + 1] *= f;
      }
      for (int j = 0; j < 8; ++j)
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          s[j][e] = exp2f(s[j][e] - m);
          sum[r] += s[j][e];
        }
    }
    STEP(3) asm volatile("cp.async.wait_group 1;" ::: "memory");
    STEP(4) __syncthreads();
    if (t + 1 < tiles) load_tile(sV[st ^ 1], V, (t + 1) * BN, n);
    asm volatile("cp.async.commit_group;");
    for (int k = 0; k < 4; ++k) {
      uint32_t p[4];
      for (int e = 0; e < 4; ++e) {
        __half2 v = __floats2half2_rn(s[2 * k + e / 2][e % 2 * 2], s[2 * k + e / 2][e % 2 * 2 + 1]);
        p[e] = *(uint32_t*)&v;
      }
      for (int j = 0; j < 4; ++j) {
        uint32_t b[4];
        ldm4t(b, sV[st] + sw(k * 16 + lane % 16, j * 16 + lane / 16 * 8));
        mma(o[2 * j], p, b[0], b[1]);
        mma(o[2 * j + 1], p, b[2], b[3]);
      }
    }
  }
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
    sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
    int row = m0 + warp * 16 + lane / 4 + r * 8;
    if (row >= n) continue;
    for (int j = 0; j < 8; ++j)
      *(__half2*)(O + (size_t)row * D + j * 8 + lane % 4 * 2) =
          __floats2half2_rn(o[j][2 * r] / sum[r], o[j][2 * r + 1] / sum[r]);
    if (lane % 4 == 0) L[h * n + row] = mx[r] + log2f(sum[r]);
  }
}
int main(int c, char** a) {
  int skip = c > 1 ? atoi(a[1]) : 0;
  cudaMemcpyToSymbol(left_out, &skip, 4);
  int n = 200, H = 2;
  size_t N = (size_t)H * n * D;
  auto mk = [&](unsigned s) {
    auto f = some_floats(N, s);
    std::vector<__half> v(N);
    for (size_t i = 0; i < N; ++i) v[i] = __float2half(f[i] * 4);
    return v;
  };
  auto q = mk(1), k = mk(2), v = mk(3);
  auto *dq = to_device(q), *dk = to_device(k), *dv = to_device(v), *dO = on_device<__half>(N);
  float* L = on_device<float>(H * n);
  flash<<<dim3((n + BM - 1) / BM, H), 128>>>(dq, dk, dv, dO, L, n, 0.125f * 1.4426950408889634f);
  auto o = to_host(dO, N);
  double num = 0, den = 0;
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < n; ++i) {
      std::vector<double> p(i + 1);
      double mx = -1e30, s = 0;
      for (int j = 0; j <= i; ++j) {
        double d = 0;
        for (int e = 0; e < D; ++e)
          d += (double)__half2float(q[(h * n + i) * D + e]) * __half2float(k[(h * n + j) * D + e]);
        p[j] = d * 0.125;
        mx = std::max(mx, p[j]);
      }
      for (double& x : p) x = exp(x - mx), s += x;
      for (int e = 0; e < D; ++e) {
        double r = 0;
        for (int j = 0; j <= i; ++j) r += p[j] * __half2float(v[(h * n + j) * D + e]);
        r /= s;
        double d = r - __half2float(o[(h * n + i) * D + e]);
        num += d * d;
        den += r * r;
      }
    }
  std::printf("error %g\n", sqrt(num / den));
  if (sqrt(num / den) < 4e-3) std::puts("right");
}
