// Memory, copies, symbols, properties, occupancy, printf and errors through the runtime.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "check.hpp"

__constant__ float scale[4];
__device__ int counter = 5;

__global__ void multiply(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * scale[i % 4];
  if (i == 0) {
    counter += 2;
    printf("n is %d\n", n);
  }
}
__global__ void add_one(int* p, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += 1;
}
__global__ void big_shared(int* out) {
  extern __shared__ int s[];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}

int main() {
  cudaDeviceProp p;
  OK(cudaGetDeviceProperties(&p, 0));
  EXPECT(p.major == 9 && p.multiProcessorCount == 132 && p.warpSize == 32 &&
         p.sharedMemPerBlockOptin == 232448);
  EXPECT(std::strstr(p.name, "H100") != nullptr && p.cooperativeLaunch == 1 && p.clusterLaunch == 1);
  int value = 0;
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0));
  EXPECT(value == 233472);
  EXPECT(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError() == cudaSuccess);

  const int n = 1000;
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = float(i);
  float *dx, *dy;
  OK(cudaMalloc(&dx, n * 4));
  OK(cudaMalloc(&dy, n * 4));
  OK(cudaMemcpy(dx, x.data(), n * 4, cudaMemcpyHostToDevice));
  const float factors[4] = {1, 2, 3, 4};
  OK(cudaMemcpyToSymbol(scale, factors, sizeof factors));
  multiply<<<(n + 127) / 128, 128>>>(dx, dy, n);
  OK(cudaGetLastError());
  OK(cudaMemcpy(y.data(), dy, n * 4, cudaMemcpyDefault));
  for (int i = 0; i < n; ++i) EXPECT(y[i] == x[i] * factors[i % 4]);
  int count = 0;
  OK(cudaMemcpyFromSymbol(&count, counter, 4));
  EXPECT(count == 7);
  void* address = nullptr;
  size_t bytes = 0;
  OK(cudaGetSymbolAddress(&address, scale));
  OK(cudaGetSymbolSize(&bytes, scale));
  EXPECT(bytes == 16 && address != nullptr);

  // Pitched memory: a 2D copy in, a memset of part of it, a copy out.
  char* pitched;
  size_t pitch = 0;
  OK(cudaMallocPitch((void**)&pitched, &pitch, 100, 8));
  EXPECT(pitch >= 100 && pitch % 32 == 0);
  std::vector<char> image(8 * 100), back(8 * 100, 0);
  for (size_t i = 0; i < image.size(); ++i) image[i] = char(i % 101);
  OK(cudaMemcpy2D(pitched, pitch, image.data(), 100, 100, 8, cudaMemcpyHostToDevice));
  OK(cudaMemset2D(pitched + 10, pitch, 77, 5, 8));
  OK(cudaMemcpy2D(back.data(), 100, pitched, pitch, 100, 8, cudaMemcpyDeviceToHost));
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 100; ++c) EXPECT(back[r * 100 + c] == (c >= 10 && c < 15 ? 77 : image[r * 100 + c]));

  // A box of a volume.
  cudaPitchedPtr volume;
  OK(cudaMalloc3D(&volume, make_cudaExtent(64, 4, 3)));
  OK(cudaMemset3D(volume, 9, make_cudaExtent(64, 4, 3)));
  std::vector<char> part(8 * 2 * 2, 0);
  cudaMemcpy3DParms box = {};
  box.srcPtr = volume;
  box.srcPos = make_cudaPos(16, 1, 1);
  box.dstPtr = make_cudaPitchedPtr(part.data(), 8, 8, 2);
  box.extent = make_cudaExtent(8, 2, 2);
  box.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&box));
  for (char c : part) EXPECT(c == 9);

  // Pinned and registered host memory.
  int* pinned;
  OK(cudaHostAlloc((void**)&pinned, 400, cudaHostAllocMapped));
  for (int i = 0; i < 100; ++i) pinned[i] = i;
  add_one<<<1, 128>>>(pinned, 100);
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < 100; ++i) EXPECT(pinned[i] == i + 1);
  std::vector<int> own(100, 3);
  int* alias;
  OK(cudaHostRegister(own.data(), 400, cudaHostRegisterMapped));
  OK(cudaHostGetDevicePointer((void**)&alias, own.data(), 0));
  add_one<<<1, 128>>>(alias, 100);
  OK(cudaDeviceSynchronize());
  for (int v : own) EXPECT(v == 4);
  EXPECT(cudaHostRegister(own.data(), 400, 0) == cudaErrorHostMemoryAlreadyRegistered);
  cudaGetLastError();
  OK(cudaHostUnregister(own.data()));
  cudaPointerAttributes a;
  OK(cudaPointerGetAttributes(&a, dx + 3));
  EXPECT(a.type == cudaMemoryTypeDevice && a.devicePointer == dx + 3);
  OK(cudaPointerGetAttributes(&a, pinned));
  EXPECT(a.type == cudaMemoryTypeHost && a.hostPointer == pinned);
  OK(cudaPointerGetAttributes(&a, own.data()));
  EXPECT(a.type == cudaMemoryTypeUnregistered);

  // Dynamic shared memory beyond 48 KiB has to be asked for.
  int* out;
  OK(cudaMalloc(&out, 1024));
  big_shared<<<1, 256, 100 * 1024>>>(out);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  OK(cudaFuncSetAttribute(big_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
  big_shared<<<1, 256, 100 * 1024>>>(out);
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 255);
  int blocks = 0, grid = 0, block = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, big_shared, 256, 100 * 1024));
  EXPECT(blocks == 2);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, big_shared, 1024, 0));
  EXPECT(blocks == 2);
  OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, big_shared, 0, 0));
  EXPECT(grid >= 132 && block % 32 == 0);
  add_one<<<1, 2000>>>(out, 1);
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  cudaFuncAttributes f;
  OK(cudaFuncGetAttributes(&f, add_one));
  EXPECT(f.maxThreadsPerBlock == 1024 && f.sharedSizeBytes == 0 && f.ptxVersion == 90);

  // Stream-ordered memory and a pool.
  cudaStream_t s;
  OK(cudaStreamCreate(&s));
  int* ordered;
  OK(cudaMallocAsync((void**)&ordered, 512, s));
  OK(cudaMemsetAsync(ordered, 0, 512, s));
  add_one<<<1, 128, 0, s>>>(ordered, 128);
  OK(cudaMemcpyAsync(pinned, ordered, 400, cudaMemcpyDeviceToHost, s));
  OK(cudaFreeAsync(ordered, s));
  OK(cudaStreamSynchronize(s));
  EXPECT(pinned[0] == 1 && pinned[99] == 1);
  EXPECT(cudaMemcpy(dx, x.data(), n * 4 + 1024, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  EXPECT(cudaFree(dx + 1) == cudaErrorInvalidValue);
  OK(cudaStreamDestroy(s));
  OK(cudaFree(dx));
  OK(cudaDeviceReset());
  std::puts("basics: right");
  return 0;
}
