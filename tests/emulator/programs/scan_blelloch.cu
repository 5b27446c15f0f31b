// Work-efficient exclusive scan: up-sweep and down-sweep over 512 elements by 256 threads.
extern "C" __global__ void scan(const int* in, int* out) {
  __shared__ int tree[512];
  const int t = threadIdx.x, base = blockIdx.x * 512;
  tree[2 * t] = in[base + 2 * t];
  tree[2 * t + 1] = in[base + 2 * t + 1];
  int stride = 1;
  for (int active = 256; active > 0; active /= 2, stride *= 2) {
    __syncthreads();
    if (t < active) tree[stride * (2 * t + 2) - 1] += tree[stride * (2 * t + 1) - 1];
  }
  if (t == 0) tree[511] = 0;
  for (int active = 1; active < 512; active *= 2) {
    stride /= 2;
    __syncthreads();
    if (t < active) {
      const int left = stride * (2 * t + 1) - 1, right = stride * (2 * t + 2) - 1, value = tree[left];
      tree[left] = tree[right];
      tree[right] += value;
    }
  }
  __syncthreads();
  out[base + 2 * t] = tree[2 * t];
  out[base + 2 * t + 1] = tree[2 * t + 1];
}
