#include "emulator/tensor/halves.hpp"

#include <bit>
#include <cstring>

#include "emulator/tensor/multiversion.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace kiln::emulator {
namespace {

/// The same as f16_to_f32, without branches.
[[gnu::always_inline]] inline float widen_f16(std::uint16_t h) {
  const std::uint32_t magnitude = h & 0x7fffu, sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled) | sign;
  const std::uint32_t other = magnitude == 0x7c00 ? sign | 0x7f800000u : 0x7fffffffu;
  return std::bit_cast<float>(magnitude >= 0x7c00 ? other : finite);
}

}  // namespace

KILN_MULTIVERSION void widen_halves(bool bf16, const std::uint16_t* in, int rows, float* out, int stride) {
  if (bf16) {
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < 8; ++i)
        out[r * stride + i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[8 * r + i]) << 16);
  } else {
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < 8; ++i) out[r * stride + i] = widen_f16(in[8 * r + i]);
  }
}

#if defined(__x86_64__)
void transpose_halves(const std::uint8_t* const* rows, std::uint16_t* out) {
  const auto load = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i])); };
  const auto store = [&](int i, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 8 * i), v); };
  const __m128i r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
  const __m128i r4 = load(4), r5 = load(5), r6 = load(6), r7 = load(7);
  // Pairs of rows, then fours, then all eight.
  const __m128i p0 = _mm_unpacklo_epi16(r0, r1), p1 = _mm_unpackhi_epi16(r0, r1);
  const __m128i p2 = _mm_unpacklo_epi16(r2, r3), p3 = _mm_unpackhi_epi16(r2, r3);
  const __m128i p4 = _mm_unpacklo_epi16(r4, r5), p5 = _mm_unpackhi_epi16(r4, r5);
  const __m128i p6 = _mm_unpacklo_epi16(r6, r7), p7 = _mm_unpackhi_epi16(r6, r7);
  const __m128i q0 = _mm_unpacklo_epi32(p0, p2), q1 = _mm_unpackhi_epi32(p0, p2);
  const __m128i q2 = _mm_unpacklo_epi32(p1, p3), q3 = _mm_unpackhi_epi32(p1, p3);
  const __m128i q4 = _mm_unpacklo_epi32(p4, p6), q5 = _mm_unpackhi_epi32(p4, p6);
  const __m128i q6 = _mm_unpacklo_epi32(p5, p7), q7 = _mm_unpackhi_epi32(p5, p7);
  store(0, _mm_unpacklo_epi64(q0, q4));
  store(1, _mm_unpackhi_epi64(q0, q4));
  store(2, _mm_unpacklo_epi64(q1, q5));
  store(3, _mm_unpackhi_epi64(q1, q5));
  store(4, _mm_unpacklo_epi64(q2, q6));
  store(5, _mm_unpackhi_epi64(q2, q6));
  store(6, _mm_unpacklo_epi64(q3, q7));
  store(7, _mm_unpackhi_epi64(q3, q7));
}
#else
void transpose_halves(const std::uint8_t* const* rows, std::uint16_t* out) {
  for (int row = 0; row < 8; ++row) {
    std::uint16_t elements[8];
    std::memcpy(elements, rows[row], sizeof elements);
    for (int column = 0; column < 8; ++column) out[8 * column + row] = elements[column];
  }
}
#endif

}  // namespace kiln::emulator
