// Element patterns for matrix cases.
#pragma once

#include <cstdint>
#include <string>

#include "tests/emulator/conformance/inputs.hpp"

namespace conformance {

/// How operands are drawn. `exact`: small integers, so that every sum is exact in any order; `random`:
/// fractions, whose sums depend on the hardware's accumulator; `special`: exact with infinities and NaN
/// strewn in; `subnormal`: multiples of the least subnormal of the type.
enum class Fill : std::uint8_t { exact, random, special, subnormal };

/// One 32-bit word of elements of `type` (f16, bf16, tf32, e4m3, e5m2, s8, u8, s4, u4, b1, f32, s32).
std::uint32_t matrix_word(const std::string& type, Fill fill, Random& random);

}  // namespace conformance
