// Words of vector instructions as the numbers that they are. Internal.
#pragma once

#include <cstdint>

#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {

/// A word as a signed number, and back.
inline std::int32_t sign(std::uint32_t x) {
  return static_cast<std::int32_t>(x);
}
inline std::uint32_t from(std::int32_t x) {
  return static_cast<std::uint32_t>(x);
}
/// Its low half as a signed number, and as an f16.
inline std::int32_t s16(std::uint32_t x) {
  return static_cast<std::int16_t>(x);
}
inline float widen(std::uint32_t bits) {
  return f16_to_f32(static_cast<std::uint16_t>(bits));
}

}  // namespace kiln::emulator::amdgcn
