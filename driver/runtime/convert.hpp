// From the runtime's structures to the driver's.
#pragma once

#include "driver/runtime/registry.hpp"

namespace kiln::runtime_stand_in {

CUdeviceptr at(const void* p);
CUDA_MEMCPY3D copy_of(const cudaMemcpy3DParms& p);
cudaMemcpy3DParms parms_of(const CUDA_MEMCPY3D& c);
CUDA_MEMCPY3D copy_1d(const void* to, const void* from, std::size_t bytes);
/// The address of bytes of a variable, if it has them.
int symbol_range(const void* symbol, std::size_t offset, std::size_t bytes, CUdeviceptr* address);

/// Bytes of a texel of an array, and of a row.
std::size_t texel_bytes(CUarray array);
std::size_t array_width(CUarray array);

}  // namespace kiln::runtime_stand_in
