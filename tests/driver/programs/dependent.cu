// Dependent launches of three kernels. The second reads what the first wrote before it waits, which is right unless the
// first lets it begin early (the program's argument).
#include <cuda_runtime.h>

#include "check.hpp"

namespace {

__global__ void first(int* p, bool early) {
  if (early) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  p[threadIdx.x] = int(threadIdx.x);
}
__global__ void second(const int* p, int* q) {
  const int x = p[threadIdx.x];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  q[threadIdx.x] = x + 1;
}
__global__ void third(const int* q, int* r) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  r[threadIdx.x] = 2 * q[threadIdx.x];
}

template <class... A>
void launch(void (*kernel)(A...), A... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 64;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace

int main(int count, char**) {
  int *p = nullptr, r[64];
  OK(cudaMalloc(&p, 3 * 64 * sizeof(int)));
  launch<int*, bool>(first, p, count > 1);
  launch<const int*, int*>(second, p, p + 64);
  launch<const int*, int*>(third, p + 64, p + 128);
  OK(cudaMemcpy(r, p + 128, sizeof r, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) EXPECT(r[i] == 2 * (i + 1));
  std::printf("dependent: right\n");
}
