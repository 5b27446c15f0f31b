// redux.sync, and the min and max of a warp.
extern "C" __global__ void reduce(const unsigned* in, unsigned* sums, unsigned* least, unsigned* greatest) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned value = in[i];
  const unsigned sum = __reduce_add_sync(0xffffffffu, value);
  const unsigned low = __reduce_min_sync(0xffffffffu, value), high = __reduce_max_sync(0xffffffffu, value);
  if (threadIdx.x % 32 == 0) {
    sums[i / 32] = sum;
    least[i / 32] = low;
    greatest[i / 32] = high;
  }
}
