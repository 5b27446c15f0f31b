// See minifloat.hpp.
#include "emulator/amdgcn/ops/minifloat.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace kiln::emulator::amdgcn {
namespace {

struct Traits {
  int bits, mantissa, bias;
  std::uint8_t max_finite;  ///< pattern, sign clear
  bool fnuz, has_infinity, has_nan;
  std::uint8_t nan;
};

const Traits& traits(Mini format) {
  static constexpr Traits table[] = {
      {8, 3, 7, 0x7e, false, false, true, 0x7f}, {8, 2, 15, 0x7b, false, true, true, 0x7f},
      {6, 3, 1, 0x1f, false, false, false, 0},   {6, 2, 3, 0x1f, false, false, false, 0},
      {4, 1, 1, 0x07, false, false, false, 0},   {8, 3, 8, 0x7f, true, false, true, 0x80},
      {8, 2, 16, 0x7f, true, false, true, 0x80},
  };
  return table[static_cast<int>(format)];
}

float decode(const Traits& t, unsigned bits) {
  const unsigned magnitude = bits & ((1U << (t.bits - 1)) - 1);
  const bool negative = (bits >> (t.bits - 1)) & 1;
  if (t.fnuz && negative && magnitude == 0) return std::numeric_limits<float>::quiet_NaN();
  if (!t.fnuz && t.has_nan && magnitude > t.max_finite) {
    if (t.has_infinity && magnitude == t.max_finite + 1U) {
      return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
    }
    return std::numeric_limits<float>::quiet_NaN();
  }
  const int exponent = static_cast<int>(magnitude >> t.mantissa);
  const int fraction = static_cast<int>(magnitude & ((1U << t.mantissa) - 1));
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - t.bias - t.mantissa)
                                    : std::ldexp(static_cast<float>(fraction + (1 << t.mantissa)),
                                                 exponent - t.bias - t.mantissa);
  return negative ? -value : value;
}

std::uint8_t overflow(const Traits& t, std::uint8_t sign, bool saturate) {
  if (saturate || !t.has_nan) return static_cast<std::uint8_t>(sign | t.max_finite);
  if (t.has_infinity) return static_cast<std::uint8_t>(sign | (t.max_finite + 1));
  return t.fnuz ? t.nan : static_cast<std::uint8_t>(sign | t.nan);
}

/// Rounds |x| to a multiple of its unit in the last place with `round_units` and encodes.
template <class Round>
std::uint8_t encode(Mini format, float x, bool saturate, Round round_units) {
  const Traits& t = traits(format);
  const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 1U << (t.bits - 1) : 0U);
  if (std::isnan(x))
    return t.has_nan ? (t.fnuz ? t.nan : static_cast<std::uint8_t>(sign | t.nan)) : t.max_finite;
  if (std::isinf(x)) return overflow(t, sign, saturate);
  const double magnitude = std::fabs(static_cast<double>(x));
  if (magnitude == 0) return t.fnuz ? 0 : sign;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - t.bias) exponent = 1 - t.bias;
  const double units = round_units(std::ldexp(magnitude, t.mantissa - exponent));
  // units < 2^mantissa: subnormal; == 2^(mantissa+1): carried into the next exponent; both encode by plain
  // addition.
  const auto pattern =
      static_cast<std::int64_t>(exponent - 1 + t.bias) * (1 << t.mantissa) + static_cast<std::int64_t>(units);
  if (pattern > t.max_finite) return overflow(t, sign, saturate);
  if (pattern == 0 && t.fnuz) return 0;
  return static_cast<std::uint8_t>(sign | pattern);
}

std::array<std::array<float, 256>, 7> make_tables() {
  std::array<std::array<float, 256>, 7> tables{};
  for (int f = 0; f < 7; ++f) {
    const Traits& t = traits(static_cast<Mini>(f));
    for (unsigned i = 0; i < 256; ++i) tables[f][i] = decode(t, i & ((1U << t.bits) - 1));
  }
  return tables;
}

}  // namespace

const std::array<float, 256>& mini_values(Mini format) {
  static const auto tables = make_tables();
  return tables[static_cast<std::size_t>(format)];
}

std::uint8_t f32_to_mini(Mini format, float x, bool saturate) {
  return encode(format, x, saturate, [](double units) { return std::nearbyint(units); });
}

std::uint8_t f32_to_mini_stochastic(Mini format, float x, std::uint32_t random, bool saturate) {
  return encode(format, x, saturate,
                [random](double units) { return std::floor(units + static_cast<double>(random) * 0x1p-32); });
}

int mini_bits(Mini format) {
  return traits(format).bits;
}

}  // namespace kiln::emulator::amdgcn
