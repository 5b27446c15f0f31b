// Shared-memory maps: wgmma descriptors against TMA images, KV blocks, and bank conflicts.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "generator/layout/banks.hpp"
#include "generator/layout/kv_block.hpp"
#include "generator/layout/layout.hpp"
#include "generator/layout/mma_sync.hpp"
#include "generator/layout/tma.hpp"
#include "generator/layout/wgmma.hpp"

using namespace kiln;
using namespace kiln::layout;

namespace {
constexpr SwizzleMode kSwizzled[] = {SwizzleMode::b32, SwizzleMode::b64, SwizzleMode::b128};
}

TEST_CASE("wgmma descriptor fields and words") {
  CHECK((k_major_descriptor(SwizzleMode::b128, 0x400, 128).encode() >> 32) == 0x40000040u);
  CHECK((k_major_descriptor(SwizzleMode::b64, 0, 128).encode() >> 32) == 0x80000020u);
  CHECK((k_major_descriptor(SwizzleMode::b32, 0, 128).encode() >> 32) == 0xC0000010u);
  CHECK((k_major_descriptor(SwizzleMode::b128, 0x400, 128).encode() & 0xFFFFFFFFu) ==
        ((1u << 16) | (0x400u >> 4)));
  const auto v = mn_major_descriptor(SwizzleMode::b128, 0, 176);
  REQUIRE(v);
  CHECK((v->encode() >> 16 & 0x3FFF) == 176 * 8);
  CHECK((v->encode() >> 32 & 0x3FFF) == 64);
  CHECK_FALSE(mn_major_descriptor(SwizzleMode::none, 0, 64));
  for (SwizzleMode mode : {SwizzleMode::none, SwizzleMode::b32, SwizzleMode::b64, SwizzleMode::b128}) {
    const SmemDescriptor d{0x1230, 512, 1024, 5, mode};
    const SmemDescriptor back = SmemDescriptor::decode(d.encode());
    CHECK(back.address == d.address);
    CHECK(back.lbo == d.lbo);
    CHECK(back.sbo == d.sbo);
    CHECK(back.base_offset == d.base_offset);
    CHECK(back.mode == mode);
  }
}

TEST_CASE("K-major descriptors read the panels that TMA wrote, every k-step, 2-byte and 1-byte elements") {
  constexpr std::uint32_t kBase = 4096;
  for (SwizzleMode mode : kSwizzled) {
    for (int es : {1, 2}) {
      const int rows = 64, cols = 256 / es, step_cols = 32 / es;
      for (int step = 0; step < cols / step_cols; ++step) {
        SmemDescriptor d = k_major_descriptor(mode, kBase, rows);
        d.address += static_cast<std::uint32_t>(k_major_step_bytes(mode, step, rows));
        for (int row = 0; row < rows; ++row) {
          for (int k = 0; k < step_cols; ++k) {
            REQUIRE(k_major_address(d, row, k, es) == kBase + panel_tile_byte(row, step * step_cols + k, rows,
                                                                              es, span_bytes(mode),
                                                                              byte_swizzle(mode)));
          }
        }
      }
    }
  }
  CHECK(k_major_step_bytes(SwizzleMode::b128, 5, 64) ==
        32 + 64 * 128);  // (j&3)*2 + (j>>2)*rows*8 in 16-byte units
}

