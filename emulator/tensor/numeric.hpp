// Number formats of PTX and their arithmetic, bit by bit: conversions, rounding modes, saturation, NaN rules,
// approximations.
// What the PTX ISA leaves open (NaN payloads, .ftz on f16, ...) follows an H200; the conformance suite holds
// it there.
//
// Values travel as bits in the low part of a uint64_t ("bits"), named by a FloatFormat. Every function is
// pure, thread-safe and total: any bit pattern is legal. Results are exact (rounded once) unless a function
// is called approximate. NaN rules (PTX ISA, "Floating Point Instructions"): f16, bf16, tf32 and f32 results
// that are NaN are the canonical NaN (0x7fff, 0x7fff, 0x7fffe000, 0x7fffffff), fp8 0x7f; f64 keeps the
// payload of a NaN operand, made quiet, and conversions from and to f64 carry sign and payload along.
#pragma once

#include <bit>
#include <cstdint>

namespace kiln::emulator {

/// .rn (also .rni), .rz (.rzi), .rm (.rmi), .rp (.rpi), .rna (nearest, ties away from zero).
enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna };

/// tf32 is an f32 pattern whose low 13 bits are ignored on reading and zero when written.
enum class FloatFormat : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, f32, f64 };

/// Modifiers of cvt and of arithmetic. ftz flushes subnormal f32 and, in arithmetic, f16 inputs and results;
/// sat clamps to [0, 1] with NaN -> 0; satfinite clamps overflow to the largest finite value; relu clamps
/// negatives to +0.
struct FloatOptions {
  Rounding rounding = Rounding::rn;
  bool ftz = false;
  bool sat = false;
  bool satfinite = false;
  bool relu = false;
};

/// Storage bits of a format (tf32: 32).
int bit_width(FloatFormat format);
/// The NaN that PTX operations produce in this format.
std::uint64_t canonical_nan(FloatFormat format);
bool is_nan(FloatFormat format, std::uint64_t bits);

/// Exact value of any format.
double to_double(FloatFormat format, std::uint64_t bits);
/// Rounds a double once into `format`. NaN becomes the canonical NaN (f64: kept).
std::uint64_t from_double(FloatFormat format, double value, const FloatOptions& options = {});

/// cvt between floating formats.
std::uint64_t convert_float(FloatFormat to, FloatFormat from, std::uint64_t bits,
                            const FloatOptions& options = {});
/// cvt.{rni,rzi,rmi,rpi} between equal floating formats: rounds to an integral value.
std::uint64_t round_to_integral(FloatFormat format, std::uint64_t bits, const FloatOptions& options);
/// cvt float -> integer of `width` bits (8..64), clamped to its range. NaN gives 0, except from f64 or to 64
/// bits, where it gives 1 << (width - 1). The result is zero-extended from `width` bits.
std::uint64_t float_to_integer(int width, bool is_signed, FloatFormat from, std::uint64_t bits,
                               const FloatOptions& options);
/// cvt integer -> float; `value` is already sign- or zero-extended to 64 bits.
std::uint64_t integer_to_float(FloatFormat to, bool is_signed, std::uint64_t value,
                               const FloatOptions& options = {});

// --- arithmetic, correctly rounded in the mode of `options`; formats f16, bf16, f32, f64
// ----------------------------------
std::uint64_t float_add(FloatFormat format, std::uint64_t a, std::uint64_t b,
                        const FloatOptions& options = {});
std::uint64_t float_sub(FloatFormat format, std::uint64_t a, std::uint64_t b,
                        const FloatOptions& options = {});
std::uint64_t float_mul(FloatFormat format, std::uint64_t a, std::uint64_t b,
                        const FloatOptions& options = {});
std::uint64_t float_fma(FloatFormat format, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                        const FloatOptions& options = {});
std::uint64_t float_div(FloatFormat format, std::uint64_t a, std::uint64_t b,
                        const FloatOptions& options = {});
