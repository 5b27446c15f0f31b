#include "emulator/tcgen05/memory.hpp"

#include <algorithm>
#include <bit>

namespace kiln::emulator::tcgen05 {

std::uint32_t LaneMask::first() const {
  return static_cast<std::uint32_t>(words[0] != 0 ? std::countr_zero(words[0])
                                                  : 64 + std::countr_zero(words[1]));
}

LaneMask LaneMask::range(std::uint32_t begin, std::uint32_t count) {
  LaneMask m;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t low = std::clamp(begin, 64 * i, 64 * i + 64) - 64 * i;
    const std::uint32_t high = std::clamp(begin + count, 64 * i, 64 * i + 64) - 64 * i;
    if (high > low) m.words[i] = (~std::uint64_t{0} >> (64 - (high - low))) << low;
  }
  return m;
}

Memory::Memory() : cells_(std::size_t{kLanes} * kColumns, 0xffffffffu) {}

void Memory::mark_written(const Rectangle& r) {
  for (std::uint32_t c = r.column; c < r.column + r.columns; ++c) written_[c].add(r.lanes);
}
void Memory::mark_unwritten(const Rectangle& r) {
  for (std::uint32_t c = r.column; c < r.column + r.columns; ++c) written_[c].remove(r.lanes);
}
bool Memory::all_written(const Rectangle& r) const {
  for (std::uint32_t c = r.column; c < r.column + r.columns; ++c)
    if (!written_[c].contains(r.lanes)) return false;
  return true;
}

void Memory::set_owner(std::uint32_t column, std::uint32_t columns, std::uint32_t owner) {
  std::fill_n(owner_.begin() + column, columns, owner);
  // What an earlier allocation left behind is nobody's value.
  if (owner != 0) std::fill_n(written_.begin() + column, columns, LaneMask{});
}

std::uint32_t Memory::find_free(std::uint32_t columns) const {
  for (std::uint32_t at = 0; at + columns <= kColumns; at += columns)
    if (std::all_of(owner_.begin() + at, owner_.begin() + at + columns,
                    [](std::uint32_t o) { return o == 0; }))
      return at;
  return kColumns;
}

}  // namespace kiln::emulator::tcgen05
