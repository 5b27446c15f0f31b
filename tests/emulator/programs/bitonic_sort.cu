// Bitonic sort of 512 keys in shared memory.
extern "C" __global__ void sort(int* keys) {
  __shared__ int shared[512];
  for (int i = threadIdx.x; i < 512; i += blockDim.x) shared[i] = keys[blockIdx.x * 512 + i];
  for (int size = 2; size <= 512; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const int low = 2 * threadIdx.x - (threadIdx.x & (stride - 1)), high = low + stride;
      const bool ascending = (low & size) == 0;
      const int a = shared[low], b = shared[high];
      if ((a > b) == ascending) {
        shared[low] = b;
        shared[high] = a;
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 512; i += blockDim.x) keys[blockIdx.x * 512 + i] = shared[i];
}
