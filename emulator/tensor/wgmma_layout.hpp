// Where a wgmma operand lies in shared memory, as a list of 16-byte chunks. Internal to the tensor
// operations.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/tensor/wgmma.hpp"

namespace kiln::emulator {

inline constexpr int kWgmmaRows = 64;  ///< of A and D

/// The chunks of one operand, relative to `base`. K-major: chunk 2 * row + c holds k bytes [16c, 16c + 16) of
/// the row. MN-major: chunk k * (extent / 8) + g holds elements 8g .. 8g + 7 of column k.
struct OperandLayout {
  std::vector<std::uint32_t> chunks;
  std::vector<ByteRange> ranges;  ///< the same bytes, sorted and merged
};
/// Layouts repeat for every tile, so they are kept per thread; the reference is valid until the thread's next
/// call.
/// `wide`: 64 bytes of k instead of 32 (B of a sparse product).
const OperandLayout& operand_layout(std::uint64_t descriptor, int extent, bool mn_major, bool wide = false);
/// Start of the 1024-byte block (the largest swizzle pattern) that holds the operand's first byte: what
/// layouts are relative to.
inline std::uint32_t layout_base(std::uint64_t descriptor) {
  return static_cast<std::uint32_t>((descriptor & 0x3fffu) << 4) & ~1023u;
}
/// Descriptors address 256 KiB of shared memory and wrap there.
inline constexpr std::uint32_t kDescriptorSpace = 1u << 18;
/// Appends the bytes of shared memory that a layout from `base` on covers, sorted; past the end of what descriptors
/// reach they go on at its start.
void add_footprint(const OperandLayout& layout, std::uint32_t base, std::vector<ByteRange>& out);

}  // namespace kiln::emulator
