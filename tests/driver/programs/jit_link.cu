// NVRTC for a real GPU (-arch=sm_90), and nvJitLink: both give what the driver loads.
#include <cuda.h>
#include <nvJitLink.h>
#include <nvrtc.h>

#include <string>
#include <vector>

#include "check.hpp"

namespace {

constexpr const char* kKernel =
    "__device__ int weight(int); extern \"C\" __global__ void weigh(int* p) { p[threadIdx.x] = weight(threadIdx.x); }";
constexpr const char* kFunction = "__device__ int weight(int x) { return 3 * x + 1; }";
constexpr const char* kWhole = "extern \"C\" __global__ void weigh(int* p) { p[threadIdx.x] = 5 * threadIdx.x; }";

std::vector<char> compile(const char* source, std::vector<const char*> options, bool machine_code) {
  nvrtcProgram program;
  EXPECT(nvrtcCreateProgram(&program, source, "source.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
  EXPECT(nvrtcCompileProgram(program, int(options.size()), options.data()) == NVRTC_SUCCESS);
  std::size_t bytes = 0;
  EXPECT((machine_code ? nvrtcGetCUBINSize(program, &bytes) : nvrtcGetPTXSize(program, &bytes)) == NVRTC_SUCCESS);
  std::vector<char> out(bytes);
  EXPECT((machine_code ? nvrtcGetCUBIN(program, out.data()) : nvrtcGetPTX(program, out.data())) == NVRTC_SUCCESS);
  EXPECT(nvrtcDestroyProgram(&program) == NVRTC_SUCCESS);
  return out;
}

std::vector<char> link(const std::vector<std::vector<char>>& parts) {
  nvJitLinkHandle handle;
  const char* options[] = {"-arch=sm_90"};
  EXPECT(nvJitLinkCreate(&handle, 1, options) == NVJITLINK_SUCCESS);
  for (const std::vector<char>& part : parts)
    EXPECT(nvJitLinkAddData(handle, NVJITLINK_INPUT_PTX, part.data(), part.size(), "part") == NVJITLINK_SUCCESS);
  EXPECT(nvJitLinkAddData(handle, NVJITLINK_INPUT_LTOIR, "none", 4, "late") != NVJITLINK_SUCCESS);
  std::size_t bytes = 0;
  EXPECT(nvJitLinkGetErrorLogSize(handle, &bytes) == NVJITLINK_SUCCESS);
  std::string log(bytes, '\0');
  EXPECT(nvJitLinkGetErrorLog(handle, log.data()) == NVJITLINK_SUCCESS);
  EXPECT(log.find("late: it is LTO-IR") == 0);
  EXPECT(nvJitLinkGetLinkedCubinSize(handle, &bytes) != NVJITLINK_SUCCESS);
  EXPECT(nvJitLinkComplete(handle) == NVJITLINK_SUCCESS);
  EXPECT(nvJitLinkGetLinkedCubinSize(handle, &bytes) == NVJITLINK_SUCCESS);
  std::vector<char> out(bytes);
  EXPECT(nvJitLinkGetLinkedCubin(handle, out.data()) == NVJITLINK_SUCCESS);
  EXPECT(nvJitLinkDestroy(&handle) == NVJITLINK_SUCCESS);
  return out;
}

/// The 32 numbers that `weigh` writes.
std::vector<int> run(const std::vector<char>& code) {
  CUmodule module;
  CUfunction kernel;
  CUdeviceptr memory;
  std::vector<int> out(32);
  EXPECT(cuModuleLoadData(&module, code.data()) == CUDA_SUCCESS);
  EXPECT(cuModuleGetFunction(&kernel, module, "weigh") == CUDA_SUCCESS);
  EXPECT(cuMemAlloc(&memory, 128) == CUDA_SUCCESS);
  void* arguments[] = {&memory};
  EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
  EXPECT(cuMemcpyDtoH(out.data(), memory, 128) == CUDA_SUCCESS);
  return out;
}

}  // namespace

int main() {
  CUcontext context;
  EXPECT(cuInit(0) == CUDA_SUCCESS);
  EXPECT(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  EXPECT(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  const std::vector<int> whole = run(compile(kWhole, {"-arch=sm_90"}, true));
  const std::vector<const char*> separate = {"-arch=compute_90", "-rdc=true"};
  const std::vector<int> linked = run(link({compile(kKernel, separate, false), compile(kFunction, separate, false)}));
  for (int i = 0; i < 32; ++i) EXPECT(whole[i] == 5 * i && linked[i] == 3 * i + 1);
  std::printf("jit_link: right\n");
}
