// wgmma against a naive product. Shared memory is laid out by the tests' own address functions: what a tensor
// copy would write for swizzled tiles (address bits [4, 4+n) ^= [7, 7+n)), core matrices for the unswizzled
// mode.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "emulator/tensor/numeric.hpp"
#include "emulator/tensor/wgmma.hpp"
#include "tests/emulator/tensor_support.hpp"

namespace {

using namespace emulator_test;

constexpr std::uint32_t kSharedBytes = 227 * 1024;

/// One operand tile in shared memory: `extent` rows (M or N) by 32 bytes of K, at a k step inside a wider
/// tile.
struct Tile {
  Swizzle swizzle;
  bool mn_major;
  int extent;
  int k_tile_bytes;  ///< K-major: bytes of K in the whole tile
  int step;          ///< which 32-byte (K-major) or 16-column (MN-major) step is multiplied
  std::uint32_t base;
  int element_bytes;
  int k_tile;  ///< MN-major: columns of the whole tile

  std::uint32_t span() const { return 16u << static_cast<unsigned>(swizzle); }

  /// Address of element (mn, k) where k counts from the tile's first column.
  std::uint32_t address(int mn, int k) const {
    const auto row = static_cast<std::uint32_t>(mn), column = static_cast<std::uint32_t>(k);
    const auto size = static_cast<std::uint32_t>(element_bytes);
    if (swizzle == Swizzle::none) {
      // Core matrices of 8 x 16 bytes. K-major: along rows first. MN-major: along columns (k) first.
      if (!mn_major) {
        const std::uint32_t byte = column * size;
        return base + (byte / 16) * (static_cast<std::uint32_t>(extent) * 16) + row * 16 + byte % 16;
      }
      const std::uint32_t byte = row * size;
      return base + (byte / 16) * (static_cast<std::uint32_t>(k_tile) * 16) + column * 16 + byte % 16;
    }
    const std::uint32_t line = mn_major ? column : row, byte = (mn_major ? row : column) * size;
    const auto lines = static_cast<std::uint32_t>(mn_major ? k_tile : extent);
    const std::uint32_t linear = base + (byte / span()) * lines * span() + line * span() + byte % span();
    const std::uint32_t bits = static_cast<std::uint32_t>(swizzle);
    return linear ^ (((linear >> 7) & ((1u << bits) - 1)) << 4);
  }

