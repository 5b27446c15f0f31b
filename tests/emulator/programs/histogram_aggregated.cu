// Histogram with warp aggregation: lanes with equal keys elect one to add for all (match.any).
extern "C" __global__ void histogram(const int* in, unsigned* bins, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned active = __activemask();
  const int key = in[i];
  const unsigned equal = __match_any_sync(active, key);
  if (__ffs(equal) - 1 == static_cast<int>(threadIdx.x % 32)) atomicAdd(&bins[key], static_cast<unsigned>(__popc(equal)));
}
