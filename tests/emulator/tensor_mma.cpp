// Warp matrix instructions against naive references whose fragment maps are written out per shape, as PTX
// tabulates them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "emulator/tensor/mma.hpp"
#include "emulator/tensor/numeric.hpp"
#include "tests/emulator/tensor_support.hpp"

namespace {

using namespace emulator_test;

/// Registers of one fragment with the pointers that the functions take.
struct Fragment {
  explicit Fragment(int registers) : words(static_cast<std::size_t>(registers)) {
    for (auto& word : words) {
      word.fill(0);
      pointers.push_back(word.data());
    }
  }
  std::uint32_t* const* data() const { return pointers.data(); }
  const std::uint32_t* const* view() const { return pointers.data(); }
  std::vector<std::array<std::uint32_t, 32>> words;
  std::vector<std::uint32_t*> pointers;
};

/// A small random integer that `type` holds exactly, and its bits.
struct Sample {
  double value;
  std::uint64_t bits;
};
Sample sample(MatrixType type, std::mt19937& random) {
  const int small = static_cast<int>(random() % 9) - 4;
  switch (type) {
    case MatrixType::s8: {
      const int v = static_cast<int>(random() % 256) - 128;
      return {static_cast<double>(v), static_cast<std::uint64_t>(v) & 0xff};
    }
    case MatrixType::u8: {
      const int v = static_cast<int>(random() % 256);
      return {static_cast<double>(v), static_cast<std::uint64_t>(v)};
    }
    case MatrixType::s4: {
      const int v = static_cast<int>(random() % 16) - 8;
      return {static_cast<double>(v), static_cast<std::uint64_t>(v) & 0xf};
    }
    case MatrixType::u4: {
      const int v = static_cast<int>(random() % 16);
      return {static_cast<double>(v), static_cast<std::uint64_t>(v)};
    }
    case MatrixType::s32:
      return {static_cast<double>(small), static_cast<std::uint32_t>(small)};
    case MatrixType::f64:
      return {static_cast<double>(small), std::bit_cast<std::uint64_t>(static_cast<double>(small))};
    default:
      return {static_cast<double>(small), from_double(format_of(type), small)};
  }
}

void set_element(Fragment& fragment, MatrixType type, int lane, int index, std::uint64_t bits) {
  const int width = bit_width(type);
  if (width == 64) {
    fragment.words[static_cast<std::size_t>(2 * index)][static_cast<std::size_t>(lane)] =
        static_cast<std::uint32_t>(bits);
    fragment.words[static_cast<std::size_t>(2 * index + 1)][static_cast<std::size_t>(lane)] =
        static_cast<std::uint32_t>(bits >> 32);
    return;
  }
  const int per = 32 / width;
  fragment.words[static_cast<std::size_t>(index / per)][static_cast<std::size_t>(lane)] |=
      static_cast<std::uint32_t>(bits << (width * (index % per)));
}

double get_element(const Fragment& fragment, MatrixType type, int lane, int index) {
  const auto word = [&](int i) {
    return fragment.words[static_cast<std::size_t>(i)][static_cast<std::size_t>(lane)];
  };
  switch (type) {
    case MatrixType::f16:
      return to_double(FloatFormat::f16, (word(index / 2) >> (16 * (index % 2))) & 0xffff);
    case MatrixType::s32:
      return static_cast<std::int32_t>(word(index));
    case MatrixType::f64:
      return std::bit_cast<double>(static_cast<std::uint64_t>(word(2 * index + 1)) << 32 | word(2 * index));
    default:
      return std::bit_cast<float>(word(index));
  }
}

/// The fragment tables of the PTX ISA, section "Matrix Fragments for mma", one entry per element index.
MatrixPlace ptx_a(int m, int k, int width, int lane, int i) {
  const int group = lane >> 2, t = lane & 3;
  if (width == 64) {  // m8n8k4, m16n8k4, k8, k16
    if (m == 8) return {group, t};
    return {i % 2 == 0 ? group : group + 8, (i / 2) * 4 + t};
  }
  if (width == 32) {  // m16n8k4, m16n8k8
    return {i == 0 || i == 2 ? group : group + 8, k == 4 || i < 2 ? t : t + 4};
  }
  if (width == 16) {
    if (k == 8) return {i < 2 ? group : group + 8, t * 2 + (i & 1)};
    return {i < 2 || (i >= 4 && i < 6) ? group : group + 8, i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8};
  }
  if (width == 8) {
    if (m == 8) return {group, t * 4 + i};
    if (k == 16) return {i < 4 ? group : group + 8, t * 4 + (i & 3)};
    return {i < 4 || (i >= 8 && i < 12) ? group : group + 8, i < 8 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16};
  }
  if (m == 8) return {group, t * 8 + i};
  if (k == 32) return {i < 8 ? group : group + 8, t * 8 + (i & 7)};
  return {i < 8 || (i >= 16 && i < 24) ? group : group + 8, i < 16 ? t * 8 + (i & 7) : t * 8 + (i & 7) + 32};
}
MatrixPlace ptx_b(int width, int lane, int i) {
  const int group = lane >> 2, t = lane & 3;
  switch (width) {
    case 64:
    case 32:
      return {t + 4 * i, group};
    case 16:
      return {i < 2 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8, group};
    case 8:
      return {i < 4 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16, group};
    default:
      return {i < 8 ? t * 8 + (i & 7) : t * 8 + (i & 7) + 32, group};
  }
}
MatrixPlace ptx_c(int lane, int i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, (lane & 3) * 2 + (i & 1)};
}