  std::uint64_t descriptor() const {
    MatrixDescriptor d;
    d.swizzle = swizzle;
    const auto rows = static_cast<std::uint32_t>(extent), columns = static_cast<std::uint32_t>(k_tile);
    const auto offset = static_cast<std::uint32_t>(step);
    if (swizzle == Swizzle::none && !mn_major) {
      d.leading_offset = rows * 16;
      d.stride_offset = 128;
      d.start = base + offset * 2 * rows * 16;
    } else if (swizzle == Swizzle::none) {
      d.leading_offset = 128;
      d.stride_offset = columns * 16;
      d.start = base + offset * 256;
    } else if (!mn_major) {
      d.leading_offset = 16;
      d.stride_offset = 8 * span();
      d.start = base + (offset * 32 / span()) * rows * span() + offset * 32 % span();
    } else {
      d.leading_offset = columns * span();
      d.stride_offset = 8 * span();
      d.start = base + offset * 16 * span();
    }
    return encode_descriptor(d);
  }
};

struct WgmmaRun {
  WgmmaOp op;
  Swizzle a_swizzle = Swizzle::b128, b_swizzle = Swizzle::b128;
  int step = 1;
  bool scale_d = true;
};

std::string describe(const WgmmaRun& r) {
  return fmt::format("n{} a{} b{} d{} registers {} transposed {}{} swizzles {}{} step {}", r.op.n,
                     static_cast<int>(r.op.a), static_cast<int>(r.op.b), static_cast<int>(r.op.d),
                     r.op.a_in_registers, r.op.trans_a, r.op.trans_b, static_cast<int>(r.a_swizzle),
                     static_cast<int>(r.b_swizzle), r.step);
}

/// Runs one form on small integers; every sum is exact, so the comparison is too. Returns the number of wrong
/// elements.
int run_case(const WgmmaRun& r, std::mt19937& random) {
  const WgmmaOp& op = r.op;
  const int k_extent = wgmma_k(op), bytes = bit_width(op.a) / 8, steps = r.step + 1;
  std::vector<std::uint8_t> shared(kSharedBytes, 0xff);  // NaN in every float type: a stray read shows
  const bool integer = op.d == MatrixType::s32;
  const auto tile = [&](bool is_a) {
    return Tile{is_a ? r.a_swizzle : r.b_swizzle,
                is_a ? op.trans_a : op.trans_b,
                is_a ? 64 : op.n,
                32 * steps,
                r.step,
                is_a ? 1024u : 80 * 1024u,
                bytes,
                16 * steps};
  };
  const Tile a_tile = tile(true), b_tile = tile(false);
  const auto value = [&](MatrixType type) {
    return type == MatrixType::u8   ? static_cast<int>(random() % 256)
           : type == MatrixType::s8 ? static_cast<int>(random() % 256) - 128
                                    : static_cast<int>(random() % 5) - 2;
  };
  const auto bits = [&](MatrixType type, int v) {
    return type == MatrixType::s8 || type == MatrixType::u8 ? static_cast<std::uint64_t>(v) & 0xff
                                                            : from_double(format_of(type), v);
  };
  std::vector<std::vector<int>> a(64, std::vector<int>(32)), b(256, std::vector<int>(32));
  std::vector<std::array<std::uint32_t, 32>> a_registers(16);
  for (auto& reg : a_registers) reg.fill(0);
  const int first_k = r.step * k_extent;
  const auto put = [&](const Tile& t, int mn, int k, std::uint64_t pattern) {
    for (int i = 0; i < bytes; ++i)
      shared[t.address(mn, first_k + k) + static_cast<std::uint32_t>(i)] =
          static_cast<std::uint8_t>(pattern >> (8 * i));
  };
  for (int m = 0; m < 64; ++m) {
    for (int k = 0; k < k_extent; ++k) {
      const int v = value(op.a);
      a[static_cast<std::size_t>(m)][static_cast<std::size_t>(k)] = v;
      if (!op.a_in_registers) {
        put(a_tile, m, k, bits(op.a, v));
        continue;
      }
      // hopper: a0 (r0; k low), a1 (r0 + 8), a2 (r0; k high), a3 (r0 + 8; k high), each 4 lanes x 4 bytes of
      // k.
      const int per = 4 / bytes, half = k / (4 * per), lane = 4 * (m % 8) + (k / per) % 4;
      const int reg = 4 * (m / 16) + 2 * half + (m % 16) / 8;
      a_registers[static_cast<std::size_t>(reg)][static_cast<std::size_t>(lane)] |=
          static_cast<std::uint32_t>(bits(op.a, v) << (8 * bytes * (k % per)));
    }
  }
  for (int n = 0; n < op.n; ++n) {
    for (int k = 0; k < k_extent; ++k) {
      const int v = value(op.b);
      b[static_cast<std::size_t>(n)][static_cast<std::size_t>(k)] = v;
      put(b_tile, n, k, bits(op.b, v));
    }
  }
  const int registers = wgmma_d_registers(op);
  std::vector<std::array<std::uint32_t, 32>> d(static_cast<std::size_t>(4 * registers));
  std::vector<std::vector<int>> c(64, std::vector<int>(256));
  const auto d_place = [&](int m, int n) {
    const int index = 4 * (n / 8) + 2 * ((m % 16) / 8) + n % 2, lane = 4 * (m % 8) + (n % 8) / 2;
    return std::array<int, 3>{
        op.d == MatrixType::f16 ? registers * (m / 16) + index / 2 : registers * (m / 16) + index, lane,
        op.d == MatrixType::f16 ? 16 * (index % 2) : 0};
  };
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < op.n; ++n) {
      const int v = static_cast<int>(random() % 64) - 32;
      c[static_cast<std::size_t>(m)][static_cast<std::size_t>(n)] = v;
      const auto [reg, lane, shift] = d_place(m, n);
      std::uint32_t& word = d[static_cast<std::size_t>(reg)][static_cast<std::size_t>(lane)];
      if (op.d == MatrixType::f16) {
        word = (shift ? word & 0xffff : 0) | static_cast<std::uint32_t>(from_double(FloatFormat::f16, v))
                                                 << shift;
      } else {
        word = integer ? static_cast<std::uint32_t>(v) : std::bit_cast<std::uint32_t>(static_cast<float>(v));
      }
    }
  }
  std::vector<std::uint32_t*> d_pointers;
  for (auto& reg : d) d_pointers.push_back(reg.data());
  std::vector<const std::uint32_t*> a_pointers;
  for (auto& reg : a_registers) a_pointers.push_back(reg.data());
  wgmma(op, r.scale_d, d_pointers.data(), op.a_in_registers ? a_pointers.data() : nullptr,
        a_tile.descriptor(), b_tile.descriptor(), shared);
  int failures = 0;
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < op.n; ++n) {
      long want = 0;
      for (int k = 0; k < k_extent; ++k)
        want += a[static_cast<std::size_t>(m)][static_cast<std::size_t>(k)] *
                b[static_cast<std::size_t>(n)][static_cast<std::size_t>(k)];
      if (op.negate_a != op.negate_b) want = -want;
      if (r.scale_d) want += c[static_cast<std::size_t>(m)][static_cast<std::size_t>(n)];
      const auto [reg, lane, shift] = d_place(m, n);
      const std::uint32_t word = d[static_cast<std::size_t>(reg)][static_cast<std::size_t>(lane)];
      const double got = integer                   ? static_cast<std::int32_t>(word)
                         : op.d == MatrixType::f16 ? to_double(FloatFormat::f16, (word >> shift) & 0xffff)
                                                   : std::bit_cast<float>(word);
      failures += got != static_cast<double>(want);
    }
  }
  // The footprint is exactly the bytes of the operand's elements.
  for (const bool is_a : {true, false}) {
    if (is_a && op.a_in_registers) continue;
    const Tile& t = is_a ? a_tile : b_tile;
    std::set<std::uint32_t> want, got;
    for (int mn = 0; mn < t.extent; ++mn) {
      for (int k = 0; k < k_extent; ++k) {
        for (int i = 0; i < bytes; ++i)
          want.insert(t.address(mn, first_k + k) + static_cast<std::uint32_t>(i));
      }
    }
    std::vector<ByteRange> ranges;
    wgmma_footprint(op, is_a ? WgmmaOperand::a : WgmmaOperand::b, t.descriptor(), ranges);
    for (const ByteRange& range : ranges) {
      for (std::uint32_t byte = range.begin; byte < range.end; ++byte) got.insert(byte);
    }
    failures += want != got;
  }
  return failures;
}

