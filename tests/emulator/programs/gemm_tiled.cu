// C = A * B in 16 x 16 tiles of shared memory.
extern "C" __global__ void gemm(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int tile = 0; tile < k; tile += 16) {
    as[threadIdx.y][threadIdx.x] = row < m && tile + threadIdx.x < k ? a[row * k + tile + threadIdx.x] : 0;
    bs[threadIdx.y][threadIdx.x] = column < n && tile + threadIdx.y < k ? b[(tile + threadIdx.y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
