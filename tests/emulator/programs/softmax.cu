// Row-wise softmax, a warp a row.
extern "C" __global__ void softmax(const float* in, float* out, int rows, int columns) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < columns; i += 32) largest = fmaxf(largest, in[row * columns + i]);
  for (int offset = 16; offset; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
  for (int i = lane; i < columns; i += 32) sum += expf(in[row * columns + i] - largest);
  for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  for (int i = lane; i < columns; i += 32) out[row * columns + i] = expf(in[row * columns + i] - largest) / sum;
}
