// Number formats against independent references: exhaustive over the small formats' rounding boundaries, and
// the host's own rounding modes for f32 and f64.
#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "emulator/tensor/numeric.hpp"

namespace {

using namespace kiln::emulator;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Largest positive finite pattern of a format, written out independently of the implementation's tables.
struct SmallFormat {
  FloatFormat format;
  std::uint64_t max_finite, step, sign;
  double max_value, least;
};
const SmallFormat kSmallFormats[] = {
    {FloatFormat::f16, 0x7bff, 1, 0x8000, 65504.0, 0x1p-24},
    {FloatFormat::bf16, 0x7f7f, 1, 0x8000, 0x1.fep127, 0x1p-133},
    {FloatFormat::e4m3, 0x7e, 1, 0x80, 448.0, 0x1p-9},
    {FloatFormat::e5m2, 0x7b, 1, 0x80, 57344.0, 0x1p-16},
    {FloatFormat::tf32, 0x7f7fe000, 0x2000, 0x80000000, 0x1.ffcp127, 0x1p-136},
};

std::uint64_t rounded(FloatFormat format, double value, Rounding mode) {
  return from_double(format, value, {.rounding = mode, .satfinite = true});
}

struct HostMode {
  explicit HostMode(Rounding mode) {
    const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[static_cast<int>(mode)]);
  }
  ~HostMode() { std::fesetround(FE_TONEAREST); }
};

/// Bit patterns that meet every exponent, with special significands mixed in.
template <typename Bits>
Bits interesting(std::mt19937_64& random, int width, int mantissa) {
  Bits bits = static_cast<Bits>(random());
  const Bits low = (Bits{1} << mantissa) - 1;
  switch (random() % 6) {
    case 0:
      bits &= static_cast<Bits>(~low);
      break;
    case 1:
      bits |= low;
      break;
    case 2:
      bits = static_cast<Bits>((bits & (Bits{1} << (width - 1))) | (bits & low));
      break;  // subnormal
    default:
      break;
  }
  return bits;
}

}  // namespace

TEST_CASE("small formats: every rounding boundary in every mode") {
  for (const SmallFormat& f : kSmallFormats) {
    CAPTURE(static_cast<int>(f.format));
    CHECK(to_double(f.format, f.max_finite) == f.max_value);
    CHECK(to_double(f.format, f.step) == f.least);
    long failures = 0;
    for (std::uint64_t bits = 0; bits < f.max_finite; bits += f.step) {
      const std::uint64_t next = bits + f.step, even = (bits / f.step) % 2 == 0 ? bits : next;
      const double low = to_double(f.format, bits), high = to_double(f.format, next),
                   middle = (low + high) / 2;
      const double before = std::nextafter(middle, 0), after = std::nextafter(middle, kInfinity);
      const auto expect = [&](double value, Rounding mode, std::uint64_t want, bool negative) {
        const std::uint64_t got = rounded(f.format, negative ? -value : value, mode);
        failures += got != (want | (negative ? f.sign : 0));
      };
      failures += !(low < middle && middle < high);
      for (const bool negative : {false, true}) {
        expect(low, Rounding::rn, bits, negative);
        expect(middle, Rounding::rn, even, negative);
        expect(before, Rounding::rn, bits, negative);
        expect(after, Rounding::rn, next, negative);
        expect(middle, Rounding::rna, next, negative);
        expect(before, Rounding::rna, bits, negative);
        expect(after, Rounding::rz, bits, negative);
        expect(before, Rounding::rm, negative ? next : bits, negative);
        expect(after, Rounding::rp, negative ? bits : next, negative);
        expect(high, Rounding::rm, next, negative);
        expect(high, Rounding::rp, next, negative);
      }
    }
    CHECK(failures == 0);
  }
}

