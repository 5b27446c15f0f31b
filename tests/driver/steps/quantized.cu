// Kernels in the manner of ggml: 4-bit products by dp4a, norms, rotation, softmax, sorting. `quantized STEP` leaves out a step of it, 0 for none.
#include <cuda_fp16.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include "tests/driver/samples/common.hpp"
__constant__ int left_out;
#define STEP(n) if (left_out != (n))
struct Q4 {
  __half d;
  uint8_t qs[16];
};
struct Q8 {
  __half2 ds;
  int8_t qs[32];
};
__global__ void quantize_q8(const float* x, Q8* y, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= k) return;
  float xi = x[i], am = fabsf(xi), s = xi;
  for (int m = 16; m > 0; m >>= 1) {
    am = fmaxf(am, __shfl_xor_sync(0xffffffff, am, m, 32));
    s += __shfl_xor_sync(0xffffffff, s, m, 32);
  }
  float d = am / 127;
  int8_t q = am == 0 ? 0 : (int8_t)roundf(xi / d);
  y[i / 32].qs[i % 32] = q;
  if (i % 32 == 0) y[i / 32].ds = __floats2half2_rn(d, s);
}
__global__ void mul_mat_vec_q(const Q4* w, const Q8* y, float* dst, int ncols) {
  int row = blockIdx.x, nb = ncols / 32, tid = threadIdx.y * 32 + threadIdx.x;
  float sum = 0;
  for (int b = tid / 4; b < nb; b += blockDim.x * blockDim.y / 4) {
    int q = tid % 4;
    const Q4& wb = w[row * nb + b];
    const Q8& yb = y[b];
    const uint16_t* p = (const uint16_t*)wb.qs + q * 2;
    int v = p[0] | p[1] << 16;
    int lo = v & 0x0f0f0f0f, hi = v >> 4 & 0x0f0f0f0f;
    int s = __dp4a(lo, ((const int*)yb.qs)[q], 0);
    s = __dp4a(hi, ((const int*)yb.qs)[q + 4], s);
    float2 ds = __half22float2(yb.ds);
    sum += __half2float(wb.d) * (s * ds.x - 8 * ds.y / 4);
  }
  __shared__ float part[3][32];
  if (threadIdx.y > 0) part[threadIdx.y - 1][threadIdx.x] = sum;
  STEP(1) __syncthreads();
  if (threadIdx.y > 0) return;
  for (int i = 0; i < 3; ++i) sum += part[i][threadIdx.x];
  for (int m = 16; m > 0; m >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, m, 32);
  if (threadIdx.x == 0) dst[row] = sum;
}
template <int BS>
__global__ void rms_norm(const float* x, float* dst, int ncols, float eps) {
  int row = blockIdx.x, tid = threadIdx.x;
  float t = 0;
  for (int c = tid; c < ncols; c += BS) t += x[row * ncols + c] * x[row * ncols + c];
  for (int m = 16; m > 0; m >>= 1) t += __shfl_xor_sync(0xffffffff, t, m, 32);
  __shared__ float s[32];
  if (BS > 32) {
    int w = tid / 32, l = tid % 32;
    if (l == 0) s[w] = t;
    STEP(2) __syncthreads();
    t = l < BS / 32 ? s[l] : 0;
    for (int m = 16; m > 0; m >>= 1) t += __shfl_xor_sync(0xffffffff, t, m, 32);
  }
  float sc = rsqrtf(t / ncols + eps);
  for (int c = tid; c < ncols; c += BS) dst[row * ncols + c] = sc * x[row * ncols + c];
}
__global__ void rope(const float* x, float* d, const int* pos, int ne, float base) {
  int i = 2 * (blockDim.y * blockIdx.y + threadIdx.y);
  if (i >= ne) return;
  int row = blockIdx.x;
  float th = pos[row] * powf(base, -(float)i / ne), c = cosf(th), s = sinf(th);
  float a = x[row * ne + i], b = x[row * ne + i + 1];
  d[row * ne + i] = a * c - b * s;
  d[row * ne + i + 1] = a * s + b * c;
}
__global__ void soft_max(const float* x, const __half* mask, float* dst, int ncols, float scale) {
  extern __shared__ float data[];
  float* buf = data;
  float* vals = data + 32;
  int tid = threadIdx.x, row = blockIdx.x, w = tid / 32, l = tid % 32;
  float m = -INFINITY;
  for (int c = tid; c < ncols; c += blockDim.x) {
    float v = x[row * ncols + c] * scale + __half2float(mask[row * ncols + c]);
    vals[c] = v;
    m = fmaxf(m, v);
  }
  for (int k = 16; k > 0; k >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, k));
  if (blockDim.x > 32) {
    if (w == 0) buf[l] = -INFINITY;
    STEP(3) __syncthreads();
    if (l == 0) buf[w] = m;
    STEP(4) __syncthreads();
    m = buf[l];
    for (int k = 16; k > 0; k >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, k));
  }
  float t = 0;
  for (int c = tid; c < ncols; c += blockDim.x) {
    float v = expf(vals[c] - m);
    t += v;
    vals[c] = v;
  }
  for (int k = 16; k > 0; k >>= 1) t += __shfl_xor_sync(0xffffffff, t, k);
  if (blockDim.x > 32) {
    STEP(5) __syncthreads();
    if (w == 0) buf[l] = 0;
    STEP(6) __syncthreads();
    if (l == 0) buf[w] = t;
    STEP(7) __syncthreads();
    t = buf[l];
    for (int k = 16; k > 0; k >>= 1) t += __shfl_xor_sync(0xffffffff, t, k);
  }
  for (int c = tid; c < ncols; c += blockDim.x) dst[row * ncols + c] = vals[c] / t;
}
__global__ void argsort(const float* x, int* dst, int ncols, int pad) {
  extern __shared__ int idx[];
  int col = threadIdx.x, row = blockIdx.x;
  const float* r = x + row * ncols;
  idx[col] = col;
  STEP(8) __syncthreads();
  for (int k = 2; k <= pad; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int o = col ^ j;
      if (o > col) {
        bool up = (col & k) == 0;
        int a = idx[col], b = idx[o];
        bool sw =
            up ? (a >= ncols || (b < ncols && r[a] > r[b])) : (b >= ncols || (a < ncols && r[a] < r[b]));
        if (sw) {
          idx[col] = b;
          idx[o] = a;
        }
      }
      STEP(9) __syncthreads();
    }
  if (col < ncols) dst[row * ncols + col] = idx[col];
}
int main(int c, char** a) {
  int skip = c > 1 ? atoi(a[1]) : 0;
  cudaMemcpyToSymbol(left_out, &skip, 4);
  int cols = 512, rows = 6, nb = cols / 32;
  auto xv = some_floats(cols);
  float* dx = to_device(xv);
  Q8* q8 = on_device<Q8>(nb);
  std::vector<Q4> w(rows * nb);
  unsigned s = 5;
  for (auto& b : w) {
    s = s * 1664525 + 1013904223;
    b.d = __float2half((s >> 20) / 4096.0f);
    for (auto& q : b.qs) {
      s = s * 1664525 + 1013904223;
      q = s >> 24;
    }
  }
  Q4* dw = to_device(w);
  float* dst = on_device<float>(4096);
  quantize_q8<<<(cols + 127) / 128, 128>>>(dx, q8, cols);
  mul_mat_vec_q<<<rows, dim3(32, 4)>>>(dw, q8, dst, cols);
  auto h = to_host(dst, rows);
  if (!skip)
    for (int r = 0; r < rows; ++r) {
      double e = 0, sc = 0;
      for (int i = 0; i < cols; ++i) {
        const Q4& b = w[r * nb + i / 32];
        int j = i % 32;
        int q = (j < 16 ? b.qs[j] & 15 : b.qs[j - 16] >> 4) - 8;
        e += __half2float(b.d) * q * xv[i];
        sc += std::abs(__half2float(b.d) * q * xv[i]);
      }
      EXPECT(std::abs(e - h[r]) < 0.01 * sc);
    }
  auto x = some_floats(8 * 300, 7);
  float* d2 = to_device(x);
  rms_norm<256><<<8, 256>>>(d2, dst, 300, 1e-5f);
  h = to_host(dst, 2400);
  if (!skip)
    for (int r = 0; r < 8; ++r) {
      double t = 0;
      for (int i = 0; i < 300; ++i) t += x[r * 300 + i] * x[r * 300 + i];
      for (int i = 0; i < 300; ++i)
        EXPECT(std::abs(h[r * 300 + i] - x[r * 300 + i] / sqrt(t / 300 + 1e-5)) < 1e-4);
    }
  std::vector<int> pos(8);
  std::iota(pos.begin(), pos.end(), 3);
  int* dp = to_device(pos);
  rope<<<dim3(8, 2), dim3(1, 128)>>>(d2, dst, dp, 300, 10000.f);
  h = to_host(dst, 2400);
  for (int r = 0; r < 8; ++r)
    for (int i = 0; i < 300; i += 2) {
      double th = pos[r] * pow(10000.0, -(double)i / 300);
      EXPECT(std::abs(h[r * 300 + i] - (x[r * 300 + i] * cos(th) - x[r * 300 + i + 1] * sin(th))) < 1e-4);
    }
  std::vector<__half> mask(2400);
  for (int i = 0; i < 2400; ++i) mask[i] = __float2half(i % 300 > 200 + i / 300 ? -INFINITY : 0.f);
  auto* dm = to_device(mask);
  soft_max<<<8, 128, (32 + 300) * 4>>>(d2, dm, dst, 300, 2.f);
  h = to_host(dst, 2400);
  if (!skip)
    for (int r = 0; r < 8; ++r) {
      double t = 0;
      for (int i = 0; i <= 200 + r; ++i) t += exp(2 * x[r * 300 + i]);
      for (int i = 0; i < 300; ++i)
        EXPECT(std::abs(h[r * 300 + i] - (i <= 200 + r ? exp(2 * x[r * 300 + i]) / t : 0)) < 1e-6);
    }
  int* di = on_device<int>(2400);
  argsort<<<8, 512, 512 * 4>>>(d2, di, 300, 512);
  auto hi = to_host(di, 2400);
  if (!skip)
    for (int r = 0; r < 8; ++r)
      for (int i = 1; i < 300; ++i) EXPECT(x[r * 300 + hi[r * 300 + i - 1]] <= x[r * 300 + hi[r * 300 + i]]);
  OK(cudaDeviceSynchronize());
  std::puts("right");
}
