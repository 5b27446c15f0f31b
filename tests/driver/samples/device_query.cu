// What there is to know of the device, its limits, its peers, versions and errors.
#include <cstring>

#include "common.hpp"

int main() {
  int count = 0, driver = 0, runtime = 0, value = 0;
  OK(cudaGetDeviceCount(&count));
  EXPECT(count == 1);
  OK(cudaDriverGetVersion(&driver));
  OK(cudaRuntimeGetVersion(&runtime));
  EXPECT(driver >= runtime && runtime >= 12000);
  OK(cudaSetDevice(0));
  EXPECT(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice);
  cudaDeviceProp p;
  OK(cudaGetDeviceProperties(&p, 0));
  EXPECT(std::strlen(p.name) > 3 && p.major >= 7 && p.warpSize == 32 && p.totalGlobalMem > (1u << 30));
  EXPECT(p.multiProcessorCount > 10 && p.maxThreadsPerBlock == 1024 && p.sharedMemPerBlock == 49152);
  EXPECT(p.maxTexture2D[0] > 0 && p.maxTexture1D > 0 && p.maxTexture3D[2] > 0 && p.maxSurface2D[0] > 0);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0));
  EXPECT(value > 100000);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeMode, 0));
  EXPECT(value == cudaComputeModeDefault);
  OK(cudaDeviceCanAccessPeer(&value, 0, 0));
  EXPECT(value == 0);
  size_t free_bytes = 0, total_bytes = 0, limit = 0;
  OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT(free_bytes > 0 && free_bytes <= total_bytes);
  OK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 22));
  OK(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
  EXPECT(limit >= 1 << 22);
  char bus[32];
  OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  OK(cudaDeviceGetByPCIBusId(&value, bus));
  EXPECT(value == 0);
  cudaIpcMemHandle_t handle;
  void* memory = on_device<int>(64);
  EXPECT(cudaIpcGetMemHandle(&handle, memory) == cudaErrorNotSupported);
  EXPECT(std::strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorNotSupported") == 0);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &entry, 12000, cudaEnableDefault, &found));
  EXPECT(entry != nullptr && found == cudaDriverEntryPointSuccess);
  std::printf("%s\n", p.name);
  return right();
}
