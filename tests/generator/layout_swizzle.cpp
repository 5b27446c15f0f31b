// Swizzles and Layouts: worked numbers and the properties every legal swizzle has.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "generator/layout/layout.hpp"
#include "generator/layout/swizzle.hpp"

using namespace kiln;
using namespace kiln::layout;

namespace {
constexpr std::array<std::uint32_t, 11> kInputs = {0, 1, 5, 8, 16, 17, 37, 63, 77, 100, 127};

std::array<std::uint32_t, 11> apply(Swizzle swizzle) {
  std::array<std::uint32_t, 11> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = swizzle(kInputs[i]);
  return out;
}
}  // namespace

TEST_CASE("swizzle values (F-28, F-29, F-30)") {
  CHECK(apply({3, 0, 4}) == std::array<std::uint32_t, 11>{0, 1, 5, 8, 17, 16, 39, 60, 73, 98, 120});
  CHECK(apply({3, 0, 3}) == std::array<std::uint32_t, 11>{0, 1, 5, 9, 18, 19, 33, 56, 76, 96, 120});
  CHECK(apply({2, 0, 2}) == std::array<std::uint32_t, 11>{0, 1, 4, 10, 16, 17, 36, 60, 78, 101, 124});
}

TEST_CASE("two one-bit swizzles make one of two bits, on vectors and on bytes (F-31)") {
  for (std::uint32_t x = 0; x < 2048; ++x) {
    const std::uint32_t both = Swizzle{1, 1, 4}(Swizzle{1, 0, 4}(x));
    CHECK(both == Swizzle{2, 0, 4}(x));
    CHECK(both * 16 + x % 16 == Swizzle{2, 4, 4}(x * 16 + x % 16));
  }
}

TEST_CASE("every valid swizzle is its own inverse and permutes its period") {
  for (int bits = 0; bits <= 4; ++bits) {
    for (int base = 0; base <= 4; ++base) {
      for (int shift = bits; shift <= 5; ++shift) {
        const Swizzle swizzle{bits, base, shift};
        REQUIRE(swizzle.is_valid());
        std::vector<int> image;
        for (std::uint32_t x = 0; x < 1u << (bits + base + shift); ++x) {
          REQUIRE(swizzle(swizzle(x)) == x);
          image.push_back(static_cast<int>(swizzle(x)));
        }
        CHECK(is_permutation(image));
      }
    }
  }
  CHECK_FALSE(Swizzle{3, 0, 2}.is_valid());   // fields overlap
  CHECK_FALSE(Swizzle{2, 0, -2}.is_valid());  // upwards
}

TEST_CASE("TMA modes are the documented bit moves, and the same on vectors and bytes") {
  for (std::uint32_t byte = 0; byte < 4096; ++byte) {
    CHECK(byte_swizzle(SwizzleMode::b128)(byte) == (byte ^ ((byte >> 7 & 7) << 4)));
    CHECK(byte_swizzle(SwizzleMode::b64)(byte) == (byte ^ ((byte >> 7 & 3) << 4)));
    CHECK(byte_swizzle(SwizzleMode::b32)(byte) == (byte ^ ((byte >> 7 & 1) << 4)));
    CHECK(byte_swizzle(SwizzleMode::none)(byte) == byte);
  }
  for (std::uint32_t e = 0; e < 2048; ++e) {
    CHECK(swizzled_element({3, 0, 3}, SwizzleDomain::vector, e, 8) ==
          swizzled_element({3, 4, 3}, SwizzleDomain::byte, e, 8));
  }
}

TEST_CASE("layouts: offsets, coordinates, bijection") {
  const Layout padded({8, 4}, {1, 16});
  CHECK(padded({3, 2}) == 35);
  CHECK(padded(3 + 8 * 2) == 35);
  CHECK(padded.coordinate(19) == std::vector<int>{3, 2});
  CHECK(padded.size() == 32);
  CHECK_FALSE(padded.is_bijection());
  CHECK(padded.to_string() == "(8,4):(1,16)");
  CHECK(Layout::row_major({4, 8})({1, 2}) == 10);
  CHECK(Layout::column_major({4, 8})({1, 2}) == 9);
  CHECK(Layout::row_major({4, 8, 3}).is_bijection());
  CHECK_FALSE(Layout({4, 8}, {0, 1}).is_bijection());
  CHECK_FALSE(is_permutation({0, 2}));
}
