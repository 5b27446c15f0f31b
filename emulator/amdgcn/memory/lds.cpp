// See lds.hpp.
#include "emulator/amdgcn/memory/lds.hpp"
#include "emulator/tensor/multiversion.hpp"

#include <bit>
#include <cstring>

namespace kiln::emulator::amdgcn {

void Lds::Cell::note_same(int wave, std::uint32_t epoch, std::uint64_t dma_sequence) {
  const auto bit = static_cast<std::uint16_t>(1U << wave);
  same_mask = static_cast<std::uint16_t>((same_epoch == epoch ? same_mask : 0) | bit);
  same_epoch = epoch;
  if (dma_sequence == 0) return;
  same_dma = dma_sequence;
  same_dma_wave = static_cast<std::int8_t>(wave);
}

bool Lds::Cell::under_way(int wave, std::uint64_t retired) const {
  return (write_wave == wave && dma > retired) || (same_dma_wave == wave && same_dma > retired);
}

/// The bytes of a dword part company.
Lds::Cell* Lds::split(std::uint32_t dword) {
  if (bytes_.empty()) bytes_.resize(shadow_.size());
  Cell& all = shadow_[dword];
  std::array<Cell, 4>& parts = bytes_[dword];
  if (!all.split)
    for (std::uint32_t i = 0; i < 4; ++i) {
      parts[i] = all;
      parts[i].value = all.value >> 8 * i & 0xff;
    }
  all.split = true;
  return parts.data();
}

template <class F>
[[gnu::always_inline]] inline void Lds::each_cell(std::uint32_t offset, std::size_t bytes, F f) {
  const auto end = static_cast<std::uint32_t>(offset + bytes);
  for (std::uint32_t at = offset; at < end;) {
    Cell& whole = shadow_[at / 4];
    if (at % 4 == 0 && at + 4 <= end && !whole.split) {
      f(whole, at, 4U);
      at += 4;
      continue;
    }
    Cell* const parts = split(at / 4);
    do {
      f(parts[at % 4], at, 1U);
    } while (++at < end && at % 4 != 0);
  }
}

KILN_MULTIVERSION Lds::Conflict Lds::touch(std::uint32_t offset, std::size_t bytes, Access access, int wave,
                                           std::uint32_t epoch, const Inst* inst, std::uint64_t dma,
                                           std::uint64_t dma_retired, const std::byte* values) {
  Conflict found;
  if (shadow_.empty()) return found;
  const auto bit = static_cast<std::uint16_t>(1U << wave);
  each_cell(offset, bytes, [&](Cell& b, std::uint32_t at, std::uint32_t width) {
    std::uint32_t value = 0;
    if (values != nullptr) std::memcpy(&value, values + (at - offset), width == 4 ? 4 : 1);
    const bool same = access == Access::write && values != nullptr && b.write_wave >= 0 && b.value_known &&
                      b.value == value;
    if (b.write_wave >= 0) {
      const bool both_atomic = b.atomic && access == Access::atomic, unordered = b.write_epoch >= epoch;
      const bool foreign = b.write_wave != wave && (b.same_mask & bit) == 0;
      if (same) {
        // The writer itself, in a loop or stamped anew because it is still under way, is a writer as before.
        if (b.write_wave == wave && b.writer == inst)
          b.write_epoch = epoch, b.dma = dma;
        else
          b.note_same(wave, epoch, dma);
        return;
      }
      // A write has to follow every writer, a read one of them.
      const bool other_same = access != Access::read && (b.same_mask & ~bit) != 0 && b.same_epoch >= epoch;
      if (found.trouble != Trouble::none) {
      } else if (((foreign && unordered) || other_same) && !both_atomic) {
        found = {Trouble::race, b.writer, b.write_wave, at};
      } else if (dma == 0 && b.under_way(wave, dma_retired)) {
        found = {Trouble::dma_unwaited, b.writer, wave, at};
      }
    }
    if (access == Access::read) {
      if (b.read_mask == 0 || b.read_epoch < epoch) {
        b.read_epoch = epoch;
        b.read_mask = bit;
      } else if (b.read_epoch == epoch) {
        b.read_mask |= bit;
      }
      b.reader = inst;
      return;
    }
    const auto others = static_cast<std::uint32_t>(b.read_mask & ~bit);
    if (found.trouble == Trouble::none && others != 0 && b.read_epoch >= epoch)
      found = {Trouble::race, b.reader, std::countr_zero(others), at};
    b.writer = inst;
    b.write_wave = static_cast<std::int8_t>(wave);
    b.write_epoch = epoch;
    b.dma = dma;
    b.atomic = access == Access::atomic;
    b.same_mask = 0;
    b.same_dma_wave = -1;
    b.value_known = values != nullptr;
    b.value = value;
  });
  return found;
}

Lds::State Lds::state(std::uint32_t offset, std::size_t bytes) {
  State worst = State::defined;
  if (shadow_.empty()) return worst;
  each_cell(offset, bytes, [&](const Cell& b, std::uint32_t, std::uint32_t) {
    if (b.write_wave < 0)
      worst = State::never_written;
    else if (!b.defined && worst == State::defined)
      worst = State::undefined;
  });
  return worst;
}

void Lds::mark(std::uint32_t offset, std::size_t bytes, bool defined) {
  if (shadow_.empty()) return;
  each_cell(offset, bytes, [&](Cell& b, std::uint32_t, std::uint32_t) { b.defined = defined; });
}

}  // namespace kiln::emulator::amdgcn
