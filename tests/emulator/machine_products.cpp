// Products whose operands lie in their own ways: one-bit wgmma and wmma, mma.m8n8k4 of f16 by quads of lanes. Against
// products of whole numbers, with the layouts written down from the tables of PTX.
#include <doctest/doctest.h>

#include <bit>
#include <random>

#include "tests/emulator/machine_support.hpp"
#include "tests/emulator/tensor_support.hpp"

using namespace emulator_test;

namespace {

std::vector<std::uint32_t> random_words(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> words(count);
  for (std::uint32_t& w : words) w = static_cast<std::uint32_t>(random());
  return words;
}

/// -2 to 2 in f16.
std::uint32_t half(int v) {
  const std::uint32_t magnitude = v == 0 ? 0 : v == 1 || v == -1 ? 0x3c00 : 0x4000;
  return magnitude | (v < 0 ? 0x8000u : 0u);
}
/// Of small whole numbers.
float from_half(std::uint32_t h) {
  if ((h & 0x7fff) == 0) return 0;
  return std::bit_cast<float>(((h & 0x8000) << 16) | (((h & 0x7fff) << 13) + (112u << 23)));
}

/// The tables of mma.m8n8k4: element i of a lane, in the product of the lane's quad pair.
MatrixPlace place_a(bool column_major, int lane, int i) {
  const int upper = lane < 16 ? 0 : 4;
  return column_major ? MatrixPlace{i % 4 + upper, lane % 4} : MatrixPlace{lane % 4 + upper, i};
}
MatrixPlace place_b(bool row_major, int lane, int i) {
  const int upper = lane < 16 ? 0 : 4;
  return row_major ? MatrixPlace{lane % 4, i + upper} : MatrixPlace{i, lane % 4 + upper};
}
MatrixPlace place_sum(bool halves, int lane, int i) {
  const int upper = lane < 16 ? 0 : 4;
  if (halves) return {lane % 4 + upper, i};
  return {(lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)};
}

std::string check_quads(bool a_column, bool b_row, bool d_half, bool c_half, std::mt19937& random) {
  int a[4][8][4], b[4][4][8], c[4][8][8];
  const auto value = [&] { return static_cast<int>(random() % 5) - 2; };
  for (int p = 0; p < 4; ++p) {
    for (auto& row : a[p])
      for (int& v : row) v = value();
    for (auto& row : b[p])
      for (int& v : row) v = value();
    for (auto& row : c[p])
      for (int& v : row) v = value();
  }
  // Rows of 32 lanes: two registers each of A and B, 4 or 8 of C.
  const int sums = c_half ? 4 : 8, results = d_half ? 4 : 8;
  std::vector<std::uint32_t> input(static_cast<std::size_t>(32 * (4 + sums)));
  const auto word = [&](int row, int lane) -> std::uint32_t& {
    return input[static_cast<std::size_t>(32 * row + lane)];
  };
  for (int lane = 0; lane < 32; ++lane) {
    const int p = lane % 16 / 4;
    for (int i = 0; i < 4; ++i) {
      const MatrixPlace at = place_a(a_column, lane, i), bt = place_b(b_row, lane, i);
      word(i / 2, lane) |= half(a[p][at.row][at.column]) << (16 * (i % 2));
      word(2 + i / 2, lane) |= half(b[p][bt.row][bt.column]) << (16 * (i % 2));
    }
    for (int i = 0; i < 8; ++i) {
      const MatrixPlace ct = place_sum(c_half, lane, i);
      const int v = c[p][ct.row][ct.column];
      if (c_half)
        word(4 + i / 2, lane) |= half(v) << (16 * (i % 2));
      else
        word(4 + i, lane) = std::bit_cast<std::uint32_t>(static_cast<float>(v));
    }
  }
  const auto list = [](int first, int count) {
    std::string s;
    for (int i = 0; i < count; ++i) s += (i != 0 ? ",%r" : "{%r") + std::to_string(first + i);
    return s + "}";
  };
  std::string body = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %in;\n";
  for (int i = 0; i < 4 + sums; ++i)
    body += "ld.global.u32 %r" + std::to_string(10 + i) + ", [%d1+" + std::to_string(128 * i) + "];\n";
  body += std::string("mma.sync.aligned.m8n8k4.") + (a_column ? "col." : "row.") + (b_row ? "row." : "col.") +
          (d_half ? "f16" : "f32") + ".f16.f16." + (c_half ? "f16 " : "f32 ") + list(40, results) + "," +
          list(10, 2) + "," + list(12, 2) + "," + list(14, sums) + ";\n";
  for (int i = 0; i < results; ++i)
    body += "st.global.u32 [%o+" + std::to_string(128 * i) + "], %r" + std::to_string(40 + i) + ";\n";
  const Outcome o = run(kernel(body), {.input = input});
  if (!o.text().empty()) return o.text();
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      const int p = lane % 16 / 4;
      const MatrixPlace at = place_sum(d_half, lane, i);
      int want = c[p][at.row][at.column];
      for (int k = 0; k < 4; ++k) want += a[p][at.row][k] * b[p][k][at.column];
      const std::uint32_t w = o.out[static_cast<std::size_t>(32 * (d_half ? i / 2 : i) + lane)];
      const float got = d_half ? from_half(w >> (16 * (i % 2)) & 0xffff) : std::bit_cast<float>(w);
      if (got != static_cast<float>(want))
        return "lane " + std::to_string(lane) + ", element " + std::to_string(i) + ": " +
               std::to_string(got) + ", not " + std::to_string(want);
    }
  return {};
}

}  // namespace

