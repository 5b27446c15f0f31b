// Sums by warp shuffles, then across warps through shared memory, then one atomic a block.
__device__ int warp_sum(int value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  return value;
}

extern "C" __global__ void reduce(const int* in, int* total, int n) {
  __shared__ int warps[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int sum = warp_sum(i < n ? in[i] : 0);
  if (lane == 0) warps[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const int all = warp_sum(lane < blockDim.x / 32 ? warps[lane] : 0);
    if (lane == 0) atomicAdd(total, all);
  }
}