std::vector<MmaOp> all_forms() {
  std::vector<MmaOp> forms;
  const auto add = [&](int m, int k, MatrixType a, MatrixType b, MatrixType c) {
    forms.push_back({m, 8, k, a, b, c, c});
  };
  using T = MatrixType;
  for (const int k : {8, 16}) {
    add(16, k, T::f16, T::f16, T::f32);
    add(16, k, T::f16, T::f16, T::f16);
    add(16, k, T::bf16, T::bf16, T::f32);
  }
  for (const int k : {4, 8}) add(16, k, T::tf32, T::tf32, T::f32);
  for (const T a : {T::e4m3, T::e5m2}) {
    for (const T b : {T::e4m3, T::e5m2}) {
      for (const int k : {16, 32}) {
        add(16, k, a, b, T::f32);
        add(16, k, a, b, T::f16);
      }
    }
  }
  for (const T a : {T::s8, T::u8}) {
    for (const T b : {T::s8, T::u8}) {
      add(8, 16, a, b, T::s32);
      add(16, 16, a, b, T::s32);
      add(16, 32, a, b, T::s32);
    }
  }
  for (const T a : {T::s4, T::u4}) {
    for (const T b : {T::s4, T::u4}) {
      add(8, 32, a, b, T::s32);
      add(16, 32, a, b, T::s32);
      add(16, 64, a, b, T::s32);
    }
  }
  add(8, 4, T::f64, T::f64, T::f64);
  for (const int k : {4, 8, 16}) add(16, k, T::f64, T::f64, T::f64);
  return forms;
}

}  // namespace

TEST_CASE("mma.sync: every form against a naive product through PTX's fragment tables") {
  std::mt19937 random(21);
  for (const MmaOp& op : all_forms()) {
    const std::string form = fmt::format("m{}k{} types {},{},{}", op.m, op.k, static_cast<int>(op.a),
                                         static_cast<int>(op.b), static_cast<int>(op.c));
    CAPTURE(form);
    const auto registers = mma_registers(op);
    REQUIRE(registers);
    Fragment a(registers->a), b(registers->b), c(registers->c), d(registers->d);
    double a_matrix[16][64], b_matrix[64][8], c_matrix[16][8];
    const int width = bit_width(op.a);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < op.m * op.k / 32; ++i) {
        const Sample s = sample(op.a, random);
        const MatrixPlace p = ptx_a(op.m, op.k, width, lane, i);
        a_matrix[p.row][p.column] = s.value;
        set_element(a, op.a, lane, i, s.bits);
        const FragmentPlace place = mma_place_a(op, lane, i);
        CHECK((place.row == p.row && place.column == p.column));
      }
      for (int i = 0; i < op.k * 8 / 32; ++i) {
        const Sample s = sample(op.b, random);
        const MatrixPlace p = ptx_b(width, lane, i);
        b_matrix[p.row][p.column] = s.value;
        set_element(b, op.b, lane, i, s.bits);
        const FragmentPlace place = mma_place_b(op, lane, i);
        CHECK((place.row == p.row && place.column == p.column));
      }
      for (int i = 0; i < op.m * 8 / 32; ++i) {
        const Sample s = sample(op.c, random);
        c_matrix[ptx_c(lane, i).row][ptx_c(lane, i).column] = s.value;
        set_element(c, op.c, lane, i, s.bits);
      }
    }
    mma_sync(op, d.data(), a.view(), b.view(), c.view());
    mma_sync(op, c.data(), a.view(), b.view(), c.view());  // in place
    int failures = 0;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < op.m * 8 / 32; ++i) {
        const MatrixPlace p = ptx_c(lane, i);
        double want = c_matrix[p.row][p.column];
        for (int k = 0; k < op.k; ++k) want += a_matrix[p.row][k] * b_matrix[k][p.column];
        failures += get_element(d, op.d, lane, i) != want;
        failures += get_element(c, op.d, lane, i) != want;
      }
    }
    CHECK(failures == 0);
  }
}

