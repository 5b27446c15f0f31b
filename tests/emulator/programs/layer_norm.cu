// Layer normalisation of half-precision rows: mean and variance by a block, Welford-free two passes.
#include <cuda_fp16.h>

__device__ float block_sum(float value, float* scratch) {
  for (int offset = 16; offset; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < blockDim.x / 32; ++i) total += scratch[i];
  return total;
}

extern "C" __global__ void layer_norm(const __half2* in, __half2* out, int pairs) {
  __shared__ float scratch[8];
  const __half2* row = in + blockIdx.x * pairs;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 v = __half22float2(row[i]);
    sum += v.x + v.y;
  }
  const float mean = block_sum(sum, scratch) / (2 * pairs);
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 v = __half22float2(row[i]);
    squares += (v.x - mean) * (v.x - mean) + (v.y - mean) * (v.y - mean);
  }
  const float scale = rsqrtf(block_sum(squares, scratch) / (2 * pairs) + 1e-5f);
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 v = __half22float2(row[i]);
    out[blockIdx.x * pairs + i] = __floats2half2_rn((v.x - mean) * scale, (v.y - mean) * scale);
  }
}
