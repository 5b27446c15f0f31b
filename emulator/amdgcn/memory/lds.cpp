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

/// One access, as every cell that it touches sees it.
struct Lds::Toucher {
  Access access;
  int wave;
  std::uint32_t epoch;
  const Inst* inst;
  std::uint64_t dma, dma_retired;
  std::uint16_t bit;  ///< of the wave
  Conflict found;
};

/// The writer of the cell left the same value. The writer itself, in a loop or stamped anew because it is still under
/// way, is a writer as before.
[[gnu::always_inline]] inline void Lds::write_same(Toucher& t, Cell& b) {
  if (b.write_wave == t.wave && b.writer == t.inst)
    b.write_epoch = t.epoch, b.dma = t.dma;
  else
    b.note_same(t.wave, t.epoch, t.dma);
}

/// A write has to follow every writer, a read one of them.
[[gnu::always_inline]] inline void Lds::check_writers(Toucher& t, const Cell& b, std::uint32_t at) {
  if (t.found.trouble != Trouble::none) return;
  const bool both_atomic = b.atomic && t.access == Access::atomic, unordered = b.write_epoch >= t.epoch;
  const bool foreign = b.write_wave != t.wave && (b.same_mask & t.bit) == 0;
  const bool other_same = t.access != Access::read && (b.same_mask & ~t.bit) != 0 && b.same_epoch >= t.epoch;
  if (((foreign && unordered) || other_same) && !both_atomic)
    t.found = {Trouble::race, b.writer, b.write_wave, at};
  else if (t.dma == 0 && b.under_way(t.wave, t.dma_retired))
    t.found = {Trouble::dma_unwaited, b.writer, t.wave, at};
}

[[gnu::always_inline]] inline void Lds::note_read(const Toucher& t, Cell& b) {
  if (b.read_mask == 0 || b.read_epoch < t.epoch) {
    b.read_epoch = t.epoch;
    b.read_mask = t.bit;
  } else if (b.read_epoch == t.epoch) {
    b.read_mask |= t.bit;
  }
  b.reader = t.inst;
}

/// A write or an atomic has to follow the readers, too.
[[gnu::always_inline]] inline void Lds::note_write(Toucher& t, Cell& b, std::uint32_t at, bool value_known,
                                                   std::uint32_t value) {
  const auto others = static_cast<std::uint32_t>(b.read_mask & ~t.bit);
  if (t.found.trouble == Trouble::none && others != 0 && b.read_epoch >= t.epoch)
    t.found = {Trouble::race, b.reader, std::countr_zero(others), at};
  b.writer = t.inst;
  b.write_wave = static_cast<std::int8_t>(t.wave);
  b.write_epoch = t.epoch;
  b.dma = t.dma;
  b.atomic = t.access == Access::atomic;
  b.same_mask = 0;
  b.same_dma_wave = -1;
  b.value_known = value_known;
  b.value = value;
}

KILN_MULTIVERSION Lds::Conflict Lds::touch(std::uint32_t offset, std::size_t bytes, Access access, int wave,
                                           std::uint32_t epoch, const Inst* inst, std::uint64_t dma,
                                           std::uint64_t dma_retired, const std::byte* values) {
  if (shadow_.empty()) return {};
  Toucher t{access, wave, epoch, inst, dma, dma_retired, static_cast<std::uint16_t>(1U << wave), {}};
  each_cell(offset, bytes, [&](Cell& b, std::uint32_t at, std::uint32_t width) {
    std::uint32_t value = 0;
    if (values != nullptr) std::memcpy(&value, values + (at - offset), width == 4 ? 4 : 1);
    if (b.write_wave >= 0) {
      if (access == Access::write && values != nullptr && b.value_known && b.value == value)
        return write_same(t, b);
      check_writers(t, b, at);
    }
    if (access == Access::read) return note_read(t, b);
    note_write(t, b, at, values != nullptr, value);
  });
  return t.found;
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
