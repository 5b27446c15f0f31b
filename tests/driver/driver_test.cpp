// The stand-in for the driver called directly, with PTX written here: no CUDA toolkit is needed.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "driver/api.hpp"

KILN_API CUresult cuGetExportTable(const void** out, const CUuuid* id);
KILN_API CUresult cuGetErrorName(CUresult error, const char** out);

namespace {

constexpr const char* kPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .b8 table[16];
.visible .entry add(.param .u64 p, .param .u32 n) {
  .reg .pred %q;
  .reg .b32 %r<5>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [p];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %d2, %r2, 4;
  cvta.to.global.u64 %d1, %d1;
  add.s64 %d3, %d1, %d2;
  ld.global.u32 %r3, [%d3];
  add.s32 %r4, %r3, %r1;
  st.global.u32 [%d3], %r4;
  ret;
}
.visible .entry wrong(.param .u64 p) {
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  mov.u32 %r1, 1;
  mov.u64 %d1, 16;
  st.global.u32 [%d1], %r1;
  ret;
}
)";

struct Device {
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  Device() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    CUcontext context = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    REQUIRE(cuModuleLoadData(&module, kPtx) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&add, module, "add") == CUDA_SUCCESS);
  }
  CUresult launch(CUdeviceptr p, unsigned n, CUstream stream = nullptr) const {
    void* args[] = {&p, &n};
    return cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, args, nullptr);
  }
};

}  // namespace

