// cuda::barrier split into arrive and wait: neighbours exchange values in rounds.
#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void rounds(int* values, int count) {
  __shared__ int current[2][128];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, blockDim.x);
  current[0][t] = values[blockIdx.x * 128 + t];
  __syncthreads();
  int own = current[0][t];
  for (int i = 0; i < count; ++i) {
    auto token = barrier.arrive();
    const int unrelated = (i * 7 + t) % 5;  // work between arrival and wait
    barrier.wait(std::move(token));
    own = own + current[i % 2][(t + 1) % 128] + unrelated;
    current[(i + 1) % 2][t] = own;
  }
  values[blockIdx.x * 128 + t] = own;
}
