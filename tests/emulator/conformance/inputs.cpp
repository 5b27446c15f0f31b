#include "tests/emulator/conformance/inputs.hpp"

#include <bit>
#include <cmath>
#include <iterator>

namespace conformance {

namespace {

/// A floating pattern: special, random bits, few significant bits near the integers, or moderate.
std::uint64_t float_sample(const Format& f, Random& random) {
  const std::uint64_t sign = 1ull << (f.bits - 1), fraction_mask = (1ull << f.mantissa) - 1;
  const std::uint64_t exponent_mask = (sign - 1) & ~fraction_mask;
  const std::uint64_t one = static_cast<std::uint64_t>(f.bias) << f.mantissa;
  const std::uint64_t specials[] = {0,
                                    1,                  // least subnormal
                                    fraction_mask,      // largest subnormal
                                    fraction_mask + 1,  // least normal
                                    one,
                                    one + 1,
                                    one - 1,
                                    one + (1ull << f.mantissa),        // 2
                                    one + (1ull << (f.mantissa - 1)),  // 1.5
                                    one - (1ull << f.mantissa),        // 0.5
                                    exponent_mask - 1,                 // largest finite
                                    exponent_mask - fraction_mask - 1,
                                    exponent_mask,  // infinity
                                    exponent_mask | (fraction_mask + 1) >> 1,
                                    exponent_mask | 1};
  const std::uint64_t r = random.next();
  const std::uint64_t with_sign = r & 1 ? sign : 0;
  const std::uint64_t bits = random.next() & ((sign << 1) - 1);
  switch ((r >> 1) % 4) {
    case 0:
      return specials[(r >> 8) % std::size(specials)] | with_sign;
    case 1:
      return bits;
    case 2: {
      const std::uint64_t exponent = static_cast<std::uint64_t>(f.bias - 3) + (r >> 8) % 14;
      const int kept = static_cast<int>((r >> 16) % 5);
      const std::uint64_t low = f.mantissa > kept ? (1ull << (f.mantissa - kept)) - 1 : 0;
      return with_sign | ((exponent << f.mantissa) & exponent_mask) | (bits & fraction_mask & ~low);
    }
    default: {
      const std::uint64_t exponent = static_cast<std::uint64_t>(f.bias - 6) + (r >> 8) % 12;
      return with_sign | ((exponent << f.mantissa) & exponent_mask) | (bits & fraction_mask);
    }
  }
}

std::uint64_t integer_sample(int bits, Random& random) {
  const std::uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  const std::uint64_t specials[] = {
      0, 1, 2, 3, 7, mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) - 1, mask / 3, 0x55, 10};
  const std::uint64_t r = random.next(), value = random.next() & mask;
  switch (r % 4) {
    case 0:
      return specials[(r >> 8) % std::size(specials)] & mask;
    case 1:
      return value >> ((r >> 8) % static_cast<unsigned>(bits));
    case 2:
      return (0 - (value >> ((r >> 8) % static_cast<unsigned>(bits)))) & mask;
    default:
      return value;
  }
}

constexpr Format kF16{16, 10, 15}, kBf16{16, 7, 127}, kF32{32, 23, 127}, kF64{64, 52, 1023};

}  // namespace

int type_bits(std::string_view type) {
  if (type == "bf16" || type == "e4m3x2" || type == "e5m2x2") return 16;
  if (type == "f16x2" || type == "bf16x2") return 32;
  if (type == "shift" || type == "few" || type == "lane" || type == "unit32" || type == "angle") return 32;
  if (type == "nan32") return 32;
  const std::string_view digits = type.substr(1);
  return digits == "8" ? 8 : digits == "16" ? 16 : digits == "32" ? 32 : 64;
}

std::uint64_t sample(std::string_view type, Random& random) {
  if (type == "f16") return float_sample(kF16, random);
  if (type == "bf16") return float_sample(kBf16, random);
  if (type == "f32") return float_sample(kF32, random);
  if (type == "f64") return float_sample(kF64, random);
  if (type == "f16x2" || type == "bf16x2") {
    const Format& f = type == "f16x2" ? kF16 : kBf16;
    const std::uint64_t low = float_sample(f, random);
    return low | float_sample(f, random) << 16;
  }
  if (type == "nan32" || type == "nan64") {
    const Format& f = type == "nan32" ? kF32 : kF64;
    const std::uint64_t bits = random.next() >> (64 - f.bits);
    const std::uint64_t infinity = ((1ull << (f.bits - 1)) - 1) & ~((1ull << f.mantissa) - 1);
    return random.below(4) == 0 ? float_sample(f, random) : bits | infinity;
  }
  if (type == "shift") return random.below(71);
  if (type == "few") return random.below(4);
  if (type == "lane") return random.below(32);
  if (type == "unit32" || type == "angle") {
    const float scale = type == "angle" ? 8.0F : std::ldexp(1.0F, static_cast<int>(random.below(16)) - 8);
    const float value = scale * (static_cast<float>(random.below(1u << 24)) / 8388608.0F - 1.0F);
    return std::bit_cast<std::uint32_t>(value);
  }
  return integer_sample(type_bits(type), random);
}

std::uint64_t seed_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace conformance
