// The shapes of tcgen05.ld and tcgen05.st: which cell belongs to which register of which thread.
#pragma once

#include <cstdint>

#include "emulator/tcgen05/memory.hpp"

namespace kiln::emulator::tcgen05 {

enum class Shape : std::uint8_t { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };

struct Fragment {
  Shape shape = Shape::s32x32b;
  int count = 1;            ///< .xN
  bool packed = false;      ///< .pack::16b, .unpack::16b: a register is the low halves of two cells
  std::uint32_t split = 0;  ///< 16x32bx2: columns from the lower threads' to the upper threads'

  int registers() const;
  std::uint32_t lanes() const { return shape == Shape::s32x32b ? 32 : 16; }
  /// Columns of one register-wide run, beginning at the address (and for 16x32bx2 another at `split`).
  std::uint32_t columns() const;
};

struct CellOffset {
  std::uint32_t lane = 0, column = 0;
};
/// The cell (packed: the first of two) of register `r` of thread `t`, relative to the address.
CellOffset cell_of(const Fragment& f, int r, int t);

/// registers[r][t] from the cells at lane and column, or to them.
void load_fragment(const Fragment& f, const Memory& m, std::uint32_t lane, std::uint32_t column,
                   std::uint32_t* const* registers);
void store_fragment(const Fragment& f, Memory& m, std::uint32_t lane, std::uint32_t column,
                    const std::uint32_t* const* registers);

}  // namespace kiln::emulator::tcgen05
