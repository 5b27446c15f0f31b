// Programs for sm_100a as they are written by hand: products fed by tensor copies, with roles for warps. Their results are
// compared with sums in double.
#include <array>
#include <cmath>

#include <kiln/emulator/tensor_map.hpp>

#include "emulator/tensor/numeric.hpp"
#include "tests/emulator/programs/harness.hpp"

using namespace programs;
using namespace kiln::emulator;

namespace {

std::vector<std::uint16_t> bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float x : values) bits.push_back(f32_to_bf16(x));
  return bits;
}

/// Rows of `k` elements, boxes of 128 bytes by `rows`.
TensorMapBytes map_of(std::uint64_t address, TensorType type, std::uint32_t rows, std::uint32_t k,
                      std::uint32_t box_rows) {
  const std::uint32_t size = type == TensorType::u8 ? 1 : 2;
  TensorMapRequest map;
  map.type = type;
  map.rank = 2;
  map.address = address;
  map.dims = {k, rows};
  map.strides = {std::uint64_t{k} * size};
  map.box = {128 / size, box_rows};
  map.swizzle = Swizzle::b128;
  return encode_tensor_map(map);
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  std::vector<float> c(static_cast<std::size_t>(m * n));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int x = 0; x < k; ++x)
        sum += static_cast<double>(a[static_cast<std::size_t>(i * k + x)]) *
               b[static_cast<std::size_t>(j * k + x)];
      c[static_cast<std::size_t>(i * n + j)] = static_cast<float>(sum);
    }
  return c;
}

}  // namespace

TEST_CASE("program: a persistent product by cluster launch control") {
  run_program("tcgen05_persistent", [](Session& s) {
    // 6 tiles of 128 x 64 on 2 multiprocessors, 4 steps through a ring of 3.
    const int m = 384, n = 128, k = 256;
    const auto a = eighths(m * k, 1), b = eighths(n * k, 2);
    const auto c = s.empty<float>(m * n);
    s.num_sms = 2;
    s.launch({2, 3}, {192}, map_of(s.put(bf16(a)), TensorType::bf16, m, k, 128),
             map_of(s.put(bf16(b)), TensorType::bf16, n, k, 64), c, n, k);
    CHECK(s.get<float>(c, m * n) == product(a, b, m, n, k));
  });
}

TEST_CASE("program: a product by pairs of CTAs") {
  run_program("tcgen05_pair", [](Session& s) {
    const int m = 512, n = 128, k = 320;
    const auto a = eighths(m * k, 1), b = eighths(n * k, 2);
    const auto c = s.empty<float>(m * n);
    s.cluster = {2, 1, 1};
    s.launch({2, 2}, {192}, map_of(s.put(bf16(a)), TensorType::bf16, m, k, 128),
             map_of(s.put(bf16(b)), TensorType::bf16, n, k, 64), c, n, k);
    CHECK(s.get<float>(c, m * n) == product(a, b, m, n, k));
  });
}

TEST_CASE("program: a block-scaled product") {
  run_program("tcgen05_scaled", [](Session& s) {
    const int m = 128, n = 128, k = 512, steps = k / 128;
    // Small whole numbers and factors of 1/4 to 2: sums are exact.
    std::vector<float> a, b;
    const auto codes = [](std::size_t count, std::uint32_t seed, std::vector<float>& values) {
      static constexpr std::uint8_t kCodes[] = {0, 0x38, 0xb8, 0x40, 0xc0, 0x44};  // 0, 1, -1, 2, -2, 3
      std::vector<std::uint8_t> bytes;
      for (const int i : integers(count, 6, seed)) {
        bytes.push_back(kCodes[i]);
        values.push_back(e4m3_to_f32(kCodes[i]));
      }
      return bytes;
    };
    const auto a_codes = codes(m * k, 1, a), b_codes = codes(n * k, 2, b);
    // Blocks: row r of a tile has its four factors at 16 (r % 32) + 4 (r / 32).
    const auto factors = [&](std::vector<float>& values, int rows, int tile, std::uint32_t seed) {
      const auto picks = integers(static_cast<std::size_t>(rows * k / 32), 4, seed);
      std::vector<std::uint8_t> blocks(static_cast<std::size_t>(rows / tile * steps * 512), 127);
      for (int r = 0; r < rows; ++r)
        for (int f = 0; f < k / 32; ++f) {
          const int pick = picks[static_cast<std::size_t>(r * (k / 32) + f)], in_tile = r % tile;
          blocks[static_cast<std::size_t>((r / tile * steps + f / 4) * 512 + in_tile % 32 * 16 +
                                          in_tile / 32 * 4 + f % 4)] = static_cast<std::uint8_t>(125 + pick);
          for (int x = 32 * f; x < 32 * f + 32; ++x)
            values[static_cast<std::size_t>(r * k + x)] *= std::ldexp(1.0F, pick - 2);
        }
      return blocks;
    };
    const auto sa = factors(a, m, 128, 3), sb = factors(b, n, 64, 4);
    const auto c = s.empty<float>(m * n);
    s.launch({2, 1}, {192}, map_of(s.put(a_codes), TensorType::u8, m, k, 128),
             map_of(s.put(b_codes), TensorType::u8, n, k, 64), s.put(sa), s.put(sb), c, n, k);
    CHECK(s.get<float>(c, m * n) == product(a, b, m, n, k));
  });
}

TEST_CASE("program: a product of gathered rows, A in tensor memory") {
  run_program("tcgen05_gather", [](Session& s) {
    const int m = 128, n = 64, k = 64, all = 200;
    const auto a = eighths(m * k, 1), b = eighths(all * k, 2);
    auto rows = integers(n, all, 3);
    rows[5] = -1, rows[40] = all;  // none: zeros
    std::vector<float> picked;
    for (const int r : rows)
      for (int x = 0; x < k; ++x)
        picked.push_back(r < 0 || r >= all ? 0.0F : b[static_cast<std::size_t>(r * k + x)]);
    const auto c = s.empty<float>(m * n);
    s.launch({1}, {128}, s.put(bf16(a)), map_of(s.put(bf16(b)), TensorType::bf16, all, k, 1), s.put(rows), c);
    CHECK(s.get<float>(c, m * n) == product(a, picked, m, n, k));
  });
}
