// Transposes of pitched memory: straight, through a padded tile, and by diagonal blocks.
#include "common.hpp"

__global__ void straight(float* out, size_t op, const float* in, size_t ip, int w, int h) {
  const int x = blockIdx.x * 32 + threadIdx.x;
  for (int y = blockIdx.y * 32 + threadIdx.y; y < min(h, (int)blockIdx.y * 32 + 32); y += 8)
    if (x < w) out[x * op + y] = in[y * ip + x];
}
__global__ void tiled(float* out, size_t op, const float* in, size_t ip, int w, int h, bool diagonal) {
  __shared__ float tile[32][33];
  int bx = blockIdx.x, by = blockIdx.y;
  if (diagonal) {
    const int bid = bx + gridDim.x * by;
    by = bid % gridDim.y;
    bx = (bid / gridDim.y + by) % gridDim.x;
  }
  const int x = bx * 32 + threadIdx.x, y = by * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (x < w && y + i < h) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * ip + x];
  __syncthreads();
  const int tx = by * 32 + threadIdx.x, ty = bx * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (tx < h && ty + i < w) out[(ty + i) * op + tx] = tile[threadIdx.x][threadIdx.y + i];
}

int main() {
  const int w = 100, h = 70;
  const std::vector<float> in = some_floats(w * h);
  float *a, *b;
  size_t ap, bp;
  OK(cudaMallocPitch(&a, &ap, w * 4, h));
  OK(cudaMallocPitch(&b, &bp, h * 4, w));
  OK(cudaMemcpy2D(a, ap, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
  const dim3 grid((w + 31) / 32, (h + 31) / 32), threads(32, 8);
  for (int how = 0; how < 3; ++how) {
    OK(cudaMemset2D(b, bp, 0, h * 4, w));
    if (how == 0) straight<<<grid, threads>>>(b, bp / 4, a, ap / 4, w, h);
    else tiled<<<grid, threads>>>(b, bp / 4, a, ap / 4, w, h, how == 2);
    std::vector<float> out(w * h);
    OK(cudaMemcpy2D(out.data(), h * 4, b, bp, h * 4, w, cudaMemcpyDeviceToHost));
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) EXPECT(out[x * h + y] == in[y * w + x]);
  }
  return right();
}
