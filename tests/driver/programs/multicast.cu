// A multicast object of a team of one device: memory bound by handle and by address, and all that multimem does there.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

#include "check.hpp"

#define CU(call) EXPECT((call) == CUDA_SUCCESS)

/// out: what the team's memory holds, reduced, before and after.
__global__ void all_reduce(float* team, unsigned* out) {
  const int i = threadIdx.x;
  float sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(team + i) : "memory");
  asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(team + i), "f"(2 * sum) : "memory");
  asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(team + i), "f"(0.5f) : "memory");
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(sum) : "l"(team + i) : "memory");
  out[i] = __float_as_uint(sum);
}

/// Every thread counts at one place, and pairs of halves are added in vectors.
__global__ void count(unsigned* team, unsigned* pairs) {
  asm volatile("multimem.red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(team) : "memory");
  asm volatile("multimem.red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(team + 1), "r"(threadIdx.x) : "memory");
  if (threadIdx.x == 0)
    asm volatile("multimem.red.relaxed.gpu.global.add.v4.f16x2 [%0], {%1, %1, %1, %1};" ::"l"(pairs),
                 "r"(0x3c004000u)
                 : "memory");
}

__global__ void plain(unsigned* p) {
  asm volatile("multimem.red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory");
}

int main(int argc, char**) {
  OK(cudaFree(nullptr));
  int supported = 0;
  CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
  EXPECT(supported == 1);
  CUmulticastObjectProp team = {};
  team.numDevices = 1;
  std::size_t granule = 0;
  team.size = 1;
  CU(cuMulticastGetGranularity(&granule, &team, CU_MULTICAST_GRANULARITY_MINIMUM));
  team.size = 2 * granule;
  CUmemGenericAllocationHandle object, memory;
  CU(cuMulticastCreate(&object, &team));
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CU(cuMemCreate(&memory, granule, &prop, 0));
  EXPECT(cuMulticastBindMem(object, 0, memory, 0, granule, 0) != CUDA_SUCCESS);  // no device yet
  CU(cuMulticastAddDevice(object, 0));

  CUdeviceptr own, other, shared;
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU(cuMemAddressReserve(&own, granule, 0, 0, 0));
  CU(cuMemMap(own, granule, 0, memory, 0));
  CU(cuMemSetAccess(own, granule, &access, 1));
  CUmemGenericAllocationHandle second;
  CU(cuMemCreate(&second, granule, &prop, 0));
  CU(cuMemAddressReserve(&other, granule, 0, 0, 0));
  CU(cuMemMap(other, granule, 0, second, 0));
  CU(cuMemSetAccess(other, granule, &access, 1));
  CU(cuMulticastBindMem(object, 0, memory, 0, granule, 0));
  CU(cuMulticastBindAddr(object, granule, other, granule, 0));
  EXPECT(cuMulticastBindAddr(object, granule, other, granule, 0) == CUDA_ERROR_INVALID_VALUE);
  CU(cuMemAddressReserve(&shared, 2 * granule, 0, 0, 0));
  CU(cuMemMap(shared, 2 * granule, 0, object, 0));
  CU(cuMemSetAccess(shared, 2 * granule, &access, 1));

  float values[32];
  for (int i = 0; i < 32; ++i) values[i] = static_cast<float>(i);
  CU(cuMemcpyHtoD(own, values, sizeof values));
  unsigned *out, got[32], zeros[8] = {};
  OK(cudaMalloc(&out, sizeof got));
  all_reduce<<<1, 32>>>(reinterpret_cast<float*>(shared), out);
  OK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  CU(cuMemcpyDtoH(values, own, sizeof values));
  for (int i = 0; i < 32; ++i) {
    EXPECT(values[i] == 2.0f * static_cast<float>(i) + 0.5f);
    EXPECT(std::memcmp(&got[i], &values[i], 4) == 0);
  }
  CU(cuMemcpyHtoD(other, zeros, sizeof zeros));
  const CUdeviceptr middle = shared + granule;
  count<<<2, 64>>>(reinterpret_cast<unsigned*>(middle), reinterpret_cast<unsigned*>(middle + 16));
  CU(cuMemcpyDtoH(zeros, other, sizeof zeros));
  EXPECT(zeros[0] == 128 && zeros[1] == 63);
  for (int i = 4; i < 8; ++i) EXPECT(zeros[i] == 0x40004400u);  // (1, 2) twice

  CU(cuMulticastUnbind(object, 0, granule, granule));
  CU(cuMemUnmap(shared, 2 * granule));
  CU(cuMemAddressFree(shared, 2 * granule));
  CU(cuMemRelease(object));
  EXPECT(cuMulticastAddDevice(object, 0) == CUDA_ERROR_INVALID_VALUE);
  if (argc > 1) {  // an ordinary address
    plain<<<1, 1>>>(out);
    EXPECT(cudaDeviceSynchronize() != cudaSuccess);
  }
  std::puts("multicast: right");
}
