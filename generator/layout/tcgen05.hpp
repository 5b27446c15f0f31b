// tcgen05.mma operands (sm_100a): the 64-bit shared-memory descriptor and the 32-bit instruction descriptor. Tiles lie in
// shared memory as those of wgmma do (wgmma.hpp): the same swizzles, strides and steps, another encoding.
//
// Shared-memory descriptor:
//   63..61 | 60..53 | 52       | 51..49 | 48..46 | 45..32 | 31 30 | 29..16 | 15 14 | 13..0
//   swizzle|        | LBO mode | base   | 001    | SBO/16 |       | LBO/16 |       | address/16
//
// Source: PTX ISA 9.0, tcgen05 matrix descriptors and instruction descriptor.
#pragma once

#include <cstdint>

#include <kiln/types.hpp>
#include "generator/layout/wgmma.hpp"

namespace kiln::layout {

std::uint64_t encode_tcgen05(const SmemDescriptor& descriptor);
SmemDescriptor decode_tcgen05(std::uint64_t bits);

/// Of kind::f16, or with FP8 of kind::f8f6f4, with D of f32: `m` x `n`, A and B K-major or MN-major.
std::uint32_t tcgen05_instruction(DType type, int m, int n, bool b_mn_major, bool a_mn_major = false);

}  // namespace kiln::layout
