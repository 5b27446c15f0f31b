// The narrow number formats of CDNA: FP8 in both encodings (OCP on gfx950, FNUZ on gfx942), FP6, FP4, E8M0
// scales. Conversions are exact, or rounded once to nearest even. Internal.
#pragma once

#include <array>
#include <cstdint>

namespace kiln::emulator::amdgcn {

enum class Mini : std::uint8_t { e4m3, e5m2, e2m3, e3m2, e2m1, e4m3fnuz, e5m2fnuz };

/// Value of each of the format's patterns (256, 64 or 16 of them are meaningful).
const std::array<float, 256>& mini_values(Mini format);
inline float mini_to_f32(Mini format, std::uint8_t bits) {
  return mini_values(format)[bits];
}
/// Rounds to nearest even. Overflow: NaN for E4M3 and the FNUZ formats, infinity for E5M2, the largest finite
/// value for FP6 and FP4, or, with `saturate`, the largest finite value for all. NaN becomes the format's
/// NaN.
std::uint8_t f32_to_mini(Mini format, float x, bool saturate = false);
/// Stochastic rounding: adds the upper bits of `random` below the mantissa and truncates.
std::uint8_t f32_to_mini_stochastic(Mini format, float x, std::uint32_t random, bool saturate = false);
int mini_bits(Mini format);

}  // namespace kiln::emulator::amdgcn