TEST_CASE("mma.m8n8k4 of f16: four products by quad pairs") {
  std::mt19937 random(3);
  for (const bool a_column : {false, true})
    for (const bool b_row : {false, true})
      for (const auto& [d_half, c_half] : {std::pair{false, false}, {true, true}, {false, true}}) {
        INFO(a_column << b_row << d_half << c_half);
        CHECK(check_quads(a_column, b_row, d_half, c_half, random) == "");
      }
}

TEST_CASE("one-bit wgmma counts the bits that both have") {
  // 64 x 256 bits of A in registers, 256 x 8 of B in shared memory; twice, the second time on top of the first.
  const std::vector<std::uint32_t> input = random_words(4 * 128 + 64, 5);
  std::string body =
      "mov.u32 %r20, %r1; mov.u32 %r21, %r3; cvt.u64.u32 %d3, %r4; add.u64 %d1, %in, %d3; setp.lt.u32 %p4, %t, 64;\n"
      "ld.global.u32 %r11, [%d1]; ld.global.u32 %r12, [%d1+512]; ld.global.u32 %r13, [%d1+1024];\n"
      "ld.global.u32 %r14, [%d1+1536]; @%p4 ld.global.u32 %r15, [%d1+2048]; @%p4 st.shared.u32 [%r20], %r15;\n"
      "fence.proxy.async; bar.sync 0; shr.u32 %r22, %r21, 4; cvt.u64.u32 %d4, %r22;\n"
      "mov.b64 %d5, 0x0000000800080000; or.b64 %d4, %d4, %d5;\n"
      "mov.b32 %r31, 0; mov.b32 %r32, 0; mov.b32 %r33, 0; mov.b32 %r34, 0; wgmma.fence.sync.aligned;\n";
  for (const char* scale : {"0", "1"})
    body +=
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%r31,%r32,%r33,%r34}, "
        "{%r11,%r12,%r13,%r14}, %d4, " +
        std::string(scale) + ";\n";
  body += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < 4; ++i)
    body += "st.global.u32 [%o+" + std::to_string(512 * i) + "], %r" + std::to_string(31 + i) + ";\n";
  const Outcome o = run(shared_kernel(body), {.block = {128, 1, 1}, .input = input});
  clean(o);
  for (std::size_t row = 0; row < 64; ++row)
    for (std::size_t n = 0; n < 8; ++n) {
      int count = 0;
      for (std::size_t k = 0; k < 8; ++k) {  // words of 32 bits
        const std::size_t thread = row / 16 * 32 + row % 8 * 4 + k % 4, reg = row / 8 % 2 + 2 * (k / 4);
        count += std::popcount(input[128 * reg + thread] & input[512 + k / 4 * 32 + n * 4 + k % 4]);
      }
      CHECK(o.out[128 * (n % 2 + 2 * (row / 8 % 2)) + row / 16 * 32 + row % 8 * 4 + n / 2] ==
            static_cast<std::uint32_t>(2 * count));
    }
}

TEST_CASE("one-bit wmma counts bits that both have, or one of them") {
  const std::vector<std::uint32_t> input = random_words(64, 6);
  for (const std::string what : {"and", "xor"}) {
    const Outcome o =
        run(kernel("add.u64 %d1, %in, 128; mov.b32 %r3, 100; mov.b32 %r4, 200;\n"
                   "wmma.load.a.sync.aligned.m8n8k128.row.global.b1 {%r1}, [%in];\n"
                   "wmma.load.b.sync.aligned.m8n8k128.col.global.b1 {%r2}, [%d1];\n"
                   "wmma.mma." +
                   what +
                   ".popc.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32 {%r5,%r6}, {%r1}, {%r2}, {%r3,%r4};\n"
                   "wmma.store.d.sync.aligned.m8n8k128.row.global.s32 [%out], {%r5,%r6};"),
            {.input = input});
    clean(o);
    for (std::size_t m = 0; m < 8; ++m)
      for (std::size_t n = 0; n < 8; ++n) {
        int count = n % 2 == 0 ? 100 : 200;
        for (std::size_t k = 0; k < 4; ++k) {
          const std::uint32_t a = input[4 * m + k], b = input[32 + 4 * n + k];
          count += std::popcount(what == "and" ? a & b : a ^ b);
        }
        CHECK(o.out[8 * m + n] == static_cast<std::uint32_t>(count));
      }
  }
}