const Swizzle kSwizzles[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};

WgmmaOp form(int n, MatrixType a, MatrixType b, MatrixType d) {
  WgmmaOp op;
  op.n = n;
  op.a = a;
  op.b = b;
  op.d = d;
  return op;
}

}  // namespace

TEST_CASE("wgmma: every type, swizzle, major mode and source of A") {
  using T = MatrixType;
  const WgmmaOp forms[] = {form(24, T::bf16, T::bf16, T::f32), form(64, T::bf16, T::bf16, T::f32),
                           form(40, T::f16, T::f16, T::f32),   form(128, T::f16, T::f16, T::f16),
                           form(16, T::tf32, T::tf32, T::f32), form(72, T::e4m3, T::e4m3, T::f32),
                           form(8, T::e4m3, T::e5m2, T::f32),  form(32, T::e5m2, T::e4m3, T::f16),
                           form(48, T::e5m2, T::e5m2, T::f32), form(24, T::s8, T::u8, T::s32),
                           form(64, T::u8, T::s8, T::s32),     form(96, T::s8, T::s8, T::s32),
                           form(32, T::u8, T::u8, T::s32)};
  std::mt19937 random(31);
  for (const WgmmaOp& base : forms) {
    REQUIRE(wgmma_check(base).empty());
    const bool sixteen = base.a == T::bf16 || base.a == T::f16;
    for (const Swizzle a_swizzle : kSwizzles) {
      for (const Swizzle b_swizzle : kSwizzles) {
        for (int modes = 0; modes < (sixteen ? 6 : 2); ++modes) {
          WgmmaRun r{base, a_swizzle, b_swizzle};
          r.op.trans_b = modes >= 3 || (sixteen && modes == 2);
          r.op.a_in_registers = modes == 1 || modes == 4;
          r.op.trans_a = modes == 5;
          if (r.op.a_in_registers && a_swizzle != Swizzle::none) continue;
          // An MN-major operand fills whole panels of the swizzle span.
          const int panel = 8 << static_cast<int>(b_swizzle);
          if (r.op.trans_b && b_swizzle != Swizzle::none && r.op.n % panel != 0) continue;
          r.step = modes % 2;
          CAPTURE(describe(r));
          REQUIRE(wgmma_check(r.op).empty());
          CHECK(run_case(r, random) == 0);
        }
      }
    }
  }
}

TEST_CASE("wgmma: every N") {
  std::mt19937 random(32);
  for (int n = 8; n <= 256; n += 8) {
    CAPTURE(n);
    for (const MatrixType type : {MatrixType::bf16, MatrixType::e4m3}) {
      WgmmaRun r{form(n, type, type, MatrixType::f32)};
      r.step = 3;
      r.scale_d = n % 16 == 0;
      CHECK(run_case(r, random) == 0);
    }
  }
}

