// Block sizes by occupancy, attributes of functions, launch bounds, cache and carve-out preferences.
#include "common.hpp"

__global__ void square(int* p, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= p[i];
}
__global__ void __launch_bounds__(128, 4) bounded(int* p) {
  __shared__ int s[256];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[127 - threadIdx.x];
}

int main() {
  const int n = 5000;
  std::vector<int> in = some_ints(n, 1000);
  int *d = to_device(in), least = 0, block = 0, active = 0;
  OK(cudaOccupancyMaxPotentialBlockSize(&least, &block, square, 0, n));
  EXPECT(block >= 32 && block <= 1024 && least > 0);
  square<<<(n + block - 1) / block, block>>>(d, n);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, square, block, 0));
  cudaDeviceProp prop;
  OK(cudaGetDeviceProperties(&prop, 0));
  EXPECT(active * block <= prop.maxThreadsPerMultiProcessor && active > 0);
  OK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&least, &block, square, [](int threads) { return size_t(threads) * 64; }));
  EXPECT(size_t(block) * 64 <= prop.sharedMemPerBlock);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, bounded));
  EXPECT(attributes.maxThreadsPerBlock == 128 && attributes.sharedSizeBytes == 1024 && attributes.binaryVersion == prop.major * 10 + prop.minor);
  OK(cudaFuncSetCacheConfig(bounded, cudaFuncCachePreferShared));
  OK(cudaFuncSetAttribute(bounded, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  bounded<<<1, 256>>>(d);
  EXPECT(cudaGetLastError() != cudaSuccess);
  bounded<<<1, 128>>>(d);
  const auto got = to_host(d, n);
  for (int i = 0; i < n; ++i) EXPECT(got[i] == (i < 128 ? in[127 - i] * in[127 - i] : in[i] * in[i]));
  return right();
}
