// The CUDA driver as kiln uses it, opened at run time. Our own declarations of its stable C interface, so
// that the build needs no toolkit; tests/runtime/cuda_api_test.cpp holds the layouts to the numbers of the
// driver's ABI.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/support/dynamic_library.hpp"

namespace kiln::cuda {

using Result = int;
using DeviceId = int;
using Address = unsigned long long;
using Context = struct ContextOpaque*;
using Library = struct LibraryOpaque*;
using LibraryKernel = struct LibraryKernelOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;

inline constexpr Result kSuccess = 0;

enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kMaxSmemPerBlockOptin = 97,
  kComputeMajor = 75,
  kComputeMinor = 76,
};
enum FunctionAttribute : int {
  kMaxDynamicSmem = 8,
  kNumRegs = 4,
  kSmemCarveout = 9,
  kNonPortableCluster = 14
};

/// CUlaunchAttribute: id, padding to 8 bytes, 64 bytes of value.
struct LaunchAttribute {
  int id = 0;
  char pad[4]{};
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic;
  } value{};
};
inline constexpr int kClusterDimension = 4, kProgrammaticSerialization = 6;
/// First driver that captures launches with it into graphs.
inline constexpr int kProgrammaticVersion = 12030;

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, smem_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

/// CUtensorMap: opaque, 64-byte aligned.
struct alignas(64) TensorMap {
  std::byte bytes[128];
};
enum class TensorMapType : int {
  u8 = 0,
  u16 = 1,
  u32 = 2,
  i32 = 3,
  u64 = 4,
  i64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  bf16 = 9
};

/// Typed pointers of every function used. Members are null when an older driver lacks them (marked optional).
struct Api {
  Result (*init)(unsigned);
  Result (*driver_version)(int*);
  Result (*error_name)(Result, const char**);
  Result (*error_string)(Result, const char**);
  Result (*device_count)(int*);
  Result (*device_get)(DeviceId*, int);
  Result (*device_name)(char*, int, DeviceId);
  Result (*device_attribute)(int*, DeviceAttribute, DeviceId);
  Result (*device_memory)(std::size_t*, DeviceId);
  Result (*primary_retain)(Context*, DeviceId);
  Result (*primary_release)(DeviceId);
  Result (*push)(Context);
  Result (*pop)(Context*);
  Result (*get_current)(Context*);  ///< optional
  Result (*context_synchronize)();
  Result (*allocate)(Address*, std::size_t);
  Result (*free)(Address);
  Result (*to_device)(Address, const void*, std::size_t);
  Result (*to_host)(void*, Address, std::size_t);
  Result (*fill8)(Address, unsigned char, std::size_t);
  Result (*event_create)(Event*, unsigned);
  Result (*event_record)(Event, Stream);
  Result (*event_synchronize)(Event);
  Result (*event_elapsed)(float*, Event, Event);
  Result (*event_destroy)(Event);
  Result (*module_load)(Module*, const void*);
  Result (*module_function)(Function*, Module, const char*);
  Result (*module_unload)(Module);
  Result (*function_get)(int*, FunctionAttribute, Function);
  Result (*function_set)(Function, FunctionAttribute, int);
  Result (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                   void**, void**);
  // Optional: CUDA 12.
  Result (*library_load)(Library*, const void*, void*, void*, unsigned, void*, void*, unsigned);
  Result (*library_kernel)(LibraryKernel*, Library, const char*);
  Result (*library_unload)(Library);
  Result (*kernel_function)(Function*, LibraryKernel);
  Result (*launch_ex)(const LaunchConfig*, Function, void**, void**);
  Result (*encode_tiled)(TensorMap*, TensorMapType, unsigned, void*, const std::uint64_t*,
                         const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int,
                         int);

  DynamicLibrary library;
  int version = 0;      ///< 13000 for CUDA 13.0
  std::string path;     ///< of libcuda.so.1
  std::string problem;  ///< why there is no driver; empty when there is one
  bool usable() const { return problem.empty(); }
};

/// Opens libcuda.so.1 once for the process; cheap after that. Calls cuInit only in init_driver().
const Api& api();
/// cuInit; throws Error (environment) with what to do when it fails.
const Api& init_driver();
/// Throws Error (device) in a process that was forked after init_driver(): the driver does not work there.
void check_process();
bool forked();
/// Throws Error (device) when `result` is a failure: "what: CUDA_ERROR_X (text)".
void check(Result result, const char* what);

}  // namespace kiln::cuda