std::uint64_t float_sqrt(FloatFormat format, std::uint64_t a, const FloatOptions& options = {});
inline std::uint64_t float_rcp(FloatFormat format, std::uint64_t a, const FloatOptions& options = {}) {
  return float_div(format, from_double(format, 1.0), a, options);
}

/// min/max of PTX: a NaN operand yields the other one unless `nan`; -0 < +0; `abs` compares and returns
/// magnitudes with, under `xorsign`, the exclusive-or of the operand signs.
struct MinMaxOptions {
  bool ftz = false;
  bool nan = false;
  bool xorsign_abs = false;
};
std::uint64_t float_min(FloatFormat format, std::uint64_t a, std::uint64_t b,
                        const MinMaxOptions& options = {});
std::uint64_t float_max(FloatFormat format, std::uint64_t a, std::uint64_t b,
                        const MinMaxOptions& options = {});
/// The one or the other.
inline std::uint64_t float_extreme(FloatFormat format, bool max, std::uint64_t a, std::uint64_t b,
                                   const MinMaxOptions& options = {}) {
  return max ? float_max(format, a, b, options) : float_min(format, a, b, options);
}

/// neg and abs. They are operations like others: a NaN becomes the canonical one (f64: quiet, sign kept).
std::uint64_t float_neg(FloatFormat format, std::uint64_t a, bool ftz = false);
std::uint64_t float_abs(FloatFormat format, std::uint64_t a, bool ftz = false);

/// Under ftz a subnormal f32 or f16 becomes a zero of its sign; other formats have no such mode.
std::uint64_t flush_operand(FloatFormat format, std::uint64_t bits, bool ftz);
/// Flushes a subnormal to a zero of its sign.
inline float flush_subnormal(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x7f800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : x;
}
/// .sat on f32: clamps to [0, 1], NaN -> +0.
inline float saturate(float x) {
  return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F;
}
/// Gives every NaN the canonical pattern.
inline float canonicalize(float x) {
  return x == x ? x : std::bit_cast<float>(0x7fffffffu);
}

// --- short cuts for the hot formats; same results as the general functions
// -----------------------------------------------
inline float bf16_to_f32(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}
inline float tf32_to_f32(std::uint32_t w) {
  return std::bit_cast<float>(w & 0xffffe000u);
}
float f16_to_f32(std::uint16_t h);
float e4m3_to_f32(std::uint8_t b);
float e5m2_to_f32(std::uint8_t b);
std::uint16_t f32_to_f16(float x);   ///< cvt.rn.f16.f32
std::uint16_t f32_to_bf16(float x);  ///< cvt.rn.bf16.f32

// --- approximations
// ------------------------------------------------------------------------------------------------------
enum class Approx : std::uint8_t { ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh };

/// The .approx.f32 functions on `count` lanes. At most 1 ulp from the true value (sin, cos, tanh: correctly
/// rounded value of the mathematical function; hardware is allowed 2^-20.9 absolute and 2^-11 relative), so a
/// hardware result lies within the bound that PTX states plus 1 ulp. Special values as PTX tabulates them.
/// `in` may equal `out`.
void approximate(Approx function, const float* in, float* out, int count, bool ftz);
inline float approximate(Approx function, float x, bool ftz) {
  float y = 0;
  approximate(function, &x, &y, 1, ftz);
  return y;
}
/// div.full.f32 / div.approx.f32 (at most 1 ulp here; PTX allows 2). `approx` also yields 0 for 2^126 < |b| <
/// 2^128.
float approximate_div(float a, float b, bool ftz, bool full);
/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: read the upper 32 bits of the operand, produce 20 mantissa
/// bits.
std::uint64_t approximate_rcp_f64(std::uint64_t bits);
std::uint64_t approximate_rsqrt_f64(std::uint64_t bits);

}  // namespace kiln::emulator
