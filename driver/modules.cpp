// Modules and libraries: PTX out of what programs hand over, its kernels and variables.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "driver/api.hpp"
#include "driver/fatbin.hpp"
#include "driver/state.hpp"
#include "emulator/machine/memory.hpp"

namespace kiln::driver {

void write_log(const std::string& text, unsigned count, const int* options, void** values) {
  constexpr int kErrorLog = 5, kErrorLogBytes = 6;
  char* buffer = nullptr;
  std::size_t room = 0;
  for (unsigned i = 0; i < count && options != nullptr && values != nullptr; ++i) {
    if (options[i] == kErrorLog) buffer = static_cast<char*>(values[i]);
    if (options[i] == kErrorLogBytes) room = reinterpret_cast<std::size_t>(values[i]);
  }
  if (buffer == nullptr || room == 0) return;
  const std::size_t n = std::min(room - 1, text.size());
  std::memcpy(buffer, text.data(), n);
  buffer[n] = '\0';
}

namespace {

/// What kernels set conditional nodes with is in NVIDIA's device runtime: a store to where the handle leads. It stays on
/// the declaration's lines.
void define_set_conditional(std::string& ptx) {
  const std::size_t at = ptx.find(".extern .func cudaGraphSetConditional");
  const std::size_t end = at == std::string::npos ? at : ptx.find(';', at);
  if (end == std::string::npos) return;
  const auto lines = static_cast<std::size_t>(std::count(
      ptx.begin() + static_cast<std::ptrdiff_t>(at), ptx.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  ptx.replace(
      at, end + 1 - at,
      ".func cudaGraphSetConditional(.param .b64 handle, .param .b32 value) { .reg .b64 %at; .reg .b32 %to; "
      "ld.param.b64 %at, [handle]; ld.param.b32 %to, [value]; st.global.b32 [%at], %to; ret; }" +
          std::string(lines, '\n'));
}

Module* load(Driver& d, const void* code, unsigned count = 0, const int* options = nullptr,
             void** values = nullptr) {
  require(code != nullptr);
  Image image = choose_image(code, d.options.gpu.cc());
  if (image.ptx.empty()) {
    d.report.unsupported("a module of the program", image.problem);
    write_log(image.problem, count, options, values);
    throw Failure{CUDA_ERROR_NO_BINARY_FOR_GPU};
  }
  define_set_conditional(image.ptx);
  d.options.change.apply(image.ptx);
  try {
    auto module = std::make_unique<Module>();
    module->code = em::Module::from_ptx_by_kernel(image.ptx, image.name);
    module->text = std::move(image.ptx);
    module->name = std::move(image.name);
    module->id = d.next_id++;
    for (const std::string& name : module->code.kernels()) {
      auto function = std::make_unique<Function>();
      function->name = name;
      d.functions.insert(function.get());
      module->functions.emplace(name, std::move(function));
    }
    Module* const handle = d.modules.make(std::move(*module));
    for (const auto& [name, function] : handle->functions) function->module = handle;
    return handle;
  } catch (const em::Error& error) {
    const std::string text =
        image.name + (error.line() > 0 ? ":" + std::to_string(error.line()) : "") + ": " + error.what();
    d.report.unsupported("a module of the program", text);
    write_log(text, count, options, values);
    throw Failure{CUDA_ERROR_INVALID_PTX};
  }
}

Module* load_file(Driver& d, const char* path) {
  require(path != nullptr);
  std::ifstream file(path, std::ios::binary);
  require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  require(bytes.size() >= 4, CUDA_ERROR_INVALID_IMAGE);
  return load(d, bytes.c_str());
}

void unload(Driver& d, Module* handle) {
  d.modules.get(handle);
  for (const auto& [name, function] : handle->functions) d.functions.erase(function.get());
  // Variables stay where they are: pointers to them may be around.
  d.modules.take(handle);
}

Function* find(Driver& d, Module* handle, const char* name) {
  require(name != nullptr);
  Module& m = d.modules.get(handle);
  const auto it = m.functions.find(name);
  require(it != m.functions.end(), CUDA_ERROR_NOT_FOUND);
  return it->second.get();
}

void find_variable(Driver& d, Module* handle, const char* name, CUdeviceptr* address, std::size_t* bytes) {
  Module& m = d.modules.get(handle);
  require(name != nullptr);
  const auto& variables = m.code.impl().ast.variables;
  const auto it = std::find_if(variables.begin(), variables.end(), [&](const em::ptx::Variable& v) {
    return v.name == name && (v.space == em::ptx::Space::global || v.space == em::ptx::Space::constant);
  });
  require(it != variables.end(), CUDA_ERROR_NOT_FOUND);
  const CUdeviceptr at = m.code.variable(d.memory, name);
  if (address != nullptr) *address = at;
  if (bytes != nullptr) *bytes = it->bytes;
}

const em::ptx::Function& source_of(const Function& f) {
  const auto& all = f.module->code.impl().ast.functions;
  return *std::find_if(all.begin(), all.end(), [&](const em::ptx::Function& one) {
    return one.entry && one.defined && one.name == f.name;
  });
}

int get_attribute(Driver& d, Function& f, int number) {
  const em::ptx::Function& source = source_of(f);
  const em::Module::Impl& code = f.module->code.impl();
  const bool runs = code.undecoded.count(f.name) == 0;
  const auto product = [](const std::uint32_t(&n)[3]) {
    return static_cast<int>(n[0] * std::max(1u, n[1]) * std::max(1u, n[2]));
  };
  switch (number) {
    case 0:
      return source.required_threads[0] != 0 ? product(source.required_threads)
             : source.max_threads[0] != 0    ? product(source.max_threads)
                                             : 1024;
    case 1:
      return runs ? static_cast<int>(code.program(f.name).static_smem) : 0;
    case 2: {
      std::size_t bytes = 0;
      for (const auto& v : code.ast.variables)
        if (v.space == em::ptx::Space::constant) bytes += v.bytes;
      return static_cast<int>(bytes);
    }
    case 3: {
      if (!runs) return 0;
      const em::Program& p = code.program(f.name);
      return static_cast<int>(p.functions[p.entry_function].local_bytes);
    }
    case 4:
      return kAssumedRegisters;
    case 5:
      return std::atoi(code.ast.target.c_str() + 3);
    case 6:
      return d.options.gpu.cc();
    case 8:
      return f.max_dynamic != 0 ? f.max_dynamic : 49152 - get_attribute(d, f, 1);
    case 9:
      return f.carveout;
    case 10:
      return source.required_cluster[0] > 0 ? 1 : 0;
    case 11:
    case 12:
    case 13:
      return static_cast<int>(source.required_cluster[number - 11]);
    case 14:
      return f.non_portable_cluster;
    default:
      require(number >= 0 && number < 16);
      return 0;
  }
}

void set_attribute(Driver& d, Function& f, int number, int value) {
  switch (number) {
    case 8: {
      const int room = d.options.gpu.smem_per_block_optin - get_attribute(d, f, 1);
      require(value >= 0 && value <= room);
      f.max_dynamic = value;
      return;
    }
    case 9:
      require(value >= -1 && value <= 100);
      f.carveout = value;
      return;
    case 14:
      f.non_portable_cluster = value;
      return;
    default:
      require(number >= 10 && number < 16);
  }
}

void parameter(Function& f, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  const auto parameters = f.module->code.params(f.name);
  require(index < parameters.size());
  if (offset != nullptr) *offset = parameters[index].offset;
  if (bytes != nullptr) *bytes = parameters[index].bytes;
}

void enumerate(Driver& d, Module* handle, CUfunction* out, unsigned room) {
  unsigned i = 0;
  for (const auto& [name, function] : d.modules.get(handle).functions)
    if (i < room) out[i++] = function.get();
}

}  // namespace

int function_attribute(Driver& d, Function& f, int number) {
  return get_attribute(d, f, number);
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  return on_device([&](Driver& d) { *out = load_file(d, path); });
}
KILN_API CUresult cuModuleLoadData(CUmodule* out, const void* code) {
  return on_device([&](Driver& d) { *out = load(d, code); });
}
KILN_API CUresult cuModuleLoadDataEx(CUmodule* out, const void* code, unsigned count, int* options,
                                     void** values) {
  return on_device([&](Driver& d) { *out = load(d, code, count, options, values); });
}
KILN_API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* code) {
  return cuModuleLoadData(out, code);
}
KILN_API CUresult cuModuleUnload(CUmodule handle) {
  return guarded([&](Driver& d) { unload(d, handle); });
}
KILN_API CUresult cuModuleGetLoadingMode(int* mode) {
  *mode = 2;  // lazy
  return CUDA_SUCCESS;
}
KILN_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  return on_device([&](Driver& d) { *out = find(d, handle, name); });
}
KILN_API CUresult cuModuleGetFunctionCount(unsigned* out, CUmodule handle) {
  return on_device([&](Driver& d) { *out = static_cast<unsigned>(d.modules.get(handle).functions.size()); });
}
KILN_API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned room, CUmodule handle) {
  return on_device([&](Driver& d) { enumerate(d, handle, out, room); });
}
KILN_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle,
                                       const char* name) {
  return on_device([&](Driver& d) { find_variable(d, handle, name, address, bytes); });
}