TEST_CASE("mma.sync: forms that PTX does not have are refused") {
  using T = MatrixType;
  CHECK(!mma_registers({16, 8, 32, T::f16, T::f16, T::f32, T::f32}));
  CHECK(!mma_registers({16, 8, 16, T::f16, T::bf16, T::f32, T::f32}));
  CHECK(!mma_registers({16, 8, 16, T::bf16, T::bf16, T::f16, T::f16}));
  CHECK(!mma_registers({8, 8, 4, T::f16, T::f16, T::f32, T::f32}));
  CHECK(!mma_registers({16, 16, 16, T::f16, T::f16, T::f32, T::f32}));
  CHECK(!mma_registers({16, 8, 32, T::s8, T::s4, T::s32, T::s32}));
  CHECK(!mma_registers({16, 8, 16, T::f16, T::f16, T::f32, T::f32, true}));
  const auto registers = mma_registers({16, 8, 16, T::bf16, T::bf16, T::f32, T::f32});
  REQUIRE(registers);
  CHECK((registers->a == 4 && registers->b == 2 && registers->c == 4 && registers->d == 4));
}

TEST_CASE("mma.sync s8: sums clamp only under satfinite") {
  using T = MatrixType;
  MmaOp op{16, 8, 32, T::u8, T::u8, T::s32, T::s32};
  Fragment a(4), b(2), c(4), d(4);
  for (auto* fragment : {&a, &b}) {
    for (auto& word : fragment->words) word.fill(0xffffffffu);
  }
  for (auto& word : c.words) word.fill(0x7fffffffu);
  mma_sync(op, d.data(), a.view(), b.view(), c.view());
  CHECK(d.words[3][31] == 0x7fffffffu + 255u * 255u * 32u);
  op.satfinite = true;
  mma_sync(op, d.data(), a.view(), b.view(), c.view());
  CHECK(d.words[0][0] == 0x7fffffffu);
}

