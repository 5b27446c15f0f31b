// Multicast objects among the handles and addresses of virtual memory: each function does nothing and says false where
// the handle or address is none of theirs.
#pragma once

#include <algorithm>

#include "driver/state.hpp"

namespace kiln::driver {

/// Of virtual memory and of multicast objects: sizes, addresses and offsets are multiples of it.
inline constexpr std::size_t kGranule = std::size_t{2} << 20;

bool map_multicast(Driver& d, CUdeviceptr at, std::size_t bytes, std::size_t offset,
                   CUmemGenericAllocationHandle handle);
bool unmap_multicast(Driver& d, CUdeviceptr at, std::size_t bytes);
bool set_multicast_access(Driver& d, CUdeviceptr at, std::size_t bytes, unsigned access);
bool release_multicast(Driver& d, CUmemGenericAllocationHandle handle);
/// Tells the device which memory the objects' addresses stand for, after anything about either has changed.
void refresh_multicast(Driver& d);

}  // namespace kiln::driver
