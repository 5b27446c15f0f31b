// An array of virtual memory: reserved addresses, memory of the device mapped piece by piece, grown, unmapped.
#include <cuda.h>

#include "common.hpp"

#define CU(call)                                                  \
  do {                                                            \
    const CUresult result_ = (call);                              \
    if (result_ != CUDA_SUCCESS) {                                \
      std::printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, int(result_)); \
      std::exit(1);                                               \
    }                                                             \
  } while (0)

__global__ void add(int* c, const int* a, const int* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

struct Growing {
  CUdeviceptr base = 0;
  size_t reserved = 0, mapped = 0, granularity = 0;
  std::vector<CUmemGenericAllocationHandle> parts;
  CUmemAllocationProp prop = {};
  explicit Growing(size_t most) {
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CU(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    reserved = (most + granularity - 1) / granularity * granularity;
    CU(cuMemAddressReserve(&base, reserved, 0, 0, 0));
  }
  void grow(size_t bytes) {
    bytes = (bytes + granularity - 1) / granularity * granularity;
    if (bytes <= mapped) return;
    CUmemGenericAllocationHandle handle;
    CU(cuMemCreate(&handle, bytes - mapped, &prop, 0));
    CU(cuMemMap(base + mapped, bytes - mapped, 0, handle, 0));
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU(cuMemSetAccess(base + mapped, bytes - mapped, &access, 1));
    parts.push_back(handle);
    mapped = bytes;
  }
  ~Growing() {
    CU(cuMemUnmap(base, mapped));
    for (const CUmemGenericAllocationHandle h : parts) CU(cuMemRelease(h));
    CU(cuMemAddressFree(base, reserved));
  }
};

int main() {
  OK(cudaFree(nullptr));
  int supported = 0;
  CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  EXPECT(supported == 1);
  const int n = 1 << 20;  // 4 MiB: two granules of 2 MiB
  {
    Growing a(4 * n), b(4 * n), c(4 * n);
    const std::vector<int> x = some_ints(n, 1000), y = some_ints(n, 1000, 3);
    for (Growing* g : {&a, &b, &c}) g->grow(4 * n / 2);
    EXPECT(cuMemcpyHtoD(a.base, x.data(), 4 * n) != CUDA_SUCCESS);  // only half of it is there
    for (Growing* g : {&a, &b, &c}) g->grow(4 * n);
    CU(cuMemcpyHtoD(a.base, x.data(), 4 * n));
    CU(cuMemcpyHtoD(b.base, y.data(), 4 * n));
    const auto p = [](const Growing& g) { return reinterpret_cast<int*>(g.base); };
    add<<<64, 256>>>(p(c) + n / 2 - 100, p(a) + n / 2 - 100, p(b) + n / 2 - 100, 200);  // across both parts
    std::vector<int> got(200);
    CU(cuMemcpyDtoH(got.data(), c.base + 4 * (n / 2 - 100), 800));
    for (int i = 0; i < 200; ++i) EXPECT(got[i] == x[n / 2 - 100 + i] + y[n / 2 - 100 + i]);
    CUmemGenericAllocationHandle same;
    CU(cuMemRetainAllocationHandle(&same, reinterpret_cast<void*>(a.base + 12)));
    EXPECT(same == a.parts[0]);
    CU(cuMemRelease(same));
    unsigned long long flags = 0;
    const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CU(cuMemGetAccess(&flags, &here, a.base));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  return right();
}
