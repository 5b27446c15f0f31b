// The HIP runtime as kiln uses it, opened at run time (ROCm 5 to 7). Our own declarations of its C interface,
// so that the build needs no ROCm.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/support/dynamic_library.hpp"

namespace kiln::hip {

using Result = int;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;

inline constexpr Result kSuccess = 0;

/// Numbers that ROCm 5 to 7 share.
enum DeviceAttribute : int { kMultiprocessorCount = 63, kMaxSharedMemoryPerBlock = 74 };
enum CopyKind : int { kHostToDevice = 1, kDeviceToHost = 2 };
enum FunctionAttribute : int { kNumRegs = 4 };

struct Api {
  Result (*init)(unsigned);
  Result (*runtime_version)(int*);
  const char* (*error_name)(Result);
  const char* (*error_string)(Result);
  Result (*device_count)(int*);
  Result (*get_device)(int*);
  Result (*set_device)(int);
  Result (*device_name)(char*, int, int);
  Result (*device_attribute)(int*, DeviceAttribute, int);
  Result (*device_memory)(std::size_t*, int);
  Result (*device_properties)(void*, int);  ///< the newest form that the library has; see architecture_of()
  Result (*synchronize)();
  Result (*allocate)(void**, std::size_t);
  Result (*free)(void*);
  Result (*copy)(void*, const void*, std::size_t, CopyKind);
  Result (*fill)(void*, int, std::size_t);
  Result (*event_create)(Event*);
  Result (*event_record)(Event, Stream);
  Result (*event_synchronize)(Event);
  Result (*event_elapsed)(float*, Event, Event);
  Result (*event_destroy)(Event);
  Result (*module_load)(Module*, const void*);
  Result (*module_function)(Function*, Module, const char*);
  Result (*module_unload)(Module);
  Result (*function_attribute)(int*, FunctionAttribute, Function);
  Result (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                   void**, void**);

  DynamicLibrary library;
  std::string path;     ///< of libamdhip64.so
  std::string problem;  ///< why there is none; empty when there is one
  bool usable() const { return problem.empty(); }
};

/// Opens the library once for the process; cheap after that. Calls hipInit only in init_runtime().
const Api& api();
/// hipInit; throws Error (environment) with what to do when it fails.
const Api& init_runtime();
/// Throws Error (device) in a process that was forked after init_runtime(): the driver does not work there.
void check_process();
bool forked();
/// Throws Error (device) when `result` is a failure: "what: hipErrorX (text)".
void check(Result result, const char* what);
/// "gfx90a" of a device that calls itself "gfx90a:sramecc+:xnack-"; empty when it does not say.
std::string architecture_of(const Api& api, int device);

}  // namespace kiln::hip
