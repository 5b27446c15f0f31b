// A product of matrices by tiles in shared memory, timed with events over several launches.
#include <cmath>

#include "common.hpp"

template <int N>
__global__ void multiply(float* c, const float* a, const float* b, int wa, int wb) {
  __shared__ float as[N][N], bs[N][N];
  float sum = 0;
  const int row = blockIdx.y * N + threadIdx.y, column = blockIdx.x * N + threadIdx.x;
  for (int k = 0; k < wa; k += N) {
    as[threadIdx.y][threadIdx.x] = a[row * wa + k + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * wb + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[row * wb + column] = sum;
}

int main() {
  const int ha = 64, wa = 96, wb = 128;
  const std::vector<float> a = some_floats(ha * wa), b = some_floats(wa * wb, 2);
  float *da = to_device(a), *db = to_device(b), *dc = on_device<float>(ha * wb);
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t start, stop;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  const dim3 threads(16, 16), grid(wb / 16, ha / 16);
  multiply<16><<<grid, threads, 0, stream>>>(dc, da, db, wa, wb);
  OK(cudaStreamSynchronize(stream));
  OK(cudaEventRecord(start, stream));
  for (int i = 0; i < 2; ++i) multiply<32><<<dim3(wb / 32, ha / 32), dim3(32, 32), 0, stream>>>(dc, da, db, wa, wb);
  OK(cudaEventRecord(stop, stream));
  OK(cudaEventSynchronize(stop));
  float ms = 0;
  OK(cudaEventElapsedTime(&ms, start, stop));
  EXPECT(ms > 0);
  const auto c = to_host(dc, ha * wb);
  for (int y = 0; y < ha; ++y)
    for (int x = 0; x < wb; ++x) {
      double want = 0;
      for (int k = 0; k < wa; ++k) want += double(a[y * wa + k]) * b[k * wb + x];
      EXPECT(std::fabs(c[y * wb + x] - want) < 1e-4);
    }
  return right();
}
