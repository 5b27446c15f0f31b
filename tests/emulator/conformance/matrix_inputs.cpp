#include "tests/emulator/conformance/matrix_inputs.hpp"

#include <bit>
#include <cmath>

namespace conformance {

namespace {

Format format_of(const std::string& type) {
  if (type == "f16") return {16, 10, 15};
  if (type == "bf16") return {16, 7, 127};
  if (type == "e4m3") return {8, 3, 7};
  if (type == "e5m2") return {8, 2, 15};
  return {32, 23, 127};  // f32, and tf32 as its upper part
}

/// value, a small multiple of a power of two that the format holds, as bits.
std::uint32_t encode(const Format& f, double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // [0.5, 1)
  const auto significand = static_cast<std::uint32_t>(std::lround(fraction * std::ldexp(2.0, f.mantissa)));
  const std::uint32_t hidden = 1u << f.mantissa;
  const std::uint32_t bits =
      (static_cast<std::uint32_t>(exponent - 1 + f.bias) << f.mantissa) + (significand - hidden);
  return bits | (value < 0 ? 1u << (f.bits - 1) : 0);
}

std::uint32_t float_element(const Format& f, Fill fill, Random& random) {
  const std::uint32_t r = static_cast<std::uint32_t>(random.next());
  const std::uint32_t sign = (r & 1) << (f.bits - 1),
                      exponent_mask = (1u << (f.bits - 1)) - (1u << f.mantissa);
  switch (fill) {
    case Fill::exact:
      return encode(f, static_cast<int>(r % 5) - 2);
    case Fill::special:
      if (r % 97 == 0) return sign | exponent_mask;                              // infinity; e4m3: 256
      if (r % 101 == 0) return sign | exponent_mask | ((1u << f.mantissa) - 1);  // NaN
      return encode(f, static_cast<int>(r % 5) - 2);
    case Fill::subnormal:
      return sign | ((r >> 4) & ((1u << f.mantissa) - 1) & 0x1f);
    case Fill::random: {
      const std::uint32_t exponent = static_cast<std::uint32_t>(f.bias) - 1 - (r >> 1) % 4;
      return sign | exponent << f.mantissa |
             (static_cast<std::uint32_t>(random.next()) & ((1u << f.mantissa) - 1));
    }
  }
  return 0;
}

}  // namespace

std::uint32_t matrix_word(const std::string& type, Fill fill, Random& random) {
  if (type == "s8" || type == "u8" || type == "s4" || type == "u4" || type == "b1")
    return static_cast<std::uint32_t>(random.next());
  if (type == "s32") return static_cast<std::uint32_t>(random.below(2001)) - 1000;
  const Format f = format_of(type);
  std::uint32_t word = 0;
  for (int at = 0; at < 32; at += f.bits) word |= float_element(f, fill, random) << at;
  // tf32 reads the upper 19 bits: what lies below must not matter, except in the sums themselves (f32).
  if (type == "tf32") word = (word & 0xffffe000u) | (static_cast<std::uint32_t>(random.next()) & 0x1fffu);
  return word;
}

}  // namespace conformance
