// NCCL as kiln uses it, opened at run time. Our own declarations of its stable C interface (nccl.h, NCCL 2.18 and
// later), so that the build needs no NCCL.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include <kiln/transport.hpp>

#include "runtime/device/cuda_api.hpp"
#include "runtime/support/dynamic_library.hpp"

namespace kiln::nccl {

using Result = int;
using Communicator = struct CommunicatorOpaque*;

inline constexpr Result kSuccess = 0, kInProgress = 7;
inline constexpr int kInt8 = 0, kUndefined = INT_MIN;

/// The members of ncclConfig_t that NCCL 2.18 has; its size says so to later ones.
struct Settings {
  std::size_t size = sizeof(Settings);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = kUndefined, cga_cluster_size = kUndefined, min_ctas = kUndefined, max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

struct Api {
  Result (*get_version)(int*);
  Result (*get_unique_id)(NcclId*);
  Result (*init_rank)(Communicator*, int, NcclId, int, Settings*);
  Result (*group_start)();
  Result (*group_end)();
  Result (*send)(const void*, std::size_t, int, int, Communicator, cuda::Stream);
  Result (*receive)(void*, std::size_t, int, int, Communicator, cuda::Stream);
  Result (*all_gather)(const void*, void*, std::size_t, int, Communicator, cuda::Stream);
  Result (*async_error)(Communicator, Result*);
  Result (*abort)(Communicator);
  Result (*finalize)(Communicator);
  Result (*destroy)(Communicator);
  const char* (*error_string)(Result);
  const char* (*last_error)(Communicator);

  DynamicLibrary library;
  std::string problem;  ///< why there is no NCCL; empty when there is one
};

/// Opens `path`, or libnccl.so.2 where it is empty, once for the process. Throws Error (environment).
const Api& api(const std::string& path);

}  // namespace kiln::nccl
