// Element types as numbers: round-to-nearest-even into each storage format, and back, exactly.
// Kept apart from the emulator's own conversions on purpose: the two are checked against each other through
// kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <kiln/types.hpp>

namespace kiln {

std::uint16_t float_to_bf16(float value);     ///< overflow becomes infinity, NaN stays a quiet NaN
std::uint16_t float_to_fp16(float value);     ///< the same, gradual underflow included
std::uint8_t float_to_e4m3(float value);      ///< OCP: saturates at 448, NaN is 0x7f
std::uint8_t float_to_e4m3fnuz(float value);  ///< saturates at 240, NaN is 0x80, no negative zero
std::int8_t float_to_int8(float value);       ///< saturates at +-127; NaN is 0
std::uint8_t float_to_ue8m0(
    float value);  ///< the power of two at or below, within 2^-127 .. 2^127; no number is NaN
std::uint8_t float_to_e2m1(float value);  ///< four bits, saturates at 6; NaN is 6
float bf16_to_float(std::uint16_t bits);
float fp16_to_float(std::uint16_t bits);
float e4m3_to_float(std::uint8_t bits);
float e4m3fnuz_to_float(std::uint8_t bits);
float ue8m0_to_float(std::uint8_t bits);
float e2m1_to_float(std::uint8_t bits);

/// Storage bytes of `values` in `dtype` (bf16, fp16, both FP8, int8, ue8m0, fp4_e2m1 in pairs, f32); other types are an Error
/// (internal).
std::vector<std::byte> encode(DType dtype, std::span<const float> values);
std::vector<float> decode(DType dtype, std::span<const std::byte> bytes);
/// Rounds every value to the nearest one that `dtype` can hold.
void round_to(DType dtype, std::span<float> values);

}  // namespace kiln
