// Arithmetic in any rounding mode. f16, bf16 and f32 are computed in double, rounded to odd, then rounded
// once more to the format: a 53-bit round-to-odd intermediate makes the second rounding exact for formats of
// at most 51 bits. f64 uses the host's rounding modes.
#include <cfenv>
#include <cmath>
#include <initializer_list>

#include "emulator/tensor/numeric_format.hpp"

namespace kiln::emulator {

namespace {

/// The neighbour with an odd last bit, given that the exact value lies strictly on `direction`'s side of
/// `value`.
double to_odd(double value, double direction) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  if (direction == 0 || (bits & 1)) return value;
  const bool away_from_zero = (direction > 0) == (value > 0);
  return std::bit_cast<double>(away_from_zero ? bits + 1 : bits - 1);
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  return to_odd(sum, error);
}

double divide_to_odd(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(quotient) || quotient == 0 || std::isinf(b)) return quotient;
  const double remainder = std::fma(-quotient, b, a);
  return to_odd(quotient, b < 0 ? -remainder : remainder);
}

double sqrt_to_odd(double a) {
  const double root = std::sqrt(a);
  if (!std::isfinite(root) || root == 0) return root;
  return to_odd(root, std::fma(-root, root, a));
}

/// The sign of an exact zero sum depends on the rounding mode (IEEE 754, 6.3).
double signed_zero_sum(double sum, double a, double b, Rounding rounding) {
  if (sum != 0 || std::signbit(a) == std::signbit(b)) return sum;
  return rounding == Rounding::rm ? -0.0 : 0.0;
}

/// Host rounding mode for the life of one f64 operation.
class HostRounding {
 public:
  explicit HostRounding(Rounding rounding) : saved_(std::fegetround()) {
    switch (rounding) {
      case Rounding::rz:
        std::fesetround(FE_TOWARDZERO);
        break;
      case Rounding::rm:
        std::fesetround(FE_DOWNWARD);
        break;
      case Rounding::rp:
        std::fesetround(FE_UPWARD);
        break;
      default:
        std::fesetround(FE_TONEAREST);
        break;
    }
  }
  ~HostRounding() { std::fesetround(saved_); }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  int saved_;
};

enum class Operation { add, mul, fma, div, sqrt };

/// volatile operands keep the compiler from moving the operation out of the rounding scope.
double compute_f64(Operation operation, double a_in, double b_in, double c_in, Rounding rounding) {
  volatile double a = a_in, b = b_in, c = c_in, result = 0;
  const HostRounding scope(rounding);
  switch (operation) {
    case Operation::add:
      result = a + b;
      break;
    case Operation::mul:
      result = a * b;
      break;
    case Operation::fma:
      result = std::fma(a, b, c);
      break;
    case Operation::div:
      result = a / b;
      break;
    case Operation::sqrt:
      result = std::sqrt(a);
      break;
  }
  return result;
}

double compute_to_odd(Operation operation, double a, double b, double c, Rounding rounding) {
  switch (operation) {
    case Operation::add:
      return signed_zero_sum(add_to_odd(a, b), a, b, rounding);
    case Operation::mul:
      return a * b;
    case Operation::fma:
      return signed_zero_sum(add_to_odd(a * b, c), a * b, c, rounding);
    case Operation::div:
      return divide_to_odd(a, b);
    case Operation::sqrt:
      return sqrt_to_odd(a);
  }
  return 0;
}

constexpr std::uint64_t kInvalidF64 = 0xfff8000000000000ull;

std::uint64_t compute(Operation operation, FloatFormat format, std::uint64_t a, std::uint64_t b,
                      std::uint64_t c, const FloatOptions& options) {
  if (format == FloatFormat::f64) {
    // The second factor of a product comes before the addend, the addend before the first; only division, a
    // subroutine, looks at its first operand first.
    const bool divides = operation == Operation::div;
    for (const std::uint64_t operand : {divides ? a : b, c, divides ? b : a}) {
      if (is_nan(format, operand)) return finish(format, operand | kQuietF64, options);
    }
    const double result = compute_f64(operation, std::bit_cast<double>(a), std::bit_cast<double>(b),
                                      std::bit_cast<double>(c), options.rounding);
    const std::uint64_t bits = result == result ? std::bit_cast<std::uint64_t>(result) : kInvalidF64;
    return finish(format, bits, options);
  }
  const auto operand = [&](std::uint64_t bits) {
    return to_double(format, flush_operand(format, bits, options.ftz));
  };
  return from_double(format, compute_to_odd(operation, operand(a), operand(b), operand(c), options.rounding),
                     options);
}

