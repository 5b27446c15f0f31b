#include "emulator/tcgen05/elements.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

/// Sign, exponent and mantissa of a format without infinities and NaN.
float small_float(std::uint32_t bits, int exponent_bits, int mantissa_bits, int bias) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const auto exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const bool negative = (bits >> (exponent_bits + mantissa_bits) & 1) != 0;
  const auto significand = static_cast<float>(exponent == 0 ? mantissa : mantissa | 1u << mantissa_bits);
  const float value = std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  return negative ? -value : value;
}

std::uint16_t half_at(const std::uint8_t* bytes) {
  std::uint16_t h = 0;
  std::memcpy(&h, bytes, sizeof h);
  return h;
}

float byte_value(Element type, std::uint8_t byte) {
  switch (type) {
    case Element::e4m3:
      return e4m3_to_f32(byte);
    case Element::e5m2:
      return e5m2_to_f32(byte);
    case Element::u8:
      return static_cast<float>(byte);
    case Element::s8:
      return static_cast<float>(static_cast<std::int8_t>(byte));
    case Element::e2m3:
      return e2m3_to_f32(byte);
    case Element::e3m2:
      return e3m2_to_f32(byte);
    default:
      return e2m1_to_f32(byte);
  }
}

/// Bits [at, at + count) of a run of bytes.
std::uint8_t bits_at(const std::uint8_t* bytes, int at, int count) {
  std::uint32_t word = bytes[at / 8];
  if (at % 8 + count > 8) word |= static_cast<std::uint32_t>(bytes[at / 8 + 1]) << 8;
  return static_cast<std::uint8_t>(word >> at % 8 & ((1u << count) - 1));
}

}  // namespace

const char* name_of(Element type) {
  static constexpr const char* kNames[] = {"f16",  "bf16", "tf32", "e4m3", "e5m2",
                                           "e2m3", "e3m2", "e2m1", "u8",   "s8"};
  return kNames[static_cast<std::size_t>(type)];
}

int bits_of(Element type) {
  static constexpr int kBits[] = {16, 16, 32, 8, 8, 6, 6, 4, 8, 8};
  return kBits[static_cast<std::size_t>(type)];
}

float e2m3_to_f32(std::uint8_t bits) {
  return small_float(bits & 0x3fu, 2, 3, 1);
}
float e3m2_to_f32(std::uint8_t bits) {
  return small_float(bits & 0x3fu, 3, 2, 3);
}
float e2m1_to_f32(std::uint8_t bits) {
  return small_float(bits & 0xfu, 2, 1, 1);
}

double scale_value(bool ue8m0, std::uint8_t bits) {
  if (!ue8m0) return e4m3_to_f32(bits & 0x7f);
  return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
}

float element_value(Element type, bool padded, const std::uint8_t* const chunks[2], int index) {
  switch (type) {
    case Element::f16:
      return f16_to_f32(half_at(chunks[index / 8] + std::ptrdiff_t{2} * (index % 8)));
    case Element::bf16:
      return bf16_to_f32(half_at(chunks[index / 8] + std::ptrdiff_t{2} * (index % 8)));
    case Element::tf32: {
      std::uint32_t word = 0;
      std::memcpy(&word, chunks[index / 4] + std::ptrdiff_t{4} * (index % 4), sizeof word);
      return tf32_to_f32(word);
    }
    default:
      break;
  }
  const int width = bits_of(type), per = padded ? 16 : 128 / width;
  return byte_value(type, bits_at(chunks[index / per], index % per * width, width));
}

float cell_value(Element type, bool packed, const std::uint32_t* cells, int index) {
  switch (type) {
    case Element::f16:
      return f16_to_f32(static_cast<std::uint16_t>(cells[index / 2] >> 16 * (index % 2)));
    case Element::bf16:
      return bf16_to_f32(static_cast<std::uint16_t>(cells[index / 2] >> 16 * (index % 2)));
    case Element::tf32:
      return tf32_to_f32(cells[index]);
    default:
      break;
  }
  if (packed) return e2m1_to_f32(static_cast<std::uint8_t>(cells[index / 8] >> 4 * (index % 8) & 0xf));
  const auto byte = static_cast<std::uint8_t>(cells[index / 4] >> 8 * (index % 4));
  return byte_value(type, type == Element::e2m1 ? static_cast<std::uint8_t>(byte >> 2 & 0xf) : byte);
}

}  // namespace kiln::emulator::tcgen05
