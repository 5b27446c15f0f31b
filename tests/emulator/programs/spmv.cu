// Sparse matrix (CSR) times vector, a warp a row.
extern "C" __global__ void spmv(const int* offsets, const int* columns, const float* values, const float* x, float* y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = offsets[row] + lane; i < offsets[row + 1]; i += 32) sum += values[i] * __ldg(&x[columns[i]]);
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (lane == 0) y[row] = sum;
}