TEST_CASE("overflow, infinities and NaN follow the modifiers") {
  const auto f16 = [](double value, FloatOptions options) {
    return from_double(FloatFormat::f16, value, options);
  };
  CHECK(f16(65519.99, {}) == 0x7bff);
  CHECK(f16(65520.0, {}) == 0x7c00);
  CHECK(f16(-65520.0, {}) == 0xfc00);
  CHECK(f16(1e9, {.rounding = Rounding::rz}) == 0x7bff);
  CHECK(f16(1e9, {.rounding = Rounding::rm}) == 0x7bff);
  CHECK(f16(-1e9, {.rounding = Rounding::rm}) == 0xfc00);
  CHECK(f16(-1e9, {.rounding = Rounding::rp}) == 0xfbff);
  CHECK(f16(kInfinity, {.satfinite = true}) == 0x7bff);
  CHECK(f16(NAN, {}) == 0x7fff);
  CHECK(f16(-3.0, {.relu = true}) == 0);
  CHECK(f16(-0.5, {.sat = true}) == 0);
  CHECK(f16(1.5, {.sat = true}) == 0x3c00);
  CHECK(f16(NAN, {.sat = true}) == 0);
  CHECK(from_double(FloatFormat::e4m3, 1e9, {.satfinite = true}) == 0x7e);
  CHECK(from_double(FloatFormat::e4m3, -kInfinity, {.satfinite = true}) == 0xfe);
  CHECK(from_double(FloatFormat::e4m3, 464.0, {.satfinite = true}) == 0x7e);
  CHECK(from_double(FloatFormat::e4m3, NAN, {.satfinite = true}) == 0x7f);
  CHECK(from_double(FloatFormat::e5m2, kInfinity, {.satfinite = true}) == 0x7b);
  CHECK(std::isnan(to_double(FloatFormat::e4m3, 0x7f)));
  CHECK(to_double(FloatFormat::e5m2, 0x7c) == kInfinity);
  CHECK(convert_float(FloatFormat::f32, FloatFormat::f32, 0x00000001, {.ftz = true}) == 0);
  CHECK(convert_float(FloatFormat::f16, FloatFormat::f32, 0x80000001, {.ftz = true}) == 0x8000);
}

TEST_CASE("fast paths equal the general conversions") {
  std::mt19937_64 random(11);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const std::uint64_t wide = convert_float(FloatFormat::f32, FloatFormat::f16, half);
    REQUIRE(std::bit_cast<std::uint32_t>(f16_to_f32(half)) == wide);
  }
  for (std::uint32_t i = 0; i < 256; ++i) {
    const auto byte = static_cast<std::uint8_t>(i);
    REQUIRE(std::bit_cast<std::uint32_t>(e4m3_to_f32(byte)) ==
            convert_float(FloatFormat::f32, FloatFormat::e4m3, byte));
    REQUIRE(std::bit_cast<std::uint32_t>(e5m2_to_f32(byte)) ==
            convert_float(FloatFormat::f32, FloatFormat::e5m2, byte));
  }
  for (int i = 0; i < 2000000; ++i) {
    auto bits = interesting<std::uint32_t>(random, 32, i % 2 ? 12 : 15);
    if (i % 3 == 0) bits = (bits & 0x807fffffu) | static_cast<std::uint32_t>(100 + i % 50) << 23;
    const float x = std::bit_cast<float>(bits);
    REQUIRE(f32_to_f16(x) == convert_float(FloatFormat::f16, FloatFormat::f32, bits));
    REQUIRE(f32_to_bf16(x) == convert_float(FloatFormat::bf16, FloatFormat::f32, bits));
  }
}

