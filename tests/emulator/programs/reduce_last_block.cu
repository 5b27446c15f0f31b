// The threadFenceReduction sample's pattern: every block publishes a partial sum, the last one to finish adds them up.
__device__ unsigned int finished = 0;

extern "C" __global__ void reduce(const int* in, volatile int* partial, int* total, int n) {
  __shared__ int tree[128];
  __shared__ bool last;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tree[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = tree[0];
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    int sum = 0;
    for (int block = 0; block < gridDim.x; ++block) sum += partial[block];
    *total = sum;
  }
}