TEST_CASE("mma.sync b1: population counts") {
  std::mt19937 random(22);
  for (const bool use_and : {false, true}) {
    for (const MmaOp base : {MmaOp{8, 8, 128}, MmaOp{16, 8, 128}, MmaOp{16, 8, 256}}) {
      MmaOp op = base;
      op.a = op.b = MatrixType::b1;
      op.c = op.d = MatrixType::s32;
      op.b1_and = use_and;
      const auto registers = mma_registers(op);
      REQUIRE(registers);
      Fragment a(registers->a), b(registers->b), c(registers->c), d(registers->d);
      std::vector<std::vector<int>> rows(16, std::vector<int>(256)), columns(8, std::vector<int>(256));
      for (int lane = 0; lane < 32; ++lane) {
        for (int j = 0; j < registers->a; ++j) {
          const auto word = static_cast<std::uint32_t>(random());
          a.words[static_cast<std::size_t>(j)][static_cast<std::size_t>(lane)] = word;
          const int row = lane / 4 + (op.m == 16 && j % 2 ? 8 : 0),
                    base_k = 128 * (op.m == 16 ? j / 2 : j) + 32 * (lane % 4);
          for (int bit = 0; bit < 32; ++bit)
            rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(base_k + bit)] = (word >> bit) & 1;
        }
        for (int j = 0; j < registers->b; ++j) {
          const auto word = static_cast<std::uint32_t>(random());
          b.words[static_cast<std::size_t>(j)][static_cast<std::size_t>(lane)] = word;
          for (int bit = 0; bit < 32; ++bit) {
            columns[static_cast<std::size_t>(lane / 4)]
                   [static_cast<std::size_t>(128 * j + 32 * (lane % 4) + bit)] = (word >> bit) & 1;
          }
        }
      }
      mma_sync(op, d.data(), a.view(), b.view(), c.view());
      int failures = 0;
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < op.m / 4; ++i) {
          const MatrixPlace p = ptx_c(lane, i);
          int want = 0;
          for (int k = 0; k < op.k; ++k) {
            const int x = rows[static_cast<std::size_t>(p.row)][static_cast<std::size_t>(k)];
            const int y = columns[static_cast<std::size_t>(p.column)][static_cast<std::size_t>(k)];
            want += use_and ? x & y : x ^ y;
          }
          failures += get_element(d, MatrixType::s32, lane, i) != want;
        }
      }
      CHECK(failures == 0);
    }
  }
}

TEST_CASE("mma.sync: special values and f16 accumulators") {
  using T = MatrixType;
  const MmaOp op{16, 8, 16, T::f16, T::f16, T::f16, T::f16};
  Fragment a(4), b(2), c(2), d(2);
  a.words[0][0] = 0x7c00;  // infinity at row 0, k 0
  b.words[0][0] = 0x3c00;  // 1 at k 0, column 0; zero in the others
  c.words[0][4] = 0x3c007bff;
  mma_sync(op, d.data(), a.view(), b.view(), c.view());
  CHECK((d.words[0][0] & 0xffff) == 0x7c00);  // inf * 1
  CHECK((d.words[0][0] >> 16) == 0x7fff);     // inf * 0
  CHECK(d.words[0][4] == 0x3c007bff);
}

TEST_CASE("ldmatrix, stmatrix and movmatrix place elements as PTX documents") {
  std::mt19937 random(23);
  for (const int count : {1, 2, 4}) {
    std::vector<std::uint16_t> memory(static_cast<std::size_t>(count) * 64);
    for (auto& element : memory) element = static_cast<std::uint16_t>(random());
    std::vector<const std::uint8_t*> rows;
    for (int i = 0; i < 8 * count; ++i)
      rows.push_back(reinterpret_cast<const std::uint8_t*>(&memory[static_cast<std::size_t>(8 * i)]));
    for (const bool trans : {false, true}) {
      Fragment out(count);
      ldmatrix(count, trans, rows.data(), out.data());
      for (int matrix = 0; matrix < count; ++matrix) {
        for (int lane = 0; lane < 32; ++lane) {
          const auto at = [&](int row, int column) {
            return static_cast<std::uint32_t>(
                memory[static_cast<std::size_t>(64 * matrix + 8 * row + column)]);
          };
          const int outer = lane / 4, inner = 2 * (lane % 4);
          const std::uint32_t want = trans ? at(inner, outer) | at(inner + 1, outer) << 16
                                           : at(outer, inner) | at(outer, inner + 1) << 16;
          REQUIRE(out.words[static_cast<std::size_t>(matrix)][static_cast<std::size_t>(lane)] == want);
        }
      }
      std::vector<std::uint16_t> copy(memory.size());
      std::vector<std::uint8_t*> copy_rows;
      for (int i = 0; i < 8 * count; ++i)
        copy_rows.push_back(reinterpret_cast<std::uint8_t*>(&copy[static_cast<std::size_t>(8 * i)]));
      stmatrix(count, trans, out.view(), copy_rows.data());
      CHECK(copy == memory);
      if (trans && count == 1) {
        Fragment plain(1), moved(1);
        ldmatrix(1, false, rows.data(), plain.data());
        movmatrix_trans(plain.words[0].data(), moved.words[0].data());
        CHECK(moved.words[0] == out.words[0]);
      }
    }
  }
}
