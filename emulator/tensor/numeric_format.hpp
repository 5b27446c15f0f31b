// Parameters of the binary floating formats and the one rounding routine that every conversion ends in.
// Internal.
#pragma once

#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator {

/// An IEEE-like format: `mantissa` stored bits, `bias`, all patterns shifted left by `shift` (tf32 lives in
/// the top of an f32).
struct FormatTraits {
  int width;
  int mantissa;
  int bias;
  int shift;
  std::uint64_t max_finite;  ///< pattern before shifting, sign clear
  bool has_infinity;         ///< the infinity follows max_finite
  std::uint64_t nan;         ///< canonical NaN as stored
};
const FormatTraits& traits(FloatFormat format);

/// Rounds (-1)^negative * (significand + epsilon) * 2^exponent into `format`, where 0 < epsilon < 1 when
/// `sticky` and 0 otherwise. significand != 0. Applies satfinite; not ftz, sat, relu.
std::uint64_t round_pack(FloatFormat format, bool negative, int exponent, std::uint64_t significand,
                         bool sticky, const FloatOptions& options);
/// Applies ftz (f32, f16), relu and sat to a finished result.
std::uint64_t finish(FloatFormat format, std::uint64_t bits, const FloatOptions& options);
std::uint64_t infinity(FloatFormat format, bool negative, const FloatOptions& options);
/// Set in every f64 NaN that an operation produces.
inline constexpr std::uint64_t kQuietF64 = 1ull << 51;
inline std::uint64_t sign_mask(FloatFormat format) {
  return 1ull << (traits(format).width - 1);
}

}  // namespace kiln::emulator
