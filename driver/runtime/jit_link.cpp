// nvJitLink for PTX, over the driver's linker: NVIDIA's makes machine code. Numba links with it.
#include <cstring>
#include <string>
#include <utility>

#include "driver/runtime/registry.hpp"

namespace kiln::runtime_stand_in {
namespace {

constexpr int kSuccess = 0, kInvalidInput = 3, kPtxProblem = 4, kInternal = 6;
constexpr int kCubinInput = 1, kPtxInput = 2, kLtoInput = 3;

struct JitLink {
  CUlinkState link = nullptr;
  char log[2048] = "";
  const char* linked = nullptr;
  std::size_t bytes = 0;
};
JitLink* of(void* handle) {
  return static_cast<JitLink*>(handle);
}

int create(void** out, std::uint32_t, const char**) {
  if (out == nullptr) return kInvalidInput;
  if (prepare() != CUDA_SUCCESS) return kInternal;
  auto* const made = new JitLink;
  constexpr int kErrorLog = 5, kErrorLogBytes = 6;
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {made->log, reinterpret_cast<void*>(sizeof made->log)};
  if (cuLinkCreate_v2(2, options, values, &made->link) != CUDA_SUCCESS) {
    delete made;
    return kInternal;
  }
  *out = made;
  return kSuccess;
}
int destroy(void** handle) {
  if (handle == nullptr || *handle == nullptr) return kInvalidInput;
  cuLinkDestroy(of(*handle)->link);
  delete of(std::exchange(*handle, nullptr));
  return kSuccess;
}
int add_data(void* handle, int type, const void* data, std::size_t bytes, const char* name) {
  if (type == kLtoInput || type == kCubinInput) {
    const std::string problem =
        std::string(name == nullptr ? "input" : name) +
        (type == kLtoInput ? ": it is LTO-IR: link PTX" : ": it is machine code: link PTX");
    std::strncpy(of(handle)->log, problem.c_str(), sizeof of(handle)->log - 1);
    kiln_driver_unsupported(type == kLtoInput ? "nvJitLinkAddData of LTO-IR"
                                              : "nvJitLinkAddData of machine code");
    return kInvalidInput;
  }
  const int result =
      cuLinkAddData_v2(of(handle)->link, 1, const_cast<void*>(data), bytes, name, 0, nullptr, nullptr);
  return result == CUDA_SUCCESS ? kSuccess : type == kPtxInput ? kPtxProblem : kInvalidInput;
}
int add_file(void* handle, int, const char* path) {
  return cuLinkAddFile_v2(of(handle)->link, 1, path, 0, nullptr, nullptr) == CUDA_SUCCESS ? kSuccess
                                                                                          : kInvalidInput;
}
int complete(void* handle) {
  void* linked = nullptr;
  if (cuLinkComplete(of(handle)->link, &linked, &of(handle)->bytes) != CUDA_SUCCESS) return kPtxProblem;
  of(handle)->linked = static_cast<const char*>(linked);
  return kSuccess;
}
int linked_size(void* handle, std::size_t* out) {
  *out = of(handle)->bytes;
  return of(handle)->linked != nullptr ? kSuccess : kInvalidInput;
}
int linked(void* handle, void* out) {
  if (of(handle)->linked == nullptr) return kInvalidInput;
  std::memcpy(out, of(handle)->linked, of(handle)->bytes);
  return kSuccess;
}
int log_size(void* handle, std::size_t* out) {
  *out = std::strlen(of(handle)->log) + 1;
  return kSuccess;
}
int log(void* handle, char* out) {
  std::strcpy(out, of(handle)->log);
  return kSuccess;
}
int no_log_size(void*, std::size_t* out) {
  *out = 1;
  return kSuccess;
}
int no_log(void*, char* out) {
  *out = '\0';
  return kSuccess;
}

/// The last version that linked no LTO-IR for others: who asks (Numba, cuda.core) then hands over PTX.
int version(unsigned* major, unsigned* minor) {
  *major = 12;
  *minor = 2;
  return kSuccess;
}

template <class F>
const void* address(F* function) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace

const void* jit_link_function(std::string_view name) {
  constexpr std::string_view kPrefix = "nvJitLink";
  if (name.starts_with("__")) name.remove_prefix(2);
  if (!name.starts_with(kPrefix)) return nullptr;
  name.remove_prefix(kPrefix.size());
  name = name.substr(0, name.find('_'));
  const std::pair<std::string_view, const void*> functions[] = {
      {"Create", address(create)},         {"Destroy", address(destroy)},
      {"AddData", address(add_data)},      {"AddFile", address(add_file)},
      {"Complete", address(complete)},     {"GetLinkedCubinSize", address(linked_size)},
      {"GetLinkedCubin", address(linked)}, {"GetLinkedPtxSize", address(linked_size)},
      {"GetLinkedPtx", address(linked)},   {"GetErrorLogSize", address(log_size)},
      {"GetErrorLog", address(log)},       {"GetInfoLogSize", address(no_log_size)},
      {"GetInfoLog", address(no_log)},     {"Version", address(version)}};
  for (const auto& [own, function] : functions)
    if (own == name) return function;
  return nullptr;
}

}  // namespace kiln::runtime_stand_in