TEST_CASE("descriptors of folded tiles read what boxes of several panels wrote, by eights of rows") {
  constexpr int kRows = 48, kPanels = 4, kSpan = 128, kColumns = kPanels * kSpan / 2;
  constexpr auto kMode = SwizzleMode::b128;
  for (int fold : {2, 4}) {
    CAPTURE(fold);
    // As the copy engine does it: columns, row of eight, panel, eight of rows; then the next panels.
    std::vector<int> bytes(kRows * kColumns);
    int at = 0;
    for (int first = 0; first < kPanels; first += fold)
      for (int eight = 0; eight < kRows / 8; ++eight)
        for (int panel = first; panel < first + fold; ++panel)
          for (int row = 0; row < 8; ++row)
            for (int column = 0; column < kSpan / 2; ++column, at += 2)
              bytes[static_cast<std::size_t>((8 * eight + row) * kColumns + panel * kSpan / 2 + column)] =
                  static_cast<int>(byte_swizzle(kMode)(static_cast<std::uint32_t>(at)));
    const auto image = [&](int row, int column) {
      return static_cast<std::uint32_t>(bytes[static_cast<std::size_t>(row * kColumns + column)]);
    };
    for (int row = 0; row < kRows; ++row)
      for (int column = 0; column < kColumns; ++column)
        REQUIRE(panel_tile_byte(row, column, kRows, 2, kSpan, byte_swizzle(kMode), fold) ==
                image(row, column));
    for (int step = 0; step < kColumns / 16; ++step) {
      const auto d = k_major_descriptor(
          kMode, static_cast<std::uint32_t>(k_major_step_bytes(kMode, step, kRows, fold)), kRows, fold);
      for (int row = 0; row < kRows; ++row)
        for (int k = 0; k < 16; ++k) REQUIRE(k_major_address(d, row, k, 2) == image(row, 16 * step + k));
    }
    for (int step = 0; step < kRows / 16; ++step) {
      const auto d = *mn_major_descriptor(
          kMode, static_cast<std::uint32_t>(mn_major_step_bytes(kMode, step, fold)), kRows, fold);
      for (int n = 0; n < fold * kSpan / 2; ++n)
        for (int k = 0; k < 16; ++k) REQUIRE(mn_major_address(d, n, k, 2) == image(16 * step + k, n));
    }
  }
}

TEST_CASE("unswizzled K-major descriptors cover a dense core-matrix tile once") {
  const int rows = 64, steps = 4;
  std::vector<int> bytes;
  for (int step = 0; step < steps; ++step) {
    SmemDescriptor d = k_major_descriptor(SwizzleMode::none, 0, rows);
    d.address = static_cast<std::uint32_t>(k_major_step_bytes(SwizzleMode::none, step, rows));
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < 16; ++k) bytes.push_back(static_cast<int>(k_major_address(d, row, k, 2) / 2));
    }
  }
  CHECK(is_permutation(bytes));
}

TEST_CASE("MN-major descriptors read V from the image of a K-major tile") {
  for (SwizzleMode mode : kSwizzled) {
    const int keys = 96, depth = 256;
    for (int step = 0; step < keys / 16; ++step) {
      SmemDescriptor d = *mn_major_descriptor(mode, 8192, keys);
      d.address += static_cast<std::uint32_t>(mn_major_step_bytes(mode, step));
      for (int n = 0; n < depth; ++n) {
        for (int k = 0; k < 16; ++k) {
          REQUIRE(mn_major_address(d, n, k, 2) ==
                  8192 + panel_tile_byte(16 * step + k, n, keys, 2, span_bytes(mode), byte_swizzle(mode)));
        }
      }
    }
  }
}

TEST_CASE("element (9, 80) of a 128 x 128 bf16 tile (F-64)") {
  CHECK(panel_tile_byte(9, 80, 128, 2, 128, {}) == 17568);
  CHECK(panel_tile_byte(9, 80, 128, 2, 128, byte_swizzle(SwizzleMode::b128)) == 17584);
}

TEST_CASE("LDS addresses of K (F-32, F-33)") {
  KvBlocks bf16{64, 32, 4, 8, {3, 0, 4}, SwizzleDomain::vector};
  CHECK(bf16.offset(1, 37, 75) == 13475);
  bf16.swizzle = {};
  CHECK(bf16.offset(1, 37, 75) == 13483);
  KvBlocks fp8{128, 64, 9, 16, {3, 0, 3}, SwizzleDomain::vector};
  CHECK(fp8.offset(0, 100, 530) == 71986);
  fp8.swizzle = {};
  CHECK(fp8.offset(0, 100, 530) == 71954);
}

TEST_CASE("KV blocks are bijections for every named swizzle") {
  for (Swizzle s : {Swizzle{}, {3, 0, 4}, {3, 0, 3}, {2, 0, 3}, {1, 0, 3}, {2, 0, 2}}) {
    for (int bk : {16, 32, 64, 128}) CHECK(KvBlocks{64, bk, 2, 8, s, SwizzleDomain::vector}.is_bijection());
  }
  // Five vectors: the last one would be swapped with a sixth.
  CHECK_FALSE(KvBlocks{5, 8, 1, 8, {1, 0, 2}, SwizzleDomain::vector}.is_bijection());
}