// A library is loaded without a context.
KILN_API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, int* options, void** values,
                                    unsigned count, int*, void**, unsigned) {
  return guarded([&](Driver& d) { *out = load(d, code, count, options, values); });
}
KILN_API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, int*, void**, unsigned, int*,
                                        void**, unsigned) {
  return guarded([&](Driver& d) { *out = load_file(d, path); });
}
KILN_API CUresult cuLibraryUnload(CUlibrary handle) {
  return cuModuleUnload(handle);
}
KILN_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  return guarded([&](Driver& d) { *out = find(d, handle, name); });
}
KILN_API CUresult cuLibraryGetKernelCount(unsigned* out, CUlibrary handle) {
  return guarded([&](Driver& d) { *out = static_cast<unsigned>(d.modules.get(handle).functions.size()); });
}
KILN_API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned room, CUlibrary handle) {
  return guarded([&](Driver& d) { enumerate(d, handle, out, room); });
}
KILN_API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  return on_device([&](Driver& d) { *out = &d.modules.get(handle); });
}
KILN_API CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle,
                                     const char* name) {
  return on_device([&](Driver& d) { find_variable(d, handle, name, address, bytes); });
}
KILN_API CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle,
                                      const char* name) {
  return guarded([&](Driver& d) { find_variable(d, handle, name, address, bytes); });
}

