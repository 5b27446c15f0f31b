// Clocks: of the multiprocessor at the beginning and the end of each block, and the global timer.
#include "common.hpp"

__global__ void timed(const float* in, float* out, clock_t* times, unsigned long long* global) {
  extern __shared__ float s[];
  if (threadIdx.x == 0) times[blockIdx.x] = clock();
  const long long wide = clock64();
  s[threadIdx.x] = in[threadIdx.x];
  s[threadIdx.x + blockDim.x] = in[threadIdx.x + blockDim.x];
  for (int d = blockDim.x; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d && s[threadIdx.x + d] < s[threadIdx.x]) s[threadIdx.x] = s[threadIdx.x + d];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
  __syncthreads();
  if (threadIdx.x == 0) {
    times[blockIdx.x + gridDim.x] = clock();
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(global[blockIdx.x]));
    if (clock64() < wide) times[blockIdx.x] = -1;
  }
}

int main() {
  const int blocks = 16, threads = 128;
  const std::vector<float> in = some_floats(2 * threads);
  float *d = to_device(in), *out = on_device<float>(blocks);
  clock_t* times = on_device<clock_t>(2 * blocks);
  auto* global = on_device<unsigned long long>(blocks);
  timed<<<blocks, threads, 2 * threads * 4>>>(d, out, times, global);
  float least = in[0];
  for (const float x : in) least = std::min(least, x);
  for (const float x : to_host(out, blocks)) EXPECT(x == least);
  const auto t = to_host(times, 2 * blocks);
  for (int i = 0; i < blocks; ++i) EXPECT(t[i] != -1 && t[i + blocks] != t[i]);
  for (const auto g : to_host(global, blocks)) EXPECT(g != 0);
  return right();
}
