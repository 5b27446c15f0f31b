// Conversions between number formats. Everything is decoded to a double (exact for all formats) or to a
// 64-bit significand and ends in round_pack, the only place that rounds.
#include "emulator/tensor/numeric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "emulator/tensor/numeric_format.hpp"

namespace kiln::emulator {

namespace {

constexpr std::array<FormatTraits, 7> kTraits{{
    {16, 10, 15, 0, 0x7bff, true, 0x7fff},                            // f16
    {16, 7, 127, 0, 0x7f7f, true, 0x7fff},                            // bf16
    {32, 10, 127, 13, 0x3fbff, true, 0x7fffe000},                     // tf32
    {8, 3, 7, 0, 0x7e, false, 0x7f},                                  // e4m3
    {8, 2, 15, 0, 0x7b, true, 0x7f},                                  // e5m2
    {32, 23, 127, 0, 0x7f7fffff, true, 0x7fffffff},                   // f32
    {64, 52, 1023, 0, 0x7fefffffffffffff, true, 0x7fffffffffffffff},  // f64
}};

/// Exact value of a small-format pattern whose sign is bit `width - 1`.
double decode(const FormatTraits& t, std::uint64_t bits) {
  const bool negative = (bits >> (t.width - 1)) & 1;
  const std::uint64_t magnitude = (bits & ((1ull << (t.width - 1)) - 1)) >> t.shift;
  double value;
  if (magnitude > t.max_finite) {
    const bool infinite = t.has_infinity && magnitude == t.max_finite + 1;
    value = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const std::uint64_t fraction = magnitude & ((1ull << t.mantissa) - 1);
    const int biased = static_cast<int>(magnitude >> t.mantissa);
    const std::uint64_t significand = biased == 0 ? fraction : fraction | (1ull << t.mantissa);
    value = std::ldexp(static_cast<double>(significand), (biased == 0 ? 1 : biased) - t.bias - t.mantissa);
  }
  return negative ? -value : value;
}

std::array<float, 256> byte_table(FloatFormat format) {
  std::array<float, 256> table{};
  for (unsigned i = 0; i < 256; ++i) {
    const double value = decode(traits(format), i);
    table[i] = value == value ? static_cast<float>(value) : std::bit_cast<float>(0x7fffffffu);
  }
  return table;
}

bool round_up(const FloatOptions& options, bool negative, bool odd, bool above_half, bool half,
              bool inexact) {
  switch (options.rounding) {
    case Rounding::rn:
      return above_half || (half && odd);
    case Rounding::rna:
      return above_half || half;
    case Rounding::rz:
      return false;
    case Rounding::rm:
      return negative && inexact;
    case Rounding::rp:
      return !negative && inexact;
  }
  return false;
}

/// The NaN that cvt makes of one. f64, and bf16 on its way to f32, carry sign and payload along; everything
/// else becomes canonical. cvt.rna to tf32 knows no NaN: it truncates the pattern, with .satfinite less one
/// unit.
std::uint64_t convert_nan(FloatFormat to, FloatFormat from, std::uint64_t bits, const FloatOptions& options) {
  if (to == FloatFormat::tf32 && options.rounding == Rounding::rna) {
    const std::uint32_t pattern = static_cast<std::uint32_t>(bits);
    return (options.satfinite ? pattern - 0x2000u : pattern) & 0xffffe000u;
  }
  if (from == FloatFormat::bf16 && to == FloatFormat::f32) return bits << 16;
  if (from != FloatFormat::f64 && to != FloatFormat::f64) return canonical_nan(to);
  if (options.ftz && from == FloatFormat::f32) bits = canonical_nan(from);
  const FormatTraits &f = traits(from), &t = traits(to);
  const std::uint64_t payload = bits & ((1ull << f.mantissa) - 1), quiet = 1ull << (t.mantissa - 1);
  const std::uint64_t moved =
      t.mantissa >= f.mantissa ? payload << (t.mantissa - f.mantissa) : payload >> (f.mantissa - t.mantissa);
  const std::uint64_t sign = bits & sign_mask(from) ? sign_mask(to) : 0;
  return sign | (t.max_finite + 1) | quiet | moved;
}

}  // namespace

const FormatTraits& traits(FloatFormat format) {
  return kTraits[static_cast<std::size_t>(format)];
}

int bit_width(FloatFormat format) {
  return traits(format).width;
}

std::uint64_t canonical_nan(FloatFormat format) {
  return traits(format).nan;
}

bool is_nan(FloatFormat format, std::uint64_t bits) {
  const FormatTraits& t = traits(format);
  const std::uint64_t magnitude = bits & ((1ull << (t.width - 1)) - 1);
  if (format == FloatFormat::tf32) return magnitude > 0x7f800000u;
  return magnitude > t.max_finite + (t.has_infinity ? 1 : 0);
}

std::uint64_t flush_operand(FloatFormat format, std::uint64_t bits, bool ftz) {
  if (!ftz || (format != FloatFormat::f32 && format != FloatFormat::f16)) return bits;
  const FormatTraits& t = traits(format);
  const std::uint64_t least_normal = 1ull << t.mantissa, magnitude = bits & ~sign_mask(format);
  return magnitude < least_normal ? bits & sign_mask(format) : bits;
}

std::uint64_t infinity(FloatFormat format, bool negative, const FloatOptions& options) {
  const FormatTraits& t = traits(format);
  std::uint64_t bits = t.nan;
  if (options.satfinite) {
    bits = t.max_finite << t.shift;
  } else if (t.has_infinity) {
    bits = (t.max_finite + 1) << t.shift;
  }
  return bits | (negative ? sign_mask(format) : 0);
}

std::uint64_t round_pack(FloatFormat format, bool negative, int exponent, std::uint64_t significand,
                         bool sticky, const FloatOptions& options) {
  const FormatTraits& t = traits(format);
  const int leading = 63 - std::countl_zero(significand);
  const int least_normal = 1 - t.bias;
  const int top =
      std::max(leading + exponent, least_normal);  // exponent of the binade the result is rounded in
  const int shift = top - t.mantissa - exponent;   // bits of the significand below the result's last place
  std::uint64_t kept = 0;
  bool half = false, below = sticky;
  if (shift <= 0) {
    kept = significand << -shift;
  } else if (shift <= 64) {
    kept = shift == 64 ? 0 : significand >> shift;
    half = (significand >> (shift - 1)) & 1;
    below = below || (significand & ((1ull << (shift - 1)) - 1)) != 0;
  } else {
    below = true;
  }
  if (round_up(options, negative, kept & 1, half && below, half && !below, half || below)) ++kept;
  // A carry out of the significand moves into the exponent field by itself; subnormals have no hidden bit to
  // subtract.
  const std::uint64_t bits = (static_cast<std::uint64_t>(top + t.bias - 1) << t.mantissa) + kept;
  if (bits > t.max_finite) {
    const bool toward_zero = options.rounding == Rounding::rz ||
                             (options.rounding == Rounding::rm && !negative) ||
                             (options.rounding == Rounding::rp && negative);
    FloatOptions overflow = options;
    overflow.satfinite = options.satfinite || toward_zero;
    return infinity(format, negative, overflow);
  }
  return (bits << t.shift) | (negative ? sign_mask(format) : 0);
}

std::uint64_t finish(FloatFormat format, std::uint64_t bits, const FloatOptions& options) {
  bits = flush_operand(format, bits, options.ftz);
  const bool nan = is_nan(format, bits);
  const bool negative = (bits & sign_mask(format)) != 0;
  if (options.sat) {
    if (nan || negative) return 0;
    const std::uint64_t one = from_double(format, 1.0);
    return bits > one ? one : bits;
  }
  if (options.relu && negative && !nan) return 0;
  return bits;
}

double to_double(FloatFormat format, std::uint64_t bits) {
  if (format == FloatFormat::f64) return std::bit_cast<double>(bits);
  if (format == FloatFormat::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  return decode(traits(format), bits);
}

std::uint64_t from_double(FloatFormat format, double value, const FloatOptions& options) {
  const std::uint64_t raw = std::bit_cast<std::uint64_t>(value);
  if (format == FloatFormat::f64) return finish(format, raw, options);
  if (value != value) return finish(format, canonical_nan(format), options);
  const bool negative = raw >> 63;
  if (std::isinf(value)) return finish(format, infinity(format, negative, options), options);
  if (value == 0) return finish(format, negative ? sign_mask(format) : 0, options);
  const std::uint64_t fraction = raw & 0xfffffffffffffull;
  const int biased = static_cast<int>((raw >> 52) & 0x7ff);
  const std::uint64_t significand = biased == 0 ? fraction : fraction | (1ull << 52);
  const int exponent = (biased == 0 ? 1 : biased) - 1075;
  return finish(format, round_pack(format, negative, exponent, significand, false, options), options);
}

std::uint64_t convert_float(FloatFormat to, FloatFormat from, std::uint64_t bits,
                            const FloatOptions& options) {
  FloatOptions applied = options;
  // Between f16 and f32 subnormals of either are kept under .ftz, except f32 results.
  applied.ftz = options.ftz && to != FloatFormat::f16;
  if (from == FloatFormat::f32) bits = flush_operand(from, bits, applied.ftz);
  if (is_nan(from, bits)) return finish(to, convert_nan(to, from, bits, applied), applied);
  return from_double(to, to_double(from, bits), applied);
}

std::uint64_t round_to_integral(FloatFormat format, std::uint64_t bits, const FloatOptions& options) {
  if (format == FloatFormat::f64 && is_nan(format, bits)) return finish(format, bits | kQuietF64, options);
  const double value = to_double(format, flush_operand(format, bits, options.ftz));
  double rounded = value;
  switch (options.rounding) {
    case Rounding::rn:
      rounded = std::nearbyint(value);
      break;
    case Rounding::rz:
      rounded = std::trunc(value);
      break;
    case Rounding::rm:
      rounded = std::floor(value);
      break;
    case Rounding::rp:
      rounded = std::ceil(value);
      break;
    case Rounding::rna:
      rounded = std::round(value);
      break;
  }
  return from_double(format, rounded, options);
}

std::uint64_t float_to_integer(int width, bool is_signed, FloatFormat from, std::uint64_t bits,
                               const FloatOptions& options) {
  const std::uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1;
  if (is_nan(from, bits)) return from == FloatFormat::f64 || width == 64 ? 1ull << (width - 1) : 0;
  FloatOptions integral;
  integral.rounding = options.rounding;
  bits = flush_operand(from, bits, options.ftz);
  const double value = std::bit_cast<double>(
      round_to_integral(FloatFormat::f64, std::bit_cast<std::uint64_t>(to_double(from, bits)), integral));
  const double limit = std::ldexp(1.0, is_signed ? width - 1 : width);  // first value too large
  const std::uint64_t largest = is_signed ? mask >> 1 : mask;
  if (value >= limit) return largest;
  if (!is_signed) return value <= 0 ? 0 : static_cast<std::uint64_t>(value);
  if (value < -limit) return 1ull << (width - 1);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) & mask;
}

std::uint64_t integer_to_float(FloatFormat to, bool is_signed, std::uint64_t value,
                               const FloatOptions& options) {
  if (value == 0) return 0;
  const bool negative = is_signed && (value >> 63);
  return finish(to, round_pack(to, negative, 0, negative ? 0 - value : value, false, options), options);
}

float f16_to_f32(std::uint16_t h) {
  // Rebias by multiplying: exact for subnormals too; the infinities and NaNs keep an all-ones exponent.
  const std::uint32_t magnitude = h & 0x7fffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(magnitude == 0x7c00 ? sign | 0x7f800000u : 0x7fffffffu);
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

float e4m3_to_f32(std::uint8_t b) {
  static const std::array<float, 256> table = byte_table(FloatFormat::e4m3);
  return table[b];
}

float e5m2_to_f32(std::uint8_t b) {
  static const std::array<float, 256> table = byte_table(FloatFormat::e5m2);
  return table[b];
}

std::uint16_t f32_to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and beyond
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded to nearest even by
    // the adder.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

std::uint16_t f32_to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace kiln::emulator
