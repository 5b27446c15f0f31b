// What programs register before main(): their fat binaries, kernels and variables. Code is loaded when it is first
// asked for.
#pragma once

#include <string_view>

#include "driver/runtime/abi.hpp"

namespace kiln::runtime_stand_in {

/// The results of the runtime that the driver has no number for.
inline constexpr cudaError_t kInvalidConfiguration = 9, kInvalidSymbol = 13, kInvalidChannelDescriptor = 20,
                             kInvalidDeviceFunction = 98;

/// Remembers a failure for cudaGetLastError.
cudaError_t note(int result);
cudaError_t& last_error();
/// The primary context, current in this thread.
int prepare();

/// A call that needs the device: what `body` returns, remembered.
template <class F>
cudaError_t call(const F& body) {
  const int ready = prepare();
  return note(ready != CUDA_SUCCESS ? ready : body());
}

/// The kernel behind a host function's address (or a kernel handle itself).
int kernel_of(const void* host, CUkernel* out);
/// The host function that a kernel of the driver's was registered for; what has none stays what it is.
void* host_of(void* function);
int variable_of(const void* host, CUdeviceptr* address, std::size_t* bytes);
int launch(CUkernel kernel, const cudaLaunchConfig_t& config, void** args);

/// The replacement of a function of nvJitLink, "nvJitLinkCreate" or "__nvJitLinkCreate_13_0"; null for other names.
const void* jit_link_function(std::string_view name);

}  // namespace kiln::runtime_stand_in
