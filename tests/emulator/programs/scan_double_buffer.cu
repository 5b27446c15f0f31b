// Hillis-Steele scan with two buffers in dynamic shared memory.
extern "C" __global__ void scan(const int* in, int* out, int n) {
  extern __shared__ int buffers[];
  int from = 0, to = 1;
  const int t = threadIdx.x;
  buffers[t] = in[blockIdx.x * n + t];
  __syncthreads();
  for (int offset = 1; offset < n; offset *= 2) {
    buffers[to * n + t] = buffers[from * n + t] + (t >= offset ? buffers[from * n + t - offset] : 0);
    from = to;
    to = 1 - to;
    __syncthreads();
  }
  out[blockIdx.x * n + t] = buffers[from * n + t];
}
