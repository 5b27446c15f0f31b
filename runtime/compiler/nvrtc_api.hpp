// NVRTC as kiln uses it: found and opened at run time, its functions as typed pointers. Our own declarations
// of a stable C interface, so that the build needs no CUDA toolkit.
#pragma once

#include <string>
#include <vector>

#include "runtime/support/dynamic_library.hpp"

namespace kiln {

struct NvrtcApi {
  using Result = int;
  using Program = struct NvrtcProgramOpaque*;
  static constexpr Result kSuccess = 0, kOutOfMemory = 1, kInvalidOption = 5, kCompilation = 6, kBuiltin = 7;

  Result (*version)(int*, int*) = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  Result (*destroy)(Program*) = nullptr;
  Result (*compile)(Program, int, const char* const*) = nullptr;
  Result (*log_size)(Program, std::size_t*) = nullptr;
  Result (*log)(Program, char*) = nullptr;
  Result (*ptx_size)(Program, std::size_t*) = nullptr;
  Result (*ptx)(Program, char*) = nullptr;
  Result (*cubin_size)(Program, std::size_t*) = nullptr;
  Result (*cubin)(Program, char*) = nullptr;
  Result (*architecture_count)(int*) = nullptr;  ///< null in a library that cannot tell
  Result (*architectures)(int*) = nullptr;

  DynamicLibrary library;
  std::string path;
  int major = 0, minor = 0;
};

/// Files and sonames to try, in order: $KILN_NVRTC alone when set; else per CUDA major (the driver's first,
/// else the newest) the loader's search, $CUDA_HOME, /usr/local/cuda, the nvidia-cuda-nvrtc wheel beside
/// the Python package, of the active virtual environment or of a nearby .venv.
std::vector<std::string> nvrtc_candidates(int driver_cuda_major);

/// Opens the first candidate that works, its builtins library first. Throws Error (environment) naming all it
/// tried.
NvrtcApi open_nvrtc(int driver_cuda_major);

}  // namespace kiln
