// XOR swizzles: Swizzle(bits, base, shift) and the spaces it is applied in.
//
//   x:   ... | source field: bits | .. | target field: bits | base |
//              ^ base+shift              ^ base
//   swz(x) = x with its target field XORed by its source field
//
//   Swizzle(3,4,3) on byte offsets, the "128B" mode:      Swizzle(3,0,3) on 16-byte vectors, the same thing:
//     bit  9 8 7 | 6 5 4 | 3 2 1 0                          bit  5 4 3 | 2 1 0
//          r r r   c c c   byte                                  r r r   c c c       c ^= r
#pragma once

#include <cstdint>

#include <kiln/config.hpp>

namespace kiln::layout {

struct Swizzle {
  int bits = 0, base = 0, shift = 0;

  constexpr std::uint32_t operator()(std::uint32_t x) const {
    const std::uint32_t source = ((1u << bits) - 1) << (base + shift);
    return x ^ ((x & source) >> shift);
  }
  constexpr bool is_identity() const { return bits == 0; }
  /// Fields must not overlap: then the map is its own inverse. XOR upwards (negative shift) is not supported.
  constexpr bool is_valid() const {
    return bits >= 0 && base >= 0 && (bits == 0 || (shift >= bits && bits + base + shift <= 30));
  }
  constexpr bool operator==(const Swizzle&) const = default;
};

/// The fields of a config's swizzle as a map; without bits the other two mean nothing.
constexpr Swizzle swizzle_of(const XorSwizzle& x) {
  return x.bits == 0 ? Swizzle{} : Swizzle{x.bits, x.base, x.shift};
}

/// What the number is that a swizzle is applied to.
enum class SwizzleDomain { vector, element, byte };

/// Physical offset in elements of the logical element `e`; `simd` elements make one 16-byte vector.
constexpr std::uint32_t swizzled_element(Swizzle swizzle, SwizzleDomain domain, std::uint32_t e,
                                         std::uint32_t simd) {
  switch (domain) {
    case SwizzleDomain::vector:
      return swizzle(e / simd) * simd + e % simd;
    case SwizzleDomain::element:
      return swizzle(e);
    case SwizzleDomain::byte:
      return swizzle(e * (16 / simd)) / (16 / simd);
  }
  return e;
}

/// The byte-domain swizzle of a TMA or wgmma mode: 16-byte chunk index ^= 128-byte line index.
constexpr Swizzle byte_swizzle(SwizzleMode mode) {
  switch (mode) {
    case SwizzleMode::none:
      return {};
    case SwizzleMode::b32:
      return {1, 4, 3};
    case SwizzleMode::b64:
      return {2, 4, 3};
    case SwizzleMode::b128:
      return {3, 4, 3};
  }
  return {};
}

/// Bytes of one row of a swizzle pattern; 16 (one core-matrix row) without swizzle.
constexpr int span_bytes(SwizzleMode mode) {
  switch (mode) {
    case SwizzleMode::none:
      return 16;
    case SwizzleMode::b32:
      return 32;
    case SwizzleMode::b64:
      return 64;
    case SwizzleMode::b128:
      return 128;
  }
  return 16;
}
/// Alignment at which a pattern starts: 8 rows.
constexpr int pattern_bytes(SwizzleMode mode) {
  return 8 * span_bytes(mode);
}

}  // namespace kiln::layout