TEST_CASE("f32 arithmetic equals the host's in all four modes") {
  std::mt19937_64 random(12);
  long failures = 0;
  for (int i = 0; i < 400000; ++i) {
    const auto mode = static_cast<Rounding>(i % 4);
    std::uint32_t bits[3];
    for (std::uint32_t& b : bits) b = interesting<std::uint32_t>(random, 32, 23);
    // Half of the time keep exponents close, so that cancellation and ties occur.
    if (i & 8) {
      for (std::uint32_t& b : bits)
        b = (b & 0x807fffffu) | static_cast<std::uint32_t>(120 + random() % 16) << 23;
    }
    volatile float a = std::bit_cast<float>(bits[0]), b = std::bit_cast<float>(bits[1]),
                   c = std::bit_cast<float>(bits[2]);
    volatile float sum, difference, product, fused, quotient, root;
    {
      const HostMode host(mode);
      sum = a + b;
      difference = a - b;
      product = a * b;
      fused = std::fma(a, b, c);
      quotient = a / b;
      root = std::sqrt(a);
    }
    const FloatOptions options{.rounding = mode};
    const auto same = [&](float want, std::uint64_t got) {
      const std::uint32_t expected = want == want ? std::bit_cast<std::uint32_t>(want) : 0x7fffffffu;
      failures += expected != got;
    };
    same(sum, float_add(FloatFormat::f32, bits[0], bits[1], options));
    same(difference, float_sub(FloatFormat::f32, bits[0], bits[1], options));
    same(product, float_mul(FloatFormat::f32, bits[0], bits[1], options));
    same(fused, float_fma(FloatFormat::f32, bits[0], bits[1], bits[2], options));
    same(quotient, float_div(FloatFormat::f32, bits[0], bits[1], options));
    same(root, float_sqrt(FloatFormat::f32, bits[0], options));
  }
  CHECK(failures == 0);
}

TEST_CASE("f64 arithmetic rounds in the mode asked for") {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  const auto value = [](std::uint64_t b) { return std::bit_cast<double>(b); };
  const double tiny = 0x1p-60;
  for (const double sign : {1.0, -1.0}) {
    const std::uint64_t one = bits(sign), small = bits(sign * tiny);
    const double up = sign > 0 ? 1 + 0x1p-52 : -1.0, down = sign > 0 ? 1.0 : -(1 + 0x1p-52);
    CHECK(value(float_add(FloatFormat::f64, one, small, {.rounding = Rounding::rn})) == sign);
    CHECK(value(float_add(FloatFormat::f64, one, small, {.rounding = Rounding::rz})) == sign);
    CHECK(value(float_add(FloatFormat::f64, one, small, {.rounding = Rounding::rp})) == up);
    CHECK(value(float_add(FloatFormat::f64, one, small, {.rounding = Rounding::rm})) == down);
    CHECK(value(float_fma(FloatFormat::f64, one, bits(1.0), small, {.rounding = Rounding::rp})) == up);
  }
  const std::uint64_t third_down = float_div(FloatFormat::f64, bits(1), bits(3), {.rounding = Rounding::rm});
  CHECK(float_div(FloatFormat::f64, bits(1), bits(3), {.rounding = Rounding::rp}) == third_down + 1);
  const std::uint64_t root_down = float_sqrt(FloatFormat::f64, bits(2), {.rounding = Rounding::rz});
  CHECK(float_sqrt(FloatFormat::f64, bits(2), {.rounding = Rounding::rp}) == root_down + 1);
  // Payload of the first NaN operand, made quiet.
  CHECK(float_add(FloatFormat::f64, 0x7ff0000000000123ull, bits(1)) == 0x7ff8000000000123ull);
}

TEST_CASE("half-precision fma rounds once") {
  std::mt19937_64 random(13);
  long failures = 0;
  for (int i = 0; i < 300000; ++i) {
    const FloatFormat format = i % 2 ? FloatFormat::f16 : FloatFormat::bf16;
    const std::uint64_t a = random() & 0xffff, b = random() & 0xffff, c = random() & 0xffff;
    if (is_nan(format, a) || is_nan(format, b) || is_nan(format, c)) continue;
    // 64-bit significands hold the sum unless the terms are far apart; skip those by checking exactness.
    const long double product = static_cast<long double>(to_double(format, a)) * to_double(format, b);
    const long double addend = to_double(format, c), sum = product + addend;
    if (!std::isfinite(sum) || sum - product != addend || sum - addend != product) continue;
    if (static_cast<long double>(static_cast<double>(sum)) != sum) continue;
    failures += float_fma(format, a, b, c) != from_double(format, static_cast<double>(sum)) && sum != 0;
  }
  CHECK(failures == 0);
  // A tie that only a far-away addend breaks: 1.0000001b * 1.1b lies halfway between two bf16 values.
  const std::uint64_t x = 0x3f81, y = 0x3fc0;
  CHECK(float_fma(FloatFormat::bf16, x, y, 0x0000) == 0x3fc2);
  CHECK(float_fma(FloatFormat::bf16, x, y, 0x8001) == 0x3fc1);
  CHECK(float_fma(FloatFormat::bf16, x, y, 0x0001) == 0x3fc2);
}

