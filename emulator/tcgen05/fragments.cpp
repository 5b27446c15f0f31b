#include "emulator/tcgen05/fragments.hpp"

namespace kiln::emulator::tcgen05 {

int Fragment::registers() const {
  return shape == Shape::s16x256b ? 4 * count : shape == Shape::s16x128b ? 2 * count : count;
}

std::uint32_t Fragment::columns() const {
  const auto n = static_cast<std::uint32_t>(count);
  const std::uint32_t wide = shape == Shape::s16x256b   ? 8 * n
                             : shape == Shape::s16x128b ? 4 * n
                             : shape == Shape::s16x64b  ? 2 * n
                                                        : n;
  return packed ? 2 * wide : wide;
}

CellOffset cell_of(const Fragment& f, int r, int t) {
  const auto reg = static_cast<std::uint32_t>(r), thread = static_cast<std::uint32_t>(t);
  CellOffset at;
  std::uint32_t extra = 0;
  switch (f.shape) {
    case Shape::s32x32b:
      at = {thread, reg};
      break;
    case Shape::s16x64b:
      at = {thread / 4 + 8 * (thread & 1), 2 * reg + (thread >> 1 & 1)};
      break;
    case Shape::s16x128b:
      at = {thread / 4 + 8 * (reg & 1), 4 * (reg >> 1) + thread % 4};
      break;
    case Shape::s16x256b:
      at = {thread / 4 + 8 * (reg >> 1 & 1), 8 * (reg >> 2) + 2 * (thread % 4) + (reg & 1)};
      break;
    case Shape::s16x32bx2:
      at = {thread % 16, reg};
      extra = thread >= 16 ? f.split : 0;
      break;
  }
  if (f.packed) at.column *= 2;
  at.column += extra;
  return at;
}

void load_fragment(const Fragment& f, const Memory& m, std::uint32_t lane, std::uint32_t column,
                   std::uint32_t* const* registers) {
  const int n = f.registers();
  if (f.shape == Shape::s32x32b && !f.packed) {
    for (std::uint32_t t = 0; t < 32; ++t) {
      const std::uint32_t* const cells = m.lane(lane + t) + column;
      for (int r = 0; r < n; ++r) registers[r][t] = cells[r];
    }
    return;
  }
  for (int r = 0; r < n; ++r)
    for (int t = 0; t < 32; ++t) {
      const CellOffset at = cell_of(f, r, t);
      const std::uint32_t* const cells = m.lane(lane + at.lane) + column + at.column;
      registers[r][t] = f.packed ? (cells[0] & 0xffff) | cells[1] << 16 : cells[0];
    }
}

void store_fragment(const Fragment& f, Memory& m, std::uint32_t lane, std::uint32_t column,
                    const std::uint32_t* const* registers) {
  const int n = f.registers();
  for (int r = 0; r < n; ++r)
    for (int t = 0; t < 32; ++t) {
      const CellOffset at = cell_of(f, r, t);
      std::uint32_t* const cells = m.lane(lane + at.lane) + column + at.column;
      const std::uint32_t v = registers[r][t];
      cells[0] = f.packed ? v & 0xffff : v;
      if (f.packed) cells[1] = v >> 16;
    }
}

}  // namespace kiln::emulator::tcgen05
