// Five-point stencil with a halo in shared memory.
extern "C" __global__ void stencil(const float* in, float* out, int width, int height) {
  __shared__ float tile[18][18];
  const int x0 = blockIdx.x * 16, y0 = blockIdx.y * 16;
  for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
    const int x = x0 + i % 18 - 1, y = y0 + i / 18 - 1;
    tile[i / 18][i % 18] = x >= 0 && x < width && y >= 0 && y < height ? in[y * width + x] : 0;
  }
  __syncthreads();
  const int x = x0 + threadIdx.x, y = y0 + threadIdx.y, tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  if (x < width && y < height) {
    out[y * width + x] = 0.5f * tile[ty][tx] + 0.125f * (tile[ty - 1][tx] + tile[ty + 1][tx] + tile[ty][tx - 1] + tile[ty][tx + 1]);
  }
}