TEST_CASE("wgmma: negated operands, scale-d, clamping") {
  std::mt19937 random(33);
  for (int i = 0; i < 8; ++i) {
    WgmmaRun r{form(64, MatrixType::f16, MatrixType::f16, i & 4 ? MatrixType::f16 : MatrixType::f32)};
    r.op.negate_a = i & 1;
    r.op.negate_b = i & 2;
    r.scale_d = i % 3 == 0;
    CHECK(run_case(r, random) == 0);
  }
  WgmmaOp op = form(8, MatrixType::u8, MatrixType::u8, MatrixType::s32);
  op.satfinite = true;
  op.a_in_registers = true;
  std::array<std::uint32_t, 32> ones{};
  ones.fill(0xffffffffu);
  std::vector<const std::uint32_t*> a(16, ones.data());
  std::vector<std::array<std::uint32_t, 32>> d(16);
  std::vector<std::uint32_t*> d_pointers;
  for (auto& reg : d) {
    reg.fill(0x7ffffff0u);
    d_pointers.push_back(reg.data());
  }
  const std::vector<std::uint8_t> shared(4096, 0xff);
  wgmma(op, true, d_pointers.data(), a.data(), 0, encode_descriptor({0, 128, 128, 0, Swizzle::none}), shared);
  CHECK(d[5][7] == 0x7fffffffu);
}

TEST_CASE("wgmma: base offset shifts the phase of the swizzle pattern") {
  // A tile whose 1024-byte pattern starts at an address with bits 7..9 = 3.
  const std::uint32_t start = 1024 + 3 * 128;
  MatrixDescriptor d{start, 16, 1024, 3, Swizzle::b128};
  std::vector<ByteRange> shifted;
  const WgmmaOp op = form(8, MatrixType::bf16, MatrixType::bf16, MatrixType::f32);
  wgmma_footprint(op, WgmmaOperand::b, encode_descriptor(d), shifted);
  d.start = 1024;
  d.base_offset = 0;
  std::vector<ByteRange> aligned;
  wgmma_footprint(op, WgmmaOperand::b, encode_descriptor(d), aligned);
  REQUIRE(shifted.size() == aligned.size());
  for (std::size_t i = 0; i < aligned.size(); ++i) {
    CHECK(shifted[i].begin == aligned[i].begin + 3 * 128);
    CHECK(shifted[i].end == aligned[i].end + 3 * 128);
  }
}

TEST_CASE("wgmma: descriptors round-trip and match the documented bit fields") {
  const MatrixDescriptor d{0x12340, 0x8000, 1024, 5, Swizzle::b64};
  const std::uint64_t bits = encode_descriptor(d);
  CHECK((bits & 0x3fff) == 0x1234);
  CHECK(((bits >> 16) & 0x3fff) == 0x800);
  CHECK(((bits >> 32) & 0x3fff) == 64);
  CHECK(((bits >> 49) & 7) == 5);
  CHECK((bits >> 62) == 2);
  const MatrixDescriptor back = decode_descriptor(bits);
  CHECK(back.start == d.start);
  CHECK(back.leading_offset == d.leading_offset);
  CHECK(back.stride_offset == d.stride_offset);
  CHECK(back.base_offset == d.base_offset);
  CHECK(back.swizzle == d.swizzle);
  CHECK(decode_descriptor(1ull << 62).swizzle == Swizzle::b128);
  CHECK(decode_descriptor(3ull << 62).swizzle == Swizzle::b32);
}

TEST_CASE("wgmma: reads beyond shared memory and illegal forms") {
  WgmmaOp op = form(8, MatrixType::bf16, MatrixType::bf16, MatrixType::f32);
  op.a_in_registers = true;
  std::array<std::uint32_t, 32> ones{};
  ones.fill(0x3f803f80u);
  std::vector<const std::uint32_t*> a(16, ones.data());
  std::vector<std::array<std::uint32_t, 32>> d(16);
  std::vector<std::uint32_t*> pointers;
  for (auto& reg : d) pointers.push_back(reg.data());
  const std::vector<std::uint8_t> shared(1024, 0x3f);
  const std::uint64_t beyond = encode_descriptor({200 * 1024, 128, 128, 0, Swizzle::none});
  wgmma(op, false, pointers.data(), a.data(), 0, beyond, shared);
  CHECK(d[0][0] == 0);
  std::vector<ByteRange> ranges;
  wgmma_footprint(op, WgmmaOperand::b, beyond, ranges);
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0] == ByteRange{200 * 1024, 200 * 1024 + 256});

  using T = MatrixType;
  CHECK(!wgmma_check(form(12, T::bf16, T::bf16, T::f32)).empty());
  CHECK(!wgmma_check(form(264, T::bf16, T::bf16, T::f32)).empty());
  CHECK(!wgmma_check(form(40, T::s8, T::s8, T::s32)).empty());
  CHECK(!wgmma_check(form(64, T::bf16, T::f16, T::f32)).empty());
  CHECK(!wgmma_check(form(64, T::bf16, T::bf16, T::f16)).empty());
  WgmmaOp fp8 = form(64, T::e4m3, T::e4m3, T::f32);
  fp8.trans_b = true;
  CHECK(!wgmma_check(fp8).empty());
}
