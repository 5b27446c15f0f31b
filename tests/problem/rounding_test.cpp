// Every encoding against the definition: the nearest representable value, ties to the even code.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "workbench/problem/rounding.hpp"
#include "workbench/problem/scales.hpp"

using namespace kiln;

namespace {

struct Format {
  const char* name;
  int codes;  ///< positive, finite codes: 0 .. codes - 1, in order of value
  std::function<unsigned(float)> encode;
  std::function<float(unsigned)> decode;
};

const Format kFormats[] = {
    {"bf16", 0x7f80, [](float x) { return unsigned{float_to_bf16(x)}; },
     [](unsigned c) { return bf16_to_float(static_cast<std::uint16_t>(c)); }},
    {"fp16", 0x7c00, [](float x) { return unsigned{float_to_fp16(x)}; },
     [](unsigned c) { return fp16_to_float(static_cast<std::uint16_t>(c)); }},
    {"e4m3", 0x7f, [](float x) { return unsigned{float_to_e4m3(x)}; },
     [](unsigned c) { return e4m3_to_float(static_cast<std::uint8_t>(c)); }},
    {"e2m1", 8, [](float x) { return unsigned{float_to_e2m1(x)}; },
     [](unsigned c) { return e2m1_to_float(static_cast<std::uint8_t>(c)); }},
    {"e4m3fnuz", 0x80, [](float x) { return unsigned{float_to_e4m3fnuz(x)}; },
     [](unsigned c) { return e4m3fnuz_to_float(static_cast<std::uint8_t>(c)); }},
};

}  // namespace

TEST_CASE("every code survives, midpoints go to the even code, neighbours of midpoints to the nearer one") {
  for (const Format& format : kFormats) {
    CAPTURE(format.name);
    int wrong = 0;
    for (int code = 0; code < format.codes; ++code) {
      const float value = format.decode(static_cast<unsigned>(code));
      wrong += format.encode(value) != static_cast<unsigned>(code);
      if (code + 1 == format.codes) break;
      const float next = format.decode(static_cast<unsigned>(code + 1));
      REQUIRE(next > value);
      const auto middle = static_cast<float>((static_cast<double>(value) + next) / 2);
      // bf16 subnormals are spaced like float's own only at their midpoints, which are exact too.
      wrong += format.encode(middle) != static_cast<unsigned>(code + (code & 1));
      wrong += format.encode(std::nextafter(middle, 0.0F)) != static_cast<unsigned>(code);
      wrong += format.encode(std::nextafter(middle, INFINITY)) != static_cast<unsigned>(code + 1);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("powers of two as bytes, and pairs of four bits") {
  for (int code = 0; code < 255; ++code)
    CHECK(int{float_to_ue8m0(ue8m0_to_float(static_cast<std::uint8_t>(code)))} == code);
  CHECK(std::isnan(ue8m0_to_float(0xff)));
  CHECK(float_to_ue8m0(NAN) == 0xff);
  CHECK(float_to_ue8m0(1.99F) == 127);
  CHECK(ue8m0_to_float(0) == 0x1p-127F);
  const float values[] = {0.5F, -6.0F, 9.0F, -0.2F};
  const std::vector<std::byte> bytes = encode(DType::fp4_e2m1, values);
  CHECK(bytes == std::vector{std::byte{0xf1}, std::byte{0x87}});
  CHECK(decode(DType::fp4_e2m1, bytes) == std::vector<float>{0.5F, -6.0F, 6.0F, -0.0F});
}

TEST_CASE("scales of blocks by the rules of their formats") {
  // 9 has the exponent 3, which goes to 8: a scale of 2^-5; only beyond 14 do values saturate.
  std::vector<float> row(64, 0.25F);
  row[3] = 9.0F, row[40] = -15.0F;
  const Quantization mx{Quantization::Granularity::per_block, 32, DType::ue8m0};
  const Scales powers = quantize(mx, DType::fp8_e4m3, 1, 64, row);
  CHECK(powers.values == std::vector<float>{0x1p-5F, 0x1p-5F});
  CHECK(row[3] == 288.0F);
  CHECK(row[40] == -448.0F);
  std::vector<float> four(32, 0.0F);
  four[0] = 12.0F, four[1] = -3.0F, four[20] = 0x1p-20F;
  const Quantization nv{Quantization::Granularity::per_block, 16, DType::fp8_e4m3};
  const Scales scales = quantize(nv, DType::fp4_e2m1, 1, 32, four);
  CHECK(scales.factor == 12.0F / (6.0F * 448.0F));
  CHECK(scales.values == std::vector<float>{448.0F, 0.0F});
  CHECK(four[0] == 6.0F);
  CHECK(four[1] == -1.5F);
  CHECK(four[20] == 0.0F);
  CHECK(scales.at(0, 0, 1) * four[1] == doctest::Approx(-3.0));
}

TEST_CASE("known values, overflow, NaN and signs") {
  CHECK(float_to_bf16(1.0F) == 0x3f80);
  CHECK(float_to_fp16(65504.0F) == 0x7bff);
  CHECK(float_to_fp16(65519.99F) == 0x7bff);
  CHECK(float_to_fp16(65520.0F) == 0x7c00);
  CHECK(float_to_fp16(-INFINITY) == 0xfc00);
  CHECK(std::isnan(fp16_to_float(float_to_fp16(NAN))));
  CHECK(std::isnan(bf16_to_float(float_to_bf16(NAN))));
  CHECK(float_to_bf16(INFINITY) == 0x7f80);
  CHECK(e4m3_to_float(0x7e) == 448.0F);
  CHECK(float_to_e4m3(1000.0F) == 0x7e);
  CHECK(float_to_e4m3(-1000.0F) == 0xfe);
  CHECK(float_to_e4m3(NAN) == 0x7f);
  CHECK(float_to_e4m3(-0.0F) == 0x80);
  CHECK(e4m3_to_float(0x38) == 1.0F);
  CHECK(e4m3fnuz_to_float(0x40) == 1.0F);
  CHECK(e4m3fnuz_to_float(0x7f) == 240.0F);
  CHECK(float_to_e4m3fnuz(1e9F) == 0x7f);
  CHECK(float_to_e4m3fnuz(-0.0F) == 0);
  CHECK(float_to_e4m3fnuz(-1e-9F) == 0);
  CHECK(float_to_e4m3fnuz(NAN) == 0x80);
  CHECK(std::isnan(e4m3fnuz_to_float(0x80)));
}

TEST_CASE("encode, decode and round_to agree on whole arrays") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(100000);
  for (float& value : values) value = normal(random);
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e4m3fnuz, DType::f32}) {
    std::vector<float> rounded = values;
    round_to(dtype, rounded);
    CHECK(decode(dtype, encode(dtype, values)) == rounded);
    CHECK(decode(dtype, encode(dtype, rounded)) == rounded);
  }
}
