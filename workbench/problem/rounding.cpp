// Bit-level conversions. The 16-bit ones add half a unit and truncate; the 8-bit ones go by the definition.
#include "workbench/problem/rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <kiln/error.hpp>

#include "workbench/problem/parallel.hpp"

namespace kiln {
namespace {

// An 8-bit format with 4 exponent and 3 mantissa bits.
struct Fp8Format {
  int bias;
  float max;
  std::uint8_t nan;
};
constexpr Fp8Format kE4M3{7, 448.0F, 0x7f};
constexpr Fp8Format kE4M3Fnuz{8, 240.0F, 0x80};

std::uint8_t to_fp8(float value, const Fp8Format& format) {
  if (std::isnan(value)) return format.nan;
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::min(std::fabs(value), format.max);
  // Units of the last place at this magnitude; subnormals share the smallest normal exponent's unit.
  const int smallest = 1 - format.bias;
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), smallest) : smallest;
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  // `units` is 8..16 for normals; 16 carries into the exponent by plain addition. Subnormals have biased
  // exponent 0.
  const int code = ((exponent - smallest) << 3) + units;
  if (code == 0 && format.nan == 0x80) return 0;
  return static_cast<std::uint8_t>(sign | code);
}

float from_fp8(std::uint8_t bits, const Fp8Format& format) {
  if (bits == format.nan || (format.nan == 0x7f && (bits & 0x7f) == 0x7f)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), 1 - format.bias - 3)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - format.bias - 3);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

// Here, so that the loops over arrays become vector instructions.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}
float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Applies `convert` to each element of `from`, writing `To`s, on all cores.
template <class From, class To, class Convert>
void convert_all(std::span<const From> from, To* to, Convert convert) {
  parallel_blocks(from.size(), std::size_t{1} << 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] = convert(from[i]);
  });
}

template <class Visit>
void with_codec(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::bf16:
      return visit(
          std::uint16_t{}, [](float x) { return to_bf16(x); }, [](std::uint16_t x) { return from_bf16(x); });
    case DType::fp16:
      return visit(std::uint16_t{}, float_to_fp16, fp16_to_float);
    case DType::fp8_e4m3:
      return visit(std::uint8_t{}, float_to_e4m3, e4m3_to_float);
    case DType::fp8_e4m3fnuz:
      return visit(std::uint8_t{}, float_to_e4m3fnuz, e4m3fnuz_to_float);
    case DType::f32:
      return visit(
          float{}, [](float x) { return x; }, [](float x) { return x; });
    case DType::int8:
      return visit(std::int8_t{}, float_to_int8, [](std::int8_t x) { return static_cast<float>(x); });
    case DType::ue8m0:
      return visit(std::uint8_t{}, float_to_ue8m0, ue8m0_to_float);
    case DType::fp4_e2m1:
      return visit(std::uint8_t{}, float_to_e2m1, e2m1_to_float);
    case DType::i32:
      break;
  }
  throw Error(ErrorCode::internal, "no conversion from float to " + std::string(to_string(dtype)));
}

}  // namespace

std::uint16_t float_to_bf16(float value) {
  return to_bf16(value);
}

std::uint16_t float_to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and up
  if (magnitude < 0x38800000) {
    // Below 2^-14: adding 0.5 leaves the value, rounded to units of 2^-24, in the low mantissa bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

std::int8_t float_to_int8(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int8_t>(std::nearbyint(std::fmin(std::fmax(value, -127.0F), 127.0F)));
}

std::uint8_t float_to_e4m3(float value) {
  return to_fp8(value, kE4M3);
}
std::uint8_t float_to_e4m3fnuz(float value) {
  return to_fp8(value, kE4M3Fnuz);
}
constexpr float kE2M1[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
std::uint8_t float_to_e2m1(float value) {
  const float magnitude = std::isnan(value) ? 6.0F : std::fabs(value);
  std::uint8_t code = 0;
  // Half way between two the even code is nearest.
  for (std::uint8_t next = 1; next < 8; ++next) {
    const float middle = (kE2M1[next - 1] + kE2M1[next]) / 2;
    if (magnitude > middle || (magnitude == middle && next % 2 == 0)) code = next;
  }
  return static_cast<std::uint8_t>(code | (std::signbit(value) && !std::isnan(value) ? 8 : 0));
}
float e2m1_to_float(std::uint8_t bits) {
  return (bits & 8) != 0 ? -kE2M1[bits & 7] : kE2M1[bits & 7];
}
std::uint8_t float_to_ue8m0(float value) {
  if (!std::isfinite(value) || value < 0) return 0xff;
  // A float has the same bias; below 2^-126 its exponent reads as that of 2^-127.
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value) >> 23);
}
float ue8m0_to_float(std::uint8_t bits) {
  return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, bits - 127);
}
float bf16_to_float(std::uint16_t bits) {
  return from_bf16(bits);
}

float fp16_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  const auto sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000U | static_cast<std::uint32_t>(mantissa) << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(exponent + 112) << 23 |
                              static_cast<std::uint32_t>(mantissa) << 13);
}

float e4m3_to_float(std::uint8_t bits) {
  return from_fp8(bits, kE4M3);
}
float e4m3fnuz_to_float(std::uint8_t bits) {
  return from_fp8(bits, kE4M3Fnuz);
}

std::vector<std::byte> encode(DType dtype, std::span<const float> values) {
  if (dtype == DType::fp4_e2m1) {
    std::vector<std::byte> pairs(values.size() / 2);
    for (std::size_t i = 0; i < pairs.size(); ++i)
      pairs[i] = static_cast<std::byte>(float_to_e2m1(values[2 * i]) | float_to_e2m1(values[2 * i + 1]) << 4);
    return pairs;
  }
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  with_codec(dtype, [&]<class Bits>(Bits, auto to, auto) {
    // The vector's storage is aligned for every element type here.
    convert_all(values, reinterpret_cast<Bits*>(bytes.data()), to);
  });
  return bytes;
}

std::vector<float> decode(DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / size_of(dtype) * static_cast<std::size_t>(numbers_of(dtype)));
  if (dtype == DType::fp4_e2m1) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          e2m1_to_float(static_cast<std::uint8_t>(static_cast<unsigned>(bytes[i / 2]) >> 4 * (i % 2) & 15));
    return values;
  }
  with_codec(dtype, [&]<class Bits>(Bits, auto, auto from) {
    convert_all(std::span(reinterpret_cast<const Bits*>(bytes.data()), values.size()), values.data(), from);
  });
  return values;
}

void round_to(DType dtype, std::span<float> values) {
  with_codec(dtype, [&]<class Bits>(Bits, auto to, auto from) {
    convert_all(std::span<const float>(values), values.data(),
                [&](float x) { return static_cast<float>(from(to(x))); });
  });
}

}  // namespace kiln
