// Reading and writing matrix elements inside 32-bit registers. Internal to the tensor operations.
#pragma once

#include <cstdint>

#include "emulator/tensor/mma.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator {

inline bool is_integer(MatrixType type) {
  return type == MatrixType::s8 || type == MatrixType::u8 || type == MatrixType::s4 || type == MatrixType::u4;
}
inline bool is_fp8(MatrixType type) {
  return type == MatrixType::e4m3 || type == MatrixType::e5m2;
}

/// Elements of `type` in one 32-bit register.
inline int elements_per_register(MatrixType type) {
  return bit_width(type) >= 32 ? 1 : 32 / bit_width(type);
}

/// Element `index` of a register as a float; exact for every type of at most 16 bits, tf32 and f32.
inline float element_as_float(MatrixType type, std::uint32_t word, int index) {
  switch (type) {
    case MatrixType::f16:
      return f16_to_f32(static_cast<std::uint16_t>(word >> (16 * index)));
    case MatrixType::bf16:
      return bf16_to_f32(static_cast<std::uint16_t>(word >> (16 * index)));
    case MatrixType::e4m3:
      return e4m3_to_f32(static_cast<std::uint8_t>(word >> (8 * index)));
    case MatrixType::e5m2:
      return e5m2_to_f32(static_cast<std::uint8_t>(word >> (8 * index)));
    case MatrixType::s8:
      return static_cast<float>(static_cast<std::int8_t>(word >> (8 * index)));
    case MatrixType::u8:
      return static_cast<float>(static_cast<std::uint8_t>(word >> (8 * index)));
    case MatrixType::s4:
      return static_cast<float>(static_cast<std::int32_t>(word << (28 - 4 * index)) >> 28);
    case MatrixType::u4:
      return static_cast<float>((word >> (4 * index)) & 0xfu);
    case MatrixType::tf32:
      return tf32_to_f32(word);
    default:
      return std::bit_cast<float>(word);
  }
}

/// Adds an exact integral partial product to an s32 accumulator, wrapping or clamping.
inline std::uint32_t accumulate_s32(std::uint32_t accumulator, std::int64_t partial, bool satfinite) {
  const std::int64_t sum = static_cast<std::int32_t>(accumulator) + partial;
  if (satfinite && sum > INT32_MAX) return 0x7fffffffu;
  if (satfinite && sum < INT32_MIN) return 0x80000000u;
  return static_cast<std::uint32_t>(sum);
}

}  // namespace kiln::emulator