KILN_API CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  return on_device([&](Driver& d) { *out = &d.function(handle); });
}
KILN_API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  return guarded([&](Driver& d) { *out = d.function(handle).module; });
}
KILN_API CUresult cuKernelGetName(const char** out, CUkernel handle) {
  return guarded([&](Driver& d) { *out = d.function(handle).name.c_str(); });
}
KILN_API CUresult cuKernelGetParamInfo(CUkernel handle, std::size_t index, std::size_t* offset,
                                       std::size_t* bytes) {
  return guarded([&](Driver& d) { parameter(d.function(handle), index, offset, bytes); });
}
KILN_API CUresult cuKernelGetAttribute(int* out, int number, CUkernel handle, CUdevice) {
  return guarded([&](Driver& d) { *out = get_attribute(d, d.function(handle), number); });
}
KILN_API CUresult cuKernelSetAttribute(int number, int value, CUkernel handle, CUdevice) {
  return guarded([&](Driver& d) { set_attribute(d, d.function(handle), number, value); });
}
KILN_API CUresult cuKernelSetCacheConfig(CUkernel, int, CUdevice) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuFuncGetAttribute(int* out, int number, CUfunction handle) {
  return cuKernelGetAttribute(out, number, handle, 0);
}
KILN_API CUresult cuFuncSetAttribute(CUfunction handle, int number, int value) {
  return cuKernelSetAttribute(number, value, handle, 0);
}
KILN_API CUresult cuFuncSetCacheConfig(CUfunction, int) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuFuncSetSharedMemConfig(CUfunction, int) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  return cuKernelGetLibrary(out, handle);
}
KILN_API CUresult cuFuncGetName(const char** out, CUfunction handle) {
  return cuKernelGetName(out, handle);
}
KILN_API CUresult cuFuncGetParamInfo(CUfunction handle, std::size_t index, std::size_t* offset,
                                     std::size_t* bytes) {
  return cuKernelGetParamInfo(handle, index, offset, bytes);
}
KILN_API CUresult cuFuncIsLoaded(int* state, CUfunction handle) {
  return guarded([&](Driver& d) {
    d.function(handle);
    *state = 1;
  });
}
KILN_API CUresult cuFuncLoad(CUfunction handle) {
  return guarded([&](Driver& d) { d.function(handle); });
}
