// The .approx functions. Hardware uses table interpolation that is not documented bit by bit; these are
// computed in double and rounded once, so they sit in the middle of what hardware may return.
#include <algorithm>
#include <cmath>
#include <limits>

#include "emulator/tensor/multiversion.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator {

namespace {

constexpr float kNan = std::bit_cast<float>(0x7fffffffu);

/// 2^x by 2^n * e^(f ln 2), |f| <= 1/2: Taylor to degree 8, relative error below 2^-31. Written to be
/// vectorised: exponential is the hottest approximation of attention kernels.
KILN_MULTIVERSION void ex2_lanes(const float* in, float* out, int count) {
  constexpr double kC1 = 0.6931471805599453, kC2 = 0.2402265069591007, kC3 = 0.05550410866482158,
                   kC4 = 0.009618129107628477, kC5 = 0.0013333558146428443, kC6 = 0.0001540353039338161,
                   kC7 = 1.5252733804059841e-05, kC8 = 1.3215486790144307e-06;
  constexpr double kRound = 0x1.8p52;
  for (int i = 0; i < count; ++i) {
    const float x = in[i];
    const double clamped = x < -200.0F ? -200.0 : (x > 200.0F ? 200.0 : static_cast<double>(x));
    const double shifted = clamped + kRound;  // the low mantissa bits now hold round(x)
    const double f = clamped - (shifted - kRound);
    const double p =
        1.0 + f * (kC1 + f * (kC2 + f * (kC3 + f * (kC4 + f * (kC5 + f * (kC6 + f * (kC7 + f * kC8)))))));
    const std::uint64_t scale = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
    const float y = static_cast<float>(p * std::bit_cast<double>(scale));
    out[i] = x == x ? y : kNan;
  }
}

float evaluate(Approx function, float x) {
  if (x != x) return kNan;
  const double v = x;
  switch (function) {
    case Approx::lg2:
      return x < 0 ? kNan : static_cast<float>(std::log2(v));
    case Approx::rcp:
      return static_cast<float>(1.0 / v);
    case Approx::rsqrt:
      return x < 0 ? kNan : static_cast<float>(1.0 / std::sqrt(v));
    case Approx::sqrt:
      return x < 0 ? kNan : static_cast<float>(std::sqrt(v));
    case Approx::sin:
      return std::isinf(x) ? kNan : static_cast<float>(std::sin(v));
    case Approx::cos:
      return std::isinf(x) ? kNan : static_cast<float>(std::cos(v));
    case Approx::tanh:
      return static_cast<float>(std::tanh(v));
    case Approx::ex2:
      break;  // ex2_lanes
  }
  return kNan;
}

/// Keeps 20 mantissa bits (the upper word), as the f64 seed instructions do.
std::uint64_t upper_word(double value) {
  return std::bit_cast<std::uint64_t>(value) & 0xffffffff00000000ull;
}

/// The operand as those instructions see it: upper word only, subnormals flushed.
double seed_operand(std::uint64_t bits) {
  bits &= 0xffffffff00000000ull;
  if ((bits & 0x7ff0000000000000ull) == 0) bits &= 1ull << 63;
  return std::bit_cast<double>(bits);
}

std::uint64_t seed_result(double value) {
  if (value != value) return 0x7fffffff00000000ull;
  std::uint64_t bits = upper_word(value);
  if ((bits & 0x7ff0000000000000ull) == 0) bits &= 1ull << 63;
  return bits;
}

}  // namespace

void approximate(Approx function, const float* in, float* out, int count, bool ftz) {
  float flushed[32];
  while (count > 0) {
    const int lanes = std::min(count, 32);
    for (int i = 0; i < lanes; ++i) flushed[i] = ftz ? flush_subnormal(in[i]) : in[i];
    if (function == Approx::ex2) {
      ex2_lanes(flushed, flushed, lanes);
    } else {
      for (int i = 0; i < lanes; ++i) flushed[i] = evaluate(function, flushed[i]);
    }
    for (int i = 0; i < lanes; ++i) out[i] = ftz ? flush_subnormal(flushed[i]) : flushed[i];
    in += lanes;
    out += lanes;
    count -= lanes;
  }
}

float approximate_div(float a, float b, bool ftz, bool full) {
  if (ftz) {
    a = flush_subnormal(a);
    b = flush_subnormal(b);
  }
  const float magnitude = std::fabs(b);
  // PTX: div.approx is a * (1/b), whose reciprocal is flushed for 2^126 < |b| < 2^128; infinity times that
  // zero is NaN.
  float quotient;
  if (!full && magnitude > 0x1p126F && magnitude < std::numeric_limits<float>::infinity()) {
    quotient = std::isinf(a) ? kNan : std::copysign(0.0F, std::signbit(a) == std::signbit(b) ? 1.0F : -1.0F);
  } else {
    quotient = static_cast<float>(static_cast<double>(a) / static_cast<double>(b));
  }
  quotient = canonicalize(quotient);
  return ftz ? flush_subnormal(quotient) : quotient;
}

std::uint64_t approximate_rcp_f64(std::uint64_t bits) {
  return seed_result(1.0 / seed_operand(bits));
}

std::uint64_t approximate_rsqrt_f64(std::uint64_t bits) {
  const double operand = seed_operand(bits);
  if (operand == 0) return seed_result(std::copysign(std::numeric_limits<double>::infinity(), operand));
  return seed_result(1.0 / std::sqrt(operand));
}

}  // namespace kiln::emulator
