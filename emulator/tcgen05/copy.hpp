// tcgen05.cp and tcgen05.shift: which bytes of shared memory go to which cells.
#pragma once

#include <cstdint>

#include "emulator/tcgen05/product.hpp"

namespace kiln::emulator::tcgen05 {

/// The rows of a copy and the lanes each of them goes to.
struct CopyShape {
  enum class Name : std::uint8_t {
    r128x256b,
    r4x256b,
    r128x128b,
    r64x128b_02_13,
    r64x128b_01_23,
    r32x128b_x4
  } name = Name::r128x256b;
  int expand = 0;  ///< 4 or 6: bits of the elements that become bytes; 0: none

  std::uint32_t rows() const;
  std::uint32_t chunks() const { return name == Name::r128x256b || name == Name::r4x256b ? 2 : 1; }
  std::uint32_t columns() const { return 4 * chunks(); }
  OperandExtent extent() const { return {rows(), chunks(), false}; }
  /// Lanes that row `r` goes to.
  LaneMask lanes_of(std::uint32_t r) const;
  LaneMask lanes() const;
};

struct CopyCall {
  CopyShape shape;
  std::uint32_t to = 0;  ///< tensor-memory address
  std::uint64_t descriptor = 0;
};
void copy_to_tensor(const CopyCall& c, const Cta& cta);

/// Lanes 1 to 31 of every quarter move down by one, in the 8 columns at `column`.
void shift_down(Memory& m, std::uint32_t column);
inline constexpr std::uint32_t kShiftColumns = 8;

}  // namespace kiln::emulator::tcgen05
