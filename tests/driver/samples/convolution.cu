// A separable convolution: weights in constant memory, rows and columns with halos in shared memory.
#include <cmath>

#include "common.hpp"

constexpr int kRadius = 4, kTile = 16;
__constant__ float weights[2 * kRadius + 1];

__global__ void rows(float* out, const float* in, int w, int h) {
  __shared__ float s[4][3 * kTile];
  const int y = blockIdx.y * 4 + threadIdx.y, x = blockIdx.x * kTile + threadIdx.x;
  for (int part = 0; part < 3; ++part) {
    const int from = x + (part - 1) * kTile;
    s[threadIdx.y][part * kTile + threadIdx.x] = from >= 0 && from < w ? in[y * w + from] : 0;
  }
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int i = -kRadius; i <= kRadius; ++i) sum += weights[i + kRadius] * s[threadIdx.y][kTile + threadIdx.x + i];
  out[y * w + x] = sum;
}
__global__ void columns(float* out, const float* in, int w, int h) {
  __shared__ float s[kTile][3 * kTile + 1];
  const int y = blockIdx.y * kTile + threadIdx.y, x = blockIdx.x * kTile + threadIdx.x;
  for (int part = 0; part < 3; ++part) {
    const int from = y + (part - 1) * kTile;
    s[threadIdx.x][part * kTile + threadIdx.y] = from >= 0 && from < h ? in[from * w + x] : 0;
  }
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int i = -kRadius; i <= kRadius; ++i) sum += weights[i + kRadius] * s[threadIdx.x][kTile + threadIdx.y + i];
  out[y * w + x] = sum;
}

int main() {
  const int w = 64, h = 48;
  const std::vector<float> in = some_floats(w * h), taps = some_floats(2 * kRadius + 1, 9);
  OK(cudaMemcpyToSymbol(weights, taps.data(), taps.size() * 4));
  float *d = to_device(in), *between = on_device<float>(w * h), *out = on_device<float>(w * h);
  rows<<<dim3(w / kTile, h / 4), dim3(kTile, 4)>>>(between, d, w, h);
  columns<<<dim3(w / kTile, h / kTile), dim3(kTile, kTile)>>>(out, between, w, h);
  const auto got = to_host(out, w * h);
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      double want = 0;
      for (int i = -kRadius; i <= kRadius; ++i)
        for (int j = -kRadius; j <= kRadius; ++j)
          if (y + i >= 0 && y + i < h && x + j >= 0 && x + j < w)
            want += double(taps[i + kRadius]) * taps[j + kRadius] * in[(y + i) * w + x + j];
      EXPECT(std::fabs(got[y * w + x] - want) < 1e-4);
    }
  return right();
}
