// What C++ brings along: frames, wide integers; and lanes that wait for lanes.
#include <bit>

#include "tests/emulator/programs/harness.hpp"

using namespace programs;

namespace {

int total(const int* below, int depth) {
  int own[6], sum = 0;
  for (int i = 0; i < 6; ++i) {
    own[i] = depth * 6 + i + (below != nullptr ? below[i] : 0);
    sum += own[i] + own[i] % 3;
  }
  return depth > 0 ? sum + total(own, depth - 1) : sum;
}

/// What heap_shapes.cu does with a list.
struct Shapes {
  static int area(int kind, int n) {
    if (kind == 0) return square(n);
    if (kind == 1) return rectangle(n, n / 2 + 1);
    return square(n) + rectangle(n, 2) + (n > 2 ? area(2, n - 2) : square(1));
  }
  static int corners(int kind, int n) { return kind != 2 ? 4 : 8 + (n > 2 ? corners(2, n - 2) : 4); }
  static int square(int n) { return n * n; }
  static int rectangle(int w, int h) { return w * h; }
};

}  // namespace

TEST_CASE("program: lists of shapes with virtual functions on the heap") {
  run_program("heap_shapes", [](Session& s) {
    const auto seeds = integers(256, 1 << 30, 3);
    const auto areas = s.empty<int>(256), corners = s.empty<int>(256);
    s.launch({4}, {64}, s.put(seeds), areas, corners, 3);
    const auto got_areas = s.get<int>(areas, 256), got_corners = s.get<int>(corners, 256);
    for (std::size_t t = 0; t < 256; ++t) {
      auto state = static_cast<std::uint32_t>(seeds[t]);
      int area = 0, corner = 0;
      for (int left = 3 + static_cast<int>(state % 14); left > 0; --left) {
        state = state * 1664525u + 1013904223u;
        const int kind = static_cast<int>(state >> 16) % 3, n = 1 + static_cast<int>(state >> 20) % 7;
        const int own = Shapes::area(kind, n), edges = Shapes::corners(kind, n);
        for (int i = 0; i < 3; ++i) area += own ^ i;
        if (edges == 4 && own % 2 == 0) continue;
        corner += edges;
        area += 1000 * own;
      }
      CHECK(got_areas[t] == area);
      CHECK(got_corners[t] == corner);
    }
  });
}

TEST_CASE("program: recursion with locals of every frame") {
  run_program("recursion_frames", [](Session& s) {
    const auto sums = s.empty<int>(128), values = s.empty<int>(128);
    s.launch({2}, {64}, sums, values);
    const auto got = s.get<int>(sums, 128), ackermann = s.get<int>(values, 128);
    for (int t = 0; t < 128; ++t) {
      CHECK(got[static_cast<std::size_t>(t)] == total(nullptr, t % 7));
      CHECK(ackermann[static_cast<std::size_t>(t)] == 2 * (t % 4) + 3);
    }
  });
}

TEST_CASE("program: 128-bit division") {
  run_program("wide_division", [](Session& s) {
    std::vector<std::uint64_t> in;
    std::uint64_t x = 88172645463325252ull;
    for (int i = 0; i < 64 * 3; ++i) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      in.push_back(i % 3 == 2 ? (x >> (i % 60)) | 1 : i % 3 == 0 ? x >> (i % 64) : x);
    }
    const auto out = s.empty<std::uint64_t>(in.size());
    s.launch({2}, {32}, s.put(in), out);
    const auto got = s.get<std::uint64_t>(out, in.size());
    __extension__ typedef unsigned __int128 u128;
    for (std::size_t i = 0; i < in.size(); i += 3) {
      const u128 a = static_cast<u128>(in[i]) << 64 | in[i + 1], q = a / in[i + 2];
      CHECK(got[i] == static_cast<std::uint64_t>(q >> 64));
      CHECK(got[i + 1] == static_cast<std::uint64_t>(q));
      CHECK(got[i + 2] == static_cast<std::uint64_t>(a % in[i + 2]));
    }
  });
}

TEST_CASE("program: a flag within a warp") {
  run_program("flag_in_warp", [](Session& s) {
    const auto out = s.empty<int>(64);
    s.launch({1}, {64}, out);
    const auto got = s.get<int>(out, 64);
    for (int t = 0; t < 64; ++t) CHECK(got[static_cast<std::size_t>(t)] == 42 + t);
  });
}

TEST_CASE("program: 4-bit and one-bit wmma") {
  run_program("wmma_bits", [](Session& s) {
    std::vector<std::uint32_t> a, b;
    for (std::uint32_t i = 0; i < 32; ++i) {
      a.push_back(i * 2654435761u);
      b.push_back(i * 40503u * 31337u + 77);
    }
    const auto fours = s.empty<int>(64), bits = s.empty<int>(64);
    s.launch({1}, {32}, s.put(a), s.put(b), fours, bits);
    const auto got4 = s.get<int>(fours, 64), got1 = s.get<int>(bits, 64);
    const auto four = [](std::uint32_t word, std::size_t i) {
      return static_cast<int>(word << (28 - 4 * i)) >> 28;
    };
    for (std::size_t m = 0; m < 8; ++m)
      for (std::size_t n = 0; n < 8; ++n) {
        int sum = 3, count = 0;
        for (std::size_t k = 0; k < 32; ++k)
          sum += four(a[4 * m + k / 8], k % 8) * four(b[4 * n + k / 8], k % 8);
        for (std::size_t k = 0; k < 4; ++k) count += std::popcount(a[4 * m + k] ^ b[4 * n + k]);
        CHECK(got4[8 * m + n] == sum);
        CHECK(got1[8 * n + m] == count);
      }
  });
}
