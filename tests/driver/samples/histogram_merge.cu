// Histograms of bytes: one in shared memory for each warp, partial ones of blocks merged by a second kernel.
#include "common.hpp"

constexpr int kBins = 256, kWarps = 4, kBlocks = 6;

__global__ void partial(unsigned* out, const uchar4* in, int n) {
  __shared__ unsigned bins[kWarps][kBins];
  for (int i = threadIdx.x; i < kWarps * kBins; i += blockDim.x) (&bins[0][0])[i] = 0;
  __syncthreads();
  unsigned* mine = bins[threadIdx.x / 32];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    const uchar4 v = in[i];
    atomicAdd(mine + v.x, 1u);
    atomicAdd(mine + v.y, 1u);
    atomicAdd(mine + v.z, 1u);
    atomicAdd(mine + v.w, 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    unsigned sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += bins[w][bin];
    out[blockIdx.x * kBins + bin] = sum;
  }
}
__global__ void merge(unsigned* out, const unsigned* parts) {
  __shared__ unsigned data[kBlocks];
  if (threadIdx.x < kBlocks) data[threadIdx.x] = parts[threadIdx.x * kBins + blockIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    for (const unsigned part : data) sum += part;
    out[blockIdx.x] = sum;
  }
}

int main() {
  const int n = 20000;
  const std::vector<int> numbers = some_ints(4 * n, 250);
  std::vector<unsigned char> bytes(numbers.begin(), numbers.end());
  unsigned char* in = to_device(bytes);
  unsigned *parts = on_device<unsigned>(kBlocks * kBins), *out = on_device<unsigned>(kBins);
  partial<<<kBlocks, 32 * kWarps>>>(parts, reinterpret_cast<uchar4*>(in), n);
  merge<<<kBins, 32>>>(out, parts);
  std::vector<unsigned> want(kBins);
  for (const unsigned char b : bytes) ++want[b];
  EXPECT(to_host(out, kBins) == want);
  return right();
}
