// A program that uses the device through libraries that it opens: one with kernels (twice, closed in between), and the
// driver, whose functions it finds by name.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

void* open(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::printf("%s\n", dlerror()), std::exit(2);
  return library;
}

int use_library(const char* path, int first) {
  void* const library = open(path);
  auto* const use = reinterpret_cast<int (*)(int)>(dlsym(library, "use"));
  const int result = use(first);
  dlclose(library);
  return result;
}

constexpr const char* kPtx =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry twice(.param .u64 p) {\n  .reg .b32 %r<3>;\n  .reg .b64 %d<4>;\n  ld.param.u64 %d1, [p];\n"
    "  mov.u32 %r1, %tid.x;\n  mul.wide.u32 %d2, %r1, 4;\n  add.s64 %d3, %d1, %d2;\n  ld.global.u32 %r2, [%d3];\n"
    "  add.u32 %r2, %r2, %r2;\n  st.global.u32 [%d3], %r2;\n  ret;\n}\n";

/// What the driver has under a name, as CUDA 13 has it.
template <class F>
F* find(const char* name) {
  using Find = CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  static void* const driver = open("libcuda.so.1");
  static auto* const by_name = reinterpret_cast<Find*>(dlsym(driver, "cuGetProcAddress_v2"));
  void* found = nullptr;
  CUdriverProcAddressQueryResult status;
  if (by_name(name, &found, 13000, 0, &status) != CUDA_SUCCESS) std::printf("no %s\n", name), std::exit(2);
  return reinterpret_cast<F*>(found);
}

int use_driver() {
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUdeviceptr memory;
  unsigned values[32];
  for (unsigned i = 0; i < 32; ++i) values[i] = i;
  void* arguments[] = {&memory};
  const bool good = find<decltype(cuInit)>("cuInit")(0) == CUDA_SUCCESS &&
                    find<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0) == CUDA_SUCCESS &&
                    find<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context) == CUDA_SUCCESS &&
                    find<decltype(cuModuleLoadData)>("cuModuleLoadData")(&module, kPtx) == CUDA_SUCCESS &&
                    find<decltype(cuModuleGetFunction)>("cuModuleGetFunction")(&function, module, "twice") == CUDA_SUCCESS &&
                    find<decltype(cuMemAlloc)>("cuMemAlloc")(&memory, sizeof values) == CUDA_SUCCESS &&
                    find<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD")(memory, values, sizeof values) == CUDA_SUCCESS &&
                    find<decltype(cuLaunchKernel)>("cuLaunchKernel")(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments,
                                                                     nullptr) == CUDA_SUCCESS &&
                    find<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH")(values, memory, sizeof values) == CUDA_SUCCESS;
  for (unsigned i = 0; good && i < 32; ++i)
    if (values[i] != 2 * i) return 1;
  return good ? 0 : 1;
}

}  // namespace

int main(int, char** arguments) {
  if (use_library(arguments[1], 3) != 0 || use_library(arguments[1], 1000) != 0 || use_driver() != 0) return 1;
  std::printf("opened: right\n");
}