TEST_CASE("NVIDIA bank counts: broadcast, strides, ldmatrix") {
  std::array<std::uint32_t, 32> address{};
  for (std::uint32_t l = 0; l < 32; ++l) address[l] = 4 * l;
  CHECK(nvidia_banks(address, 4).conflicts() == 0);
  for (std::uint32_t l = 0; l < 32; ++l) address[l] = 128 * l;
  CHECK(nvidia_banks(address, 4).conflicts() == 31);
  address.fill(64);
  CHECK(nvidia_banks(address, 4).conflicts() == 0);
  for (std::uint32_t l = 0; l < 32; ++l) address[l] = 16 * l;
  CHECK(nvidia_banks(address, 16).phases == 4);
  CHECK(nvidia_banks(address, 16).conflicts() == 0);
  for (std::uint32_t l = 0; l < 32; ++l) address[l] = 8 * l;
  CHECK(nvidia_banks(address, 8).phases == 2);
  CHECK(nvidia_banks(address, 8).conflicts() == 0);
  address.fill(kInactive);
  CHECK(nvidia_banks(address, 16).cycles == 0);
}

TEST_CASE("ldmatrix of a swizzled tile is free of conflicts, of a plain one it is not") {
  struct Rows {
    int bytes;
    Swizzle byte_domain;
    int plain_conflicts;  ///< of an .x4: 4 matrices, each (ways - 1)
  };
  for (const Rows& rows :
       {Rows{32, {1, 4, 3}, 4}, {64, {2, 4, 3}, 12}, {128, {3, 4, 3}, 28}, {256, {3, 4, 4}, 28}}) {
    for (MatrixOrder order : {MatrixOrder::rows_first, MatrixOrder::cols_first}) {
      for (int step = 0; step < rows.bytes / 32; ++step) {
        std::array<std::uint32_t, 32> plain{}, swizzled{};
        for (int lane = 0; lane < 32; ++lane) {
          const Coord source = ldmatrix_source(order, lane);
          const auto byte =
              static_cast<std::uint32_t>(source.row * rows.bytes + 16 * (source.col + 2 * step));
          plain[static_cast<std::size_t>(lane)] = byte;
          swizzled[static_cast<std::size_t>(lane)] = rows.byte_domain(byte);
        }
        CHECK(nvidia_banks(swizzled, 16).conflicts() == 0);
        CHECK(nvidia_banks(plain, 16).conflicts() == rows.plain_conflicts);
      }
    }
  }
}

TEST_CASE("AMD b128 operand reads: the clean swizzles, and their exchange is not clean") {
  struct Rule {
    int row_bytes;
    Target target;
    int m, shift, mask;
  };
  const auto conflicts = [](const Rule& rule, int xor_shift, int xor_mask) {
    int worst = 0;
    for (int first = 0; first < rule.row_bytes / 16; first += 64 / rule.m) {
      std::array<std::uint32_t, 64> address{};
      for (int lane = 0; lane < 64; ++lane) {
        const int row = lane % rule.m, chunk = first + lane / rule.m;
        address[static_cast<std::size_t>(lane)] =
            static_cast<std::uint32_t>(row * rule.row_bytes + 16 * (chunk ^ ((row >> xor_shift) & xor_mask)));
      }
      worst = std::max(worst, amd_banks(rule.target, LdsAccess::read_b128, address).conflicts());
    }
    return worst;
  };
  for (const Rule& rule : {Rule{64, Target::gfx942, 32, 1, 3},
                           {64, Target::gfx942, 16, 1, 3},
                           {128, Target::gfx942, 32, 0, 7},
                           {256, Target::gfx90a, 32, 0, 7},
                           {64, Target::gfx950, 32, 2, 3},
                           {64, Target::gfx950, 16, 1, 3},
                           {128, Target::gfx950, 32, 1, 7},
                           {256, Target::gfx950, 32, 0, 15},
                           {512, Target::gfx950, 32, 0, 15}}) {
    CAPTURE(rule.row_bytes);
    CHECK(conflicts(rule, rule.shift, rule.mask) == 0);
    CHECK(conflicts(rule, 0, 0) > 0);
  }
  CHECK(conflicts({64, Target::gfx942, 32, 0, 0}, 2, 3) > 0);
  CHECK(conflicts({64, Target::gfx950, 32, 0, 0}, 1, 3) > 0);
  CHECK_FALSE(amd_phases(Target::gfx942, LdsAccess::read_b64).measured);
}
