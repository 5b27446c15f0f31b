// The zero-column mask descriptor of tcgen05.mma.ws (PTX ISA, "Zero-Column Mask Descriptor"): which columns of B count as
// zeros, and how far B's columns are shifted.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace kiln::emulator::tcgen05 {

struct InstructionDescriptor;

struct ZeroColumns {
  std::uint32_t shift = 0;               ///< column n of the product is column n + shift of B
  std::array<std::uint64_t, 4> zeros{};  ///< a bit for each column of the product
  bool has(std::uint32_t column) const { return (zeros[column / 64] >> column % 64 & 1) != 0; }
  bool any() const { return shift != 0 || (zeros[0] | zeros[1] | zeros[2] | zeros[3]) != 0; }
};
/// Decodes; returns what is wrong with it, naming the field: empty if the hardware has it.
std::string decode_zero_columns(std::uint64_t bits, const InstructionDescriptor& i, ZeroColumns& out);

}  // namespace kiln::emulator::tcgen05