TEST_CASE("memory, memset of every width, launches, copies back") {
  const Device device;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, 128) == CUDA_SUCCESS);
  CHECK(cuMemsetD8_v2(p, 1, 128) == CUDA_SUCCESS);
  CHECK(cuMemsetD16_v2(p, 0x0203, 32) == CUDA_SUCCESS);
  CHECK(cuMemsetD32_v2(p, 7, 8) == CUDA_SUCCESS);
  CHECK(device.launch(p, 5) == CUDA_SUCCESS);
  unsigned out[32];
  CHECK(cuMemcpyDtoH_v2(out, p, sizeof out) == CUDA_SUCCESS);
  CHECK(out[0] == 12);
  CHECK(out[8] == 0x02030203 + 5);
  CHECK(out[31] == 0x01010101 + 5);
  CHECK(cuMemcpyDtoH_v2(out, p + 64, 128) == CUDA_ERROR_INVALID_VALUE);
  // The same arguments as one buffer.
  struct {
    CUdeviceptr p;
    unsigned n;
  } buffer{p, 1};
  std::size_t bytes = 12;
  void* extra[] = {reinterpret_cast<void*>(1), &buffer, reinterpret_cast<void*>(2), &bytes, nullptr};
  CHECK(cuLaunchKernel(device.add, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH_v2(out, p, 4) == CUDA_SUCCESS);
  CHECK(out[0] == 13);
  CHECK(cuMemFree_v2(p + 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("managed memory is the program's memory") {
  const Device device;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAllocManaged(&p, 128, 1) == CUDA_SUCCESS);
  auto* const values = reinterpret_cast<unsigned*>(p);
  for (unsigned i = 0; i < 32; ++i) values[i] = i;
  CHECK(device.launch(p, 100) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  for (unsigned i = 0; i < 32; ++i) CHECK(values[i] == i + 100);
  unsigned managed = 0;
  CHECK(cuPointerGetAttribute(&managed, 8, p + 4) == CUDA_SUCCESS);
  CHECK(managed == 1);
  CHECK(cuMemFree_v2(p) == CUDA_SUCCESS);
}

TEST_CASE("variables, names, functions") {
  const Device device;
  CUdeviceptr table = 0;
  std::size_t bytes = 0;
  CHECK(cuModuleGetGlobal_v2(&table, &bytes, device.module, "table") == CUDA_SUCCESS);
  CHECK(bytes == 16);
  CHECK(cuModuleGetGlobal_v2(&table, &bytes, device.module, "tables") == CUDA_ERROR_NOT_FOUND);
  CUfunction none = nullptr;
  CHECK(cuModuleGetFunction(&none, device.module, "sub") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetFunction(&none, reinterpret_cast<CUmodule>(&none), "add") == CUDA_ERROR_INVALID_HANDLE);
  std::size_t offset = 0, size = 0;
  CHECK(cuFuncGetParamInfo(device.add, 1, &offset, &size) == CUDA_SUCCESS);
  CHECK(offset == 8);
  CHECK(size == 4);
  CHECK(cuLaunchKernel(device.add, 1, 1, 1, 2048, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("code that is none") {
  const Device device;
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, "nonsense") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cuModuleLoadData(&module,
                         "\x7f"
                         "ELF....") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  const std::string broken =
      std::string(".version 8.0\n.target sm_80\n.address_size 64\n") + ".visible .entry f( {";
  char log[200] = "";
  int options[] = {5, 6};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CHECK(cuModuleLoadDataEx(&module, broken.c_str(), 2, options, values) == CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("sm_80.ptx:4") == 0);
}

TEST_CASE("a captured stream runs when its graph is launched") {
  const Device device;
  CUdeviceptr p = 0;
  REQUIRE(cuMemAlloc_v2(&p, 128) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32_v2(p, 0, 32) == CUDA_SUCCESS);
  CUstream s = nullptr;
  REQUIRE(cuStreamCreate(&s, 1) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture_v2(s, 0) == CUDA_SUCCESS);
  CHECK(device.launch(p, 3, s) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture_v2(s, 0) == CUDA_ERROR_ILLEGAL_STATE);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  unsigned out = 1;
  CHECK(cuMemcpyDtoH_v2(&out, p, 4) == CUDA_SUCCESS);
  CHECK(out == 0);
  for (int i = 0; i < 2; ++i) CHECK(cuGraphLaunch(exec, s) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH_v2(&out, p, 4) == CUDA_SUCCESS);
  CHECK(out == 6);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamDestroy_v2(s) == CUDA_SUCCESS);
}

TEST_CASE("functions by name and version") {
  const Device device;
  void *found = nullptr, *other = nullptr;
  int status = -1;
  CHECK(cuGetProcAddress_v2("cuMemAlloc", &found, 13000, 0, &status) == CUDA_SUCCESS);
  CHECK(found == reinterpret_cast<void*>(&cuMemAlloc_v2));
  CHECK(cuGetProcAddress_v2("cuStreamGetCaptureInfo", &found, 11030, 0, &status) == CUDA_SUCCESS);
  CHECK(found == reinterpret_cast<void*>(&cuStreamGetCaptureInfo_v2));
  CHECK(cuGetProcAddress_v2("cuGraphInstantiate", &found, 12000, 0, &status) == CUDA_SUCCESS);
  CHECK(found == reinterpret_cast<void*>(&cuGraphInstantiateWithFlags));
  CHECK(cuGetProcAddress_v2("cuLaunchKernel", &found, 12000, 2, &status) == CUDA_SUCCESS);
  CHECK(cuGetProcAddress_v2("cuLaunchKernel", &other, 12000, 0, &status) == CUDA_SUCCESS);
  CHECK(found != other);
  CHECK(cuGetProcAddress_v2("cuNothing", &found, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  CHECK(status == 1);
  // There, and not implemented.
  CHECK(cuGetProcAddress_v2("cuIpcGetMemHandle", &found, 13000, 0, &status) == CUDA_SUCCESS);
  CHECK(reinterpret_cast<CUresult (*)()>(found)() == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuGetExportTable(const_cast<const void**>(&found), nullptr) == CUDA_ERROR_NOT_FOUND);
  const char* name = nullptr;
  CHECK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name) == CUDA_SUCCESS);
  CHECK(std::string(name) == "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_CASE("the error of a kernel stays until the context is reset") {
  const Device device;
  CUfunction wrong = nullptr;
  REQUIRE(cuModuleGetFunction(&wrong, device.module, "wrong") == CUDA_SUCCESS);
  CUdeviceptr p = 0;
  void* args[] = {&p};
  CHECK(cuLaunchKernel(wrong, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuMemAlloc_v2(&p, 4) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&p, 4) == CUDA_SUCCESS);
}