TEST_CASE("float to integer: modes, clamping, NaN") {
  const auto from_f32 = [](int width, bool is_signed, float x, Rounding mode) {
    return float_to_integer(width, is_signed, FloatFormat::f32, std::bit_cast<std::uint32_t>(x),
                            {.rounding = mode});
  };
  CHECK(from_f32(32, true, 2.5F, Rounding::rn) == 2);
  CHECK(from_f32(32, true, 3.5F, Rounding::rn) == 4);
  CHECK(from_f32(32, true, -2.5F, Rounding::rm) == 0xfffffffdu);
  CHECK(from_f32(32, true, -2.5F, Rounding::rp) == 0xfffffffeu);
  CHECK(from_f32(32, true, -2.9F, Rounding::rz) == 0xfffffffeu);
  CHECK(from_f32(32, true, 3e9F, Rounding::rz) == 0x7fffffffu);
  CHECK(from_f32(32, true, -3e9F, Rounding::rz) == 0x80000000u);
  CHECK(from_f32(32, false, -1.0F, Rounding::rz) == 0);
  CHECK(from_f32(32, false, 5e9F, Rounding::rz) == 0xffffffffu);
  CHECK(from_f32(8, true, 200.0F, Rounding::rz) == 0x7f);
  CHECK(from_f32(64, false, 0x1p63F, Rounding::rz) == 1ull << 63);
  CHECK(from_f32(32, true, NAN, Rounding::rz) == 0);
  CHECK(from_f32(64, true, NAN, Rounding::rz) == 1ull << 63);
  CHECK(float_to_integer(32, true, FloatFormat::f64, std::bit_cast<std::uint64_t>(std::nan("")), {}) ==
        0x80000000u);
}

TEST_CASE("integer to float rounds 64-bit values once") {
  CHECK(integer_to_float(FloatFormat::f32, false, 0xffffffffffffffffull) == 0x5f800000u);
  CHECK(integer_to_float(FloatFormat::f32, true, 0xffffffffffffffffull) == 0xbf800000u);
  CHECK(integer_to_float(FloatFormat::f32, false, 0x1000001ull) == std::bit_cast<std::uint32_t>(16777216.0F));
  CHECK(integer_to_float(FloatFormat::f32, false, 0x1000001ull, {.rounding = Rounding::rp}) ==
        std::bit_cast<std::uint32_t>(16777218.0F));
  // Rounding through f64 first would give ...02 here.
  CHECK(integer_to_float(FloatFormat::f32, false, 0x4000004000000001ull) == 0x5e800001u);
  CHECK(integer_to_float(FloatFormat::f64, false, 0x8000000000000401ull) == 0x43e0000000000001ull);
  CHECK(integer_to_float(FloatFormat::f16, true, 70000) == 0x7c00);
}

