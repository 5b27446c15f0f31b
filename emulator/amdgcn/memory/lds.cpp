// See lds.hpp.
#include "emulator/amdgcn/memory/lds.hpp"

#include <bit>

namespace kiln::emulator::amdgcn {

void Lds::Byte::note_same(int wave, std::uint32_t epoch, std::uint64_t dma_sequence) {
  const auto bit = static_cast<std::uint16_t>(1U << wave);
  same_mask = static_cast<std::uint16_t>((same_epoch == epoch ? same_mask : 0) | bit);
  same_epoch = epoch;
  if (dma_sequence == 0) return;
  same_dma = dma_sequence;
  same_dma_wave = static_cast<std::int8_t>(wave);
}

bool Lds::Byte::under_way(int wave, std::uint64_t retired) const {
  return (write_wave == wave && dma > retired) || (same_dma_wave == wave && same_dma > retired);
}

Lds::Conflict Lds::touch(std::uint32_t offset, std::size_t bytes, Access access, int wave,
                         std::uint32_t epoch, const Inst* inst, std::uint64_t dma, std::uint64_t dma_retired,
                         const std::byte* values) {
  Conflict found;
  if (shadow_.empty()) return found;
  const auto bit = static_cast<std::uint16_t>(1U << wave);
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    Byte& b = shadow_[i];
    const bool same = access == Access::write && values != nullptr && b.write_wave >= 0 && b.value_known &&
                      b.value == values[i - offset];
    if (b.write_wave >= 0) {
      const bool both_atomic = b.atomic && access == Access::atomic, unordered = b.write_epoch >= epoch;
      const bool foreign = b.write_wave != wave && (b.same_mask & bit) == 0;
      if (same) {
        // The writer itself, in a loop or stamped anew because it is still under way, is a writer as before.
        if (b.write_wave == wave && b.writer == inst)
          b.write_epoch = epoch, b.dma = dma;
        else
          b.note_same(wave, epoch, dma);
        continue;
      }
      // A write has to follow every writer, a read one of them.
      const bool other_same = access != Access::read && (b.same_mask & ~bit) != 0 && b.same_epoch >= epoch;
      if (found.trouble != Trouble::none) {
      } else if (((foreign && unordered) || other_same) && !both_atomic) {
        found = {Trouble::race, b.writer, b.write_wave, static_cast<std::uint32_t>(i)};
      } else if (dma == 0 && b.under_way(wave, dma_retired)) {
        found = {Trouble::dma_unwaited, b.writer, wave, static_cast<std::uint32_t>(i)};
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
      continue;
    }
    const auto others = static_cast<std::uint32_t>(b.read_mask & ~bit);
    if (found.trouble == Trouble::none && others != 0 && b.read_epoch >= epoch) {
      found = {Trouble::race, b.reader, std::countr_zero(others), static_cast<std::uint32_t>(i)};
    }
    b.writer = inst;
    b.write_wave = static_cast<std::int8_t>(wave);
    b.write_epoch = epoch;
    b.dma = dma;
    b.atomic = access == Access::atomic;
    b.same_mask = 0;
    b.same_dma_wave = -1;
    b.value_known = values != nullptr;
    if (values != nullptr) b.value = values[i - offset];
  }
  return found;
}

Lds::State Lds::state(std::uint32_t offset, std::size_t bytes) const {
  State worst = State::defined;
  if (shadow_.empty()) return worst;
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    if (shadow_[i].write_wave < 0) return State::never_written;
    if (!shadow_[i].defined) worst = State::undefined;
  }
  return worst;
}

void Lds::mark(std::uint32_t offset, std::size_t bytes, bool defined) {
  if (shadow_.empty()) return;
  for (std::size_t i = offset; i < offset + bytes; ++i) shadow_[i].defined = defined;
}

}  // namespace kiln::emulator::amdgcn
