// tcgen05.ld.red: the least or the largest of what a thread has loaded.
#pragma once

#include <cstdint>

namespace kiln::emulator::tcgen05 {

/// As redux has it: without `nan` a NaN counts only where there is nothing else, with it one makes the result NaN, the
/// canonical one; -0 < +0; `abs` takes magnitudes. Both are of f32 alone.
struct Reduction {
  enum class Type : std::uint8_t { f32, u32, s32 } type = Type::f32;
  bool max = true, abs = false, nan = false;
};

/// Of registers[0, count)[thread].
std::uint32_t reduce(const Reduction& r, const std::uint32_t* const* registers, int count, int thread);

}  // namespace kiln::emulator::tcgen05