TEST_CASE("min and max: NaN, signed zeros, xorsign.abs") {
  const auto bits = [](float x) { return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(x)); };
  CHECK(float_min(FloatFormat::f32, bits(NAN), bits(1)) == bits(1));
  CHECK(float_max(FloatFormat::f32, bits(1), bits(NAN)) == bits(1));
  CHECK(float_max(FloatFormat::f32, bits(1), bits(NAN), {.nan = true}) == 0x7fffffffu);
  CHECK(float_max(FloatFormat::f32, bits(NAN), bits(NAN)) == 0x7fffffffu);
  CHECK(float_min(FloatFormat::f32, bits(0.0F), bits(-0.0F)) == bits(-0.0F));
  CHECK(float_max(FloatFormat::f32, bits(-0.0F), bits(0.0F)) == bits(0.0F));
  CHECK(float_min(FloatFormat::f32, bits(-3), bits(2)) == bits(-3));
  CHECK(float_max(FloatFormat::f32, bits(-3), bits(2), {.xorsign_abs = true}) == bits(-3));
  CHECK(float_min(FloatFormat::f32, bits(-3), bits(-2), {.xorsign_abs = true}) == bits(2));
  CHECK(float_max(FloatFormat::f16, 0x8001, 0x0000) == 0);
}

TEST_CASE("approximations stay within one unit in the last place and honour special values") {
  struct Case {
    Approx function;
    std::function<double(double)> truth;
    float low, high;
  };
  const Case cases[] = {
      {Approx::ex2, [](double x) { return std::exp2(x); }, -140.0F, 127.9F},
      {Approx::lg2, [](double x) { return std::log2(x); }, 1e-30F, 1e30F},
      {Approx::rcp, [](double x) { return 1 / x; }, -100.0F, 100.0F},
      {Approx::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-30F, 1e30F},
      {Approx::sqrt, [](double x) { return std::sqrt(x); }, 0.0F, 1e30F},
      {Approx::sin, [](double x) { return std::sin(x); }, -100.0F, 100.0F},
      {Approx::cos, [](double x) { return std::cos(x); }, -100.0F, 100.0F},
      {Approx::tanh, [](double x) { return std::tanh(x); }, -10.0F, 10.0F},
  };
  std::mt19937_64 random(14);
  for (const Case& c : cases) {
    CAPTURE(static_cast<int>(c.function));
    std::uniform_real_distribution<float> values(c.low, c.high);
    long failures = 0;
    for (int i = 0; i < 20000; ++i) {
      const float x = values(random);
      const double want = c.truth(x);
      const float nearest = static_cast<float>(want);
      const double ulp = std::fabs(static_cast<double>(std::nextafter(nearest, HUGE_VALF)) - nearest);
      failures += std::fabs(static_cast<double>(approximate(c.function, x, false)) - want) > ulp;
    }
    CHECK(failures == 0);
    CHECK(std::bit_cast<std::uint32_t>(approximate(c.function, NAN, true)) == 0x7fffffffu);
  }
  CHECK(approximate(Approx::ex2, -INFINITY, true) == 0.0F);
  CHECK(approximate(Approx::ex2, INFINITY, true) == INFINITY);
  CHECK(approximate(Approx::ex2, 128.0F, true) == INFINITY);
  CHECK(approximate(Approx::ex2, 0.0F, true) == 1.0F);
  CHECK(approximate(Approx::ex2, -127.0F, true) == 0.0F);
  CHECK(approximate(Approx::ex2, -127.0F, false) == 0x1p-127F);
  CHECK(approximate(Approx::lg2, 0.0F, true) == -INFINITY);
  CHECK(std::isnan(approximate(Approx::lg2, -1.0F, true)));
  CHECK(approximate(Approx::rcp, -0.0F, true) == -INFINITY);
  CHECK(approximate(Approx::rcp, 0x1p-140F, true) == INFINITY);
  CHECK(approximate(Approx::rsqrt, INFINITY, true) == 0.0F);
  CHECK(approximate_div(6.0F, 3.0F, false, true) == 2.0F);
  CHECK(approximate_div(1.0F, 0x1p127F, false, false) == 0.0F);
  CHECK(std::isnan(approximate_div(INFINITY, 0x1p127F, false, false)));
  CHECK(std::bit_cast<double>(approximate_rcp_f64(std::bit_cast<std::uint64_t>(4.0))) == 0.25);
}
