// wgmma.mma_async operands: register fragments of a warpgroup (128 lanes) and shared-memory matrix
// descriptors.
//
// Warp w of the group owns rows 16w .. 16w+15; inside a warp the fragments are those of mma.sync, for every
// N:
//   C 64xN: element i of lane 4g+t: row 16w + g + 8*((i>>1)&1), col 8*(i>>2) + 2t + (i&1)
//
// Descriptor (64 bits):
//   63 62 | 61..52 | 51..49 | 48 | 45..32 | 31 30 | 29..16 | 15 14 | 13..0
//   layout|        | base   |    | SBO/16 |       | LBO/16 |       | address/16
#pragma once

#include <cstdint>
#include <optional>

#include "generator/layout/fragment.hpp"
#include "generator/layout/swizzle.hpp"

namespace kiln::layout {

/// A held in registers, 64 x k; `k` is 16 (2-byte elements) or 32 (fp8).
FragmentMap wgmma_a(int k);
/// Accumulator, 64 x n; n a multiple of 8 up to 256.
FragmentMap wgmma_c(int n);

/// A field of 14 bits: an address or a distance, both divided by 16.
inline constexpr std::uint32_t kDescriptorField = 0x3FFF;

struct SmemDescriptor {
  std::uint32_t address = 0;  ///< bytes, multiple of 16
  std::uint32_t lbo = 0;      ///< leading byte offset, bytes; 16 where the mode ignores it
  std::uint32_t sbo = 0;      ///< stride byte offset, bytes
  int base_offset = 0;
  SwizzleMode mode = SwizzleMode::none;

  std::uint64_t encode() const;
  static SmemDescriptor decode(std::uint64_t bits);
};

/// K-major operand: `rows` (M or N) rows of k-contiguous elements, cut into panels of one swizzle span.
///   128B / 64B / 32B: row pitch = span, 8-row groups SBO = 8*span apart, panel p at p*rows*span
///   none:             core matrices of 8 rows x 16 B; SBO = 128 between row groups, LBO = 16*rows along k
/// `fold` panels (tma.hpp): 8-row groups `fold` times as far apart, the panels of a fold between them.
SmemDescriptor k_major_descriptor(SwizzleMode mode, std::uint32_t address, int rows, int fold = 1);
/// Byte offset of k-step `step` (32 bytes of k each) from the start of the tile.
int k_major_step_bytes(SwizzleMode mode, int step, int rows, int fold = 1);

/// MN-major operand (V as B of PV), 2-byte elements: `k_rows` rows of n-contiguous elements, the same memory
/// image as a K-major tile of V. Nothing for SwizzleMode::none, which kiln does not use.
std::optional<SmemDescriptor> mn_major_descriptor(SwizzleMode mode, std::uint32_t address, int k_rows,
                                                  int fold = 1);
/// Byte offset of k16-step `step`.
int mn_major_step_bytes(SwizzleMode mode, int step, int fold = 1);

/// What the hardware computes: the byte address of element (mn, k) of one instruction's operand.
std::uint32_t k_major_address(const SmemDescriptor& descriptor, int mn, int k, int element_bytes);
std::uint32_t mn_major_address(const SmemDescriptor& descriptor, int mn, int k, int element_bytes);

}  // namespace kiln::layout
