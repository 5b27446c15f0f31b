// The driver's interface alone: PTX that NVRTC compiles, options of the JIT and its log, linking of two pieces of PTX,
// arguments by address and by buffer, variables of the module.
#include <cuda.h>
#include <nvrtc.h>

#include <cstring>
#include <string>

#include "common.hpp"

#define CU(call)                                                  \
  do {                                                            \
    const CUresult result_ = (call);                              \
    if (result_ != CUDA_SUCCESS) {                                \
      const char* name_ = "";                                     \
      cuGetErrorName(result_, &name_);                            \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, name_); \
      std::exit(1);                                               \
    }                                                             \
  } while (0)

std::string compile(const char* source, bool relocatable) {
  nvrtcProgram program;
  EXPECT(nvrtcCreateProgram(&program, source, "source.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
  const char* options[] = {"--gpu-architecture=compute_80", "--relocatable-device-code=true"};
  EXPECT(nvrtcCompileProgram(program, relocatable ? 2 : 1, options) == NVRTC_SUCCESS);
  size_t bytes = 0;
  nvrtcGetPTXSize(program, &bytes);
  std::string ptx(bytes, '\0');
  nvrtcGetPTX(program, &ptx[0]);
  nvrtcDestroyProgram(&program);
  return ptx;
}
const char* kAdd = R"(
__constant__ int bias;
extern "C" __global__ void add(int* c, const int* a, const int* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i] + bias;
})";
const char* kCaller = R"(
extern __device__ int twice(int x);
extern __device__ int shared_counter;
extern "C" __global__ void call(int* p) { p[threadIdx.x] = twice(p[threadIdx.x]) + shared_counter; })";
const char* kCallee = R"(
__device__ int shared_counter = 5;
__device__ int twice(int x) { return 2 * x; })";

int main() {
  CU(cuInit(0));
  CUdevice device;
  CUcontext context;
  char name[100];
  CU(cuDeviceGet(&device, 0));
  CU(cuDeviceGetName(name, 100, device));
  EXPECT(std::strlen(name) > 3);
  CU(cuDevicePrimaryCtxRetain(&context, device));
  CU(cuCtxSetCurrent(context));
  const std::string ptx = compile(kAdd, false);
  CUmodule module;
  char log[1000] = "";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), reinterpret_cast<void*>(32)};
  CU(cuModuleLoadDataEx(&module, ptx.c_str(), 3, options, values));
  CUfunction add;
  CU(cuModuleGetFunction(&add, module, "add"));
  EXPECT(cuModuleGetFunction(&add, module, "none") == CUDA_ERROR_NOT_FOUND);
  CU(cuModuleGetFunction(&add, module, "add"));
  CUdeviceptr bias;
  size_t bytes = 0;
  CU(cuModuleGetGlobal(&bias, &bytes, module, "bias"));
  EXPECT(bytes == 4);
  CU(cuMemsetD32(bias, 10, 1));
  const int n = 500;
  const std::vector<int> x = some_ints(n, 100), y = some_ints(n, 100, 2);
  CUdeviceptr a, b, c;
  for (CUdeviceptr* p : {&a, &b, &c}) CU(cuMemAlloc(p, 4 * n));
  CU(cuMemcpyHtoD(a, x.data(), 4 * n));
  CU(cuMemcpyHtoD(b, y.data(), 4 * n));
  int count = n;
  void* args[] = {&c, &a, &b, &count};
  CU(cuLaunchKernel(add, 2, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr));
  std::vector<int> got(n);
  CU(cuMemcpyDtoH(got.data(), c, 4 * n));
  for (int i = 0; i < n; ++i) EXPECT(got[i] == x[i] + y[i] + 10);
  struct {
    CUdeviceptr c, a, b;
    int n;
  } packed = {c, a, a, n};
  size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  CU(cuLaunchKernel(add, 2, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
  CU(cuMemcpyDtoH(got.data(), c, 4 * n));
  for (int i = 0; i < n; ++i) EXPECT(got[i] == 2 * x[i] + 10);

  CUlinkState link;
  void* cubin = nullptr;
  size_t cubin_bytes = 0;
  char error[1000] = "";
  CUjit_option link_options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* link_values[] = {error, reinterpret_cast<void*>(sizeof error)};
  const std::string caller = compile(kCaller, true), callee = compile(kCallee, true);
  CU(cuLinkCreate(2, link_options, link_values, &link));
  CU(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(caller.c_str()), caller.size() + 1, "caller", 0, nullptr, nullptr));
  CU(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(callee.c_str()), callee.size() + 1, "callee", 0, nullptr, nullptr));
  CU(cuLinkComplete(link, &cubin, &cubin_bytes));
  CUmodule linked;
  CU(cuModuleLoadData(&linked, cubin));
  CU(cuLinkDestroy(link));
  CUfunction call;
  CU(cuModuleGetFunction(&call, linked, "call"));
  void* call_args[] = {&c};
  CU(cuLaunchKernel(call, 1, 1, 1, 64, 1, 1, 0, nullptr, call_args, nullptr));
  CU(cuMemcpyDtoH(got.data(), c, 4 * n));
  for (int i = 0; i < 64; ++i) EXPECT(got[i] == 2 * (2 * x[i] + 10) + 5);
  CU(cuModuleUnload(linked));
  CU(cuModuleUnload(module));
  return right();
}
