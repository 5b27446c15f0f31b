// Memory of the host that kernels use: mapped, registered, write-combined; pointers asked what they are; system atomics.
#include "common.hpp"

__global__ void add(float* c, const float* a, const float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void count(int* p) {
  atomicAdd_system(&p[0], 1);
  atomicMax_system(&p[1], int(threadIdx.x));
  atomicExch_system(&p[2], 7);
  atomicXor_system(&p[3], 1 << (threadIdx.x % 8));
}

int main() {
  const int n = 3000;
  float *a, *da, *c, *dc;
  OK(cudaSetDeviceFlags(cudaDeviceMapHost));
  OK(cudaHostAlloc(&a, n * 4, cudaHostAllocMapped | cudaHostAllocWriteCombined));
  std::vector<float> b = some_floats(n), result(n);
  c = result.data();
  OK(cudaHostRegister(b.data(), n * 4, cudaHostRegisterMapped));
  OK(cudaHostRegister(c, n * 4, cudaHostRegisterDefault));
  for (int i = 0; i < n; ++i) a[i] = i;
  float* db;
  OK(cudaHostGetDevicePointer(&da, a, 0));
  OK(cudaHostGetDevicePointer(&db, b.data(), 0));
  OK(cudaHostGetDevicePointer(&dc, c, 0));
  add<<<(n + 255) / 256, 256>>>(dc, da, db, n);
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT(c[i] == i + b[i]);
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, a));
  EXPECT(attributes.type == cudaMemoryTypeHost && attributes.devicePointer == da);
  int local = 0, *managed;
  OK(cudaPointerGetAttributes(&attributes, &local));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  OK(cudaMallocManaged(&managed, 16));
  OK(cudaPointerGetAttributes(&attributes, managed));
  EXPECT(attributes.type == cudaMemoryTypeManaged);
  for (int i = 0; i < 4; ++i) managed[i] = 0;
  count<<<2, 64>>>(managed);
  OK(cudaDeviceSynchronize());
  EXPECT(managed[0] == 128 && managed[1] == 63 && managed[2] == 7 && managed[3] == 0);
  OK(cudaHostUnregister(b.data()));
  OK(cudaHostUnregister(c));
  return right();
}
