// See lds.hpp.
#include "emulator/amdgcn/lds.hpp"

#include <bit>

namespace kiln::emulator::amdgcn {

Lds::Conflict Lds::touch(std::uint32_t offset, std::size_t bytes, Access access, int wave,
                         std::uint32_t epoch, const Inst* inst, std::uint64_t dma,
                         std::uint64_t dma_retired) {
  Conflict found;
  if (shadow_.empty()) return found;
  const std::uint32_t bit = 1U << wave;
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    Byte& b = shadow_[i];
    if (found.trouble == Trouble::none && b.write_wave >= 0) {
      const bool both_atomic = b.atomic && access == Access::atomic;
      if (b.write_wave != wave) {
        if (b.write_epoch >= epoch && !both_atomic) {
          found = {Trouble::race, b.writer, b.write_wave, static_cast<std::uint32_t>(i)};
        }
      } else if (b.dma > dma_retired && dma == 0) {
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
    const std::uint32_t others = b.read_mask & ~bit;
    if (found.trouble == Trouble::none && others != 0 && b.read_epoch >= epoch) {
      found = {Trouble::race, b.reader, std::countr_zero(others), static_cast<std::uint32_t>(i)};
    }
    b.writer = inst;
    b.write_wave = static_cast<std::int8_t>(wave);
    b.write_epoch = epoch;
    b.dma = dma;
    b.atomic = access == Access::atomic;
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