std::uint64_t min_max(FloatFormat format, std::uint64_t a, std::uint64_t b, const MinMaxOptions& options,
                      bool want_max) {
  a = flush_operand(format, a, options.ftz);
  b = flush_operand(format, b, options.ftz);
  const std::uint64_t sign = sign_mask(format);
  const std::uint64_t flip = options.xorsign_abs ? (a ^ b) & sign : 0;
  const bool a_nan = is_nan(format, a), b_nan = is_nan(format, b);
  if (a_nan || b_nan) {
    if (format == FloatFormat::f64 && a_nan && b_nan) return b | kQuietF64;
    if (options.nan || (a_nan && b_nan)) return canonical_nan(format);
    const std::uint64_t other = a_nan ? b : a;
    return options.xorsign_abs ? (other & ~sign) | flip : other;
  }
  if (options.xorsign_abs) {
    a &= ~sign;
    b &= ~sign;
  }
  // Sign-magnitude order with -0 < +0.
  const auto key = [&](std::uint64_t bits) {
    return bits & sign ? -static_cast<std::int64_t>(bits & ~sign) - 1 : static_cast<std::int64_t>(bits);
  };
  return ((key(a) < key(b)) == want_max ? b : a) | flip;
}

}  // namespace

std::uint64_t float_add(FloatFormat format, std::uint64_t a, std::uint64_t b, const FloatOptions& options) {
  return compute(Operation::add, format, a, b, 0, options);
}

std::uint64_t float_sub(FloatFormat format, std::uint64_t a, std::uint64_t b, const FloatOptions& options) {
  return compute(Operation::add, format, a, is_nan(format, b) ? b : b ^ sign_mask(format), 0, options);
}

std::uint64_t float_mul(FloatFormat format, std::uint64_t a, std::uint64_t b, const FloatOptions& options) {
  return compute(Operation::mul, format, a, b, 0, options);
}

std::uint64_t float_fma(FloatFormat format, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                        const FloatOptions& options) {
  return compute(Operation::fma, format, a, b, c, options);
}

std::uint64_t float_div(FloatFormat format, std::uint64_t a, std::uint64_t b, const FloatOptions& options) {
  return compute(Operation::div, format, a, b, 0, options);
}

std::uint64_t float_sqrt(FloatFormat format, std::uint64_t a, const FloatOptions& options) {
  return compute(Operation::sqrt, format, a, 0, 0, options);
}

std::uint64_t float_min(FloatFormat format, std::uint64_t a, std::uint64_t b, const MinMaxOptions& options) {
  return min_max(format, a, b, options, false);
}

std::uint64_t float_max(FloatFormat format, std::uint64_t a, std::uint64_t b, const MinMaxOptions& options) {
  return min_max(format, a, b, options, true);
}

namespace {

std::uint64_t with_sign(FloatFormat format, std::uint64_t bits, std::uint64_t flipped, std::uint64_t cleared,
                        bool ftz) {
  if (is_nan(format, bits)) return format == FloatFormat::f64 ? bits | kQuietF64 : canonical_nan(format);
  return (flush_operand(format, bits, ftz) ^ flipped) & ~cleared;
}

}  // namespace

std::uint64_t float_neg(FloatFormat format, std::uint64_t a, bool ftz) {
  return with_sign(format, a, sign_mask(format), 0, ftz);
}

std::uint64_t float_abs(FloatFormat format, std::uint64_t a, bool ftz) {
  return with_sign(format, a, 0, sign_mask(format), ftz);
}

}  // namespace kiln::emulator
