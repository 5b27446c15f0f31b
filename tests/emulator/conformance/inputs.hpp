// Operand samples: special values, values near rounding boundaries, random patterns. Own generator, so that
// every standard library gives the same inputs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace conformance {

/// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

/// A format of floating numbers.
struct Format {
  int bits, mantissa, bias;
};

/// Bits of an operand type: f16, bf16, f32, f64, f16x2, bf16x2, e4m3x2, e5m2x2, {s,u,b}{8,16,32,64}, and
/// "nan32" and "nan64" (f32 and f64, three of four NaN with a random payload), "shift" (u32 of 0..70), "few"
/// (u32 of 0..3), "lane" (u32 of 0..31), "unit32" (f32 in moderate range), "angle" (f32 in [-8, 8]).
int type_bits(std::string_view type);
/// One sample, zero-extended.
std::uint64_t sample(std::string_view type, Random& random);

/// A seed from a name.
std::uint64_t seed_of(std::string_view name);

}  // namespace conformance
