// mma.sync: fragments are spread into small dense matrices, multiplied, and gathered back.
//
// All fragment maps follow one rule. With gq = lane / 4, t = lane % 4 and e elements in a 32-bit register
// (f64: e = 1):
//   A, register j:  row gq + 8 * (j % 2)   k = 4e * (j / 2) + e * t + 0..e-1      (m = 8: row gq, k = 4e * j
//   + ...) B, register j:  k = 4e * j + e * t + 0..e-1   column gq C/D, element i: row gq + 8 * (i / 2)
//   column 2 * t + i % 2
#include "emulator/tensor/mma.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "emulator/tensor/halves.hpp"
#include "emulator/tensor/mma_elements.hpp"
#include "emulator/tensor/multiversion.hpp"
#include "emulator/tensor/wgmma_kernel.hpp"

namespace kiln::emulator {

namespace {

constexpr int kMaxM = 16, kN = 8, kMaxK = 64;

/// Whether PTX has the shape for these operand types, ignoring the accumulator.
bool shape_exists(const MmaOp& op) {
  const auto one_of = [&](std::initializer_list<int> ks) {
    for (const int k : ks) {
      if (op.k == k) return true;
    }
    return false;
  };
  if (op.n != 8 || (op.m != 8 && op.m != 16)) return false;
  const bool tall = op.m == 16;
  switch (op.a) {
    case MatrixType::f16:
    case MatrixType::bf16:
      return tall && one_of({8, 16});
    case MatrixType::tf32:
      return tall && one_of({4, 8});
    case MatrixType::e4m3:
    case MatrixType::e5m2:
      return tall && one_of({16, 32});
    case MatrixType::s8:
    case MatrixType::u8:
      return tall ? one_of({16, 32}) : one_of({16});
    case MatrixType::s4:
    case MatrixType::u4:
      return tall ? one_of({32, 64}) : one_of({32});
    case MatrixType::b1:
      return tall ? one_of({128, 256}) : one_of({128});
    case MatrixType::f64:
      return tall ? one_of({4, 8, 16}) : one_of({4});
    default:
      return false;
  }
}

bool types_match(const MmaOp& op) {
  if (op.c != op.d) return false;
  if (op.satfinite && !is_integer(op.a)) return false;
  switch (op.a) {
    case MatrixType::f16:
      return op.b == op.a && (op.d == MatrixType::f16 || op.d == MatrixType::f32);
    case MatrixType::bf16:
    case MatrixType::tf32:
      return op.b == op.a && op.d == MatrixType::f32;
    case MatrixType::e4m3:
    case MatrixType::e5m2:
      return is_fp8(op.b) && (op.d == MatrixType::f16 || op.d == MatrixType::f32);
    case MatrixType::f64:
      return op.b == op.a && op.d == MatrixType::f64;
    case MatrixType::b1:
      return op.b == op.a && op.d == MatrixType::s32;
    default:
      return is_integer(op.b) && bit_width(op.a) == bit_width(op.b) && op.d == MatrixType::s32;
  }
}

/// c[m][8] += a[m][k] * b[k][8] in ascending k.
KILN_MULTIVERSION void multiply_accumulate(int m, int k, const float* a, const float* b, float* c) {
  for (int row = 0; row < m; ++row) {
    float sums[kN];
    for (int j = 0; j < kN; ++j) sums[j] = c[row * kN + j];
    for (int i = 0; i < k; ++i) {
      const float factor = a[row * k + i];
      for (int j = 0; j < kN; ++j) sums[j] += factor * b[i * kN + j];
    }
    for (int j = 0; j < kN; ++j) c[row * kN + j] = sums[j];
  }
}

/// Spreads A into a[m][k] and B into b[k][8].
void spread_operands(const MmaOp& op, const std::uint32_t* const* a, const std::uint32_t* const* b,
                     float* a_matrix, float* b_matrix) {
  const MmaRegisters registers = *mma_registers(op);
  const int per = elements_per_register(op.a);
  const int row_groups = op.m / 8;
  for (int j = 0; j < registers.a; ++j) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4 + 8 * (j % row_groups);
      const int k = 4 * per * (j / row_groups) + per * (lane % 4);
      for (int i = 0; i < per; ++i) a_matrix[row * op.k + k + i] = element_as_float(op.a, a[j][lane], i);
    }
  }
  for (int j = 0; j < registers.b; ++j) {
    for (int lane = 0; lane < 32; ++lane) {
      const int k = 4 * per * j + per * (lane % 4);
      for (int i = 0; i < per; ++i) b_matrix[(k + i) * kN + lane / 4] = element_as_float(op.b, b[j][lane], i);
    }
  }
}

/// f16 and bf16 with f32 sums. A register of A holds 8 rows, one of B 8 columns, of 8 elements each; the accumulators
/// are two blocks of 8 x 8 (see AccumulatorBlock).
void mma_halves(const MmaOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
                const std::uint32_t* const* b, const std::uint32_t* const* c) {
  alignas(64) float a_matrix[kMaxM * 16], b_matrix[16 * kN];
  alignas(64) std::uint32_t sums[4][32];
  const bool bf16 = op.a == MatrixType::bf16;
  for (int j = 0; j < op.k / 4; ++j) {
    std::uint16_t elements[64];
    std::memcpy(elements, a[j], sizeof elements);
    widen_halves(bf16, elements, 8, a_matrix + 8 * (j % 2) * op.k + 8 * (j / 2), op.k);
  }
  static constexpr int kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (int j = 0; j < op.k / 8; ++j) {
    const std::uint8_t* columns[8];
    for (int i = 0; i < 8; ++i) columns[i] = reinterpret_cast<const std::uint8_t*>(b[j]) + 16 * kOrder[i];
    std::uint16_t elements[64];
    transpose_halves(columns, elements);
    widen_halves(bf16, elements, 8, b_matrix + 64 * j, 8);
  }
  for (int i = 0; i < 4; ++i) std::memcpy(sums[i], c[i], sizeof sums[i]);  // D may name C's in another order
  for (int half = 0; half < 2; ++half)
    multiply_block({sums[2 * half], sums[2 * half + 1]}, a_matrix + 8 * half * op.k, b_matrix, op.k, true);
  for (int i = 0; i < 4; ++i) std::memcpy(d[i], sums[i], sizeof sums[i]);
}

void mma_float(const MmaOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
               const std::uint32_t* const* b, const std::uint32_t* const* c) {
  alignas(64) float a_matrix[kMaxM * kMaxK], b_matrix[kMaxK * kN], sums[kMaxM * kN] = {};
  spread_operands(op, a, b, a_matrix, b_matrix);
  const bool integer = op.d == MatrixType::s32, half = op.d == MatrixType::f16;
  const int elements = op.m / 4;  // of C and D per lane
  const auto slot = [](int lane, int i) { return (lane / 4 + 8 * (i / 2)) * kN + 2 * (lane % 4) + i % 2; };
  for (int i = 0; !integer && i < elements; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      sums[slot(lane, i)] =
          half ? element_as_float(MatrixType::f16, c[i / 2][lane], i % 2) : std::bit_cast<float>(c[i][lane]);
    }
  }
  std::uint32_t integers[4][32];  // a copy: D may name C's registers in another order
  for (int i = 0; integer && i < elements; ++i) std::memcpy(integers[i], c[i], sizeof integers[i]);
  multiply_accumulate(op.m, op.k, a_matrix, b_matrix, sums);
  for (int i = 0; i < elements; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const float sum = sums[slot(lane, i)];
      if (integer) {
        d[i][lane] = accumulate_s32(integers[i][lane], static_cast<std::int64_t>(sum), op.satfinite);
      } else if (half) {
        const std::uint32_t bits = f32_to_f16(sum);
        d[i / 2][lane] = i % 2 == 0 ? bits : (d[i / 2][lane] & 0xffffu) | bits << 16;
      } else {
        d[i][lane] = std::bit_cast<std::uint32_t>(canonicalize(sum));
      }
    }
  }
}

void mma_b1(const MmaOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
            const std::uint32_t* const* b, const std::uint32_t* const* c) {
  const int row_groups = op.m / 8, words = op.k / 128;
  std::uint32_t result[4][32];
  for (int i = 0; i < op.m / 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const int gq = lane / 4, column = 2 * (lane % 4) + i % 2;
      std::int64_t count = 0;
      for (int word = 0; word < words; ++word) {
        for (int t = 0; t < 4; ++t) {
          const std::uint32_t x = a[word * row_groups + i / 2][4 * gq + t], y = b[word][4 * column + t];
          count += std::popcount(op.b1_and ? x & y : x ^ y);
        }
      }
      result[i][lane] = accumulate_s32(c[i][lane], count, false);
    }
  }
  for (int i = 0; i < op.m / 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) d[i][lane] = result[i][lane];
  }
}

double f64_at(const std::uint32_t* const* registers, int element, int lane) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(registers[2 * element + 1][lane]) << 32 |
                               registers[2 * element][lane]);
}

void mma_f64(const MmaOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
             const std::uint32_t* const* b, const std::uint32_t* const* c) {
  const int row_groups = op.m / 8;
  double result[4][32];
  for (int i = 0; i < op.m / 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const int gq = lane / 4, column = 2 * (lane % 4) + i % 2;
      double sum = f64_at(c, i, lane);
      for (int k = 0; k < op.k; ++k) {
        sum = std::fma(f64_at(a, (k / 4) * row_groups + i / 2, 4 * gq + k % 4),
                       f64_at(b, k / 4, 4 * column + k % 4), sum);
      }
      result[i][lane] = sum;
    }
  }
  for (int i = 0; i < op.m / 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint64_t bits = std::bit_cast<std::uint64_t>(result[i][lane]);
      d[2 * i][lane] = static_cast<std::uint32_t>(bits);
      d[2 * i + 1][lane] = static_cast<std::uint32_t>(bits >> 32);
    }
  }
}

}  // namespace

int bit_width(MatrixType type) {
  switch (type) {
    case MatrixType::b1:
      return 1;
    case MatrixType::s4:
    case MatrixType::u4:
      return 4;
    case MatrixType::e4m3:
    case MatrixType::e5m2:
    case MatrixType::s8:
    case MatrixType::u8:
      return 8;
    case MatrixType::f16:
    case MatrixType::bf16:
      return 16;
    case MatrixType::tf32:
    case MatrixType::f32:
    case MatrixType::s32:
      return 32;
    case MatrixType::f64:
      return 64;
  }
  return 0;
}

std::optional<MmaRegisters> mma_registers(const MmaOp& op) {
  if (!shape_exists(op) || !types_match(op)) return std::nullopt;
  MmaRegisters registers;
  registers.a = op.m * op.k * bit_width(op.a) / (32 * 32);
  registers.b = op.n * op.k * bit_width(op.b) / (32 * 32);
  registers.c = registers.d = op.m * op.n * bit_width(op.d) / (32 * 32);
  return registers;
}

void mma_sync(const MmaOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
              const std::uint32_t* const* b, const std::uint32_t* const* c) {
  if (op.a == MatrixType::f64) return mma_f64(op, d, a, b, c);
  if (op.a == MatrixType::b1) return mma_b1(op, d, a, b, c);
  const bool halves = op.a == MatrixType::f16 || op.a == MatrixType::bf16;
  if (halves && op.d == MatrixType::f32 && op.m == 16) return mma_halves(op, d, a, b, c);
  mma_float(op, d, a, b, c);
}

FragmentPlace mma_place_a(const MmaOp& op, int lane, int index) {
  const int per = elements_per_register(op.a), j = index / per, row_groups = op.m / 8;
  return {lane / 4 + 8 * (j % row_groups), 4 * per * (j / row_groups) + per * (lane % 4) + index % per};
}

FragmentPlace mma_place_b(const MmaOp& op, int lane, int index) {
  const int per = elements_per_register(op.b), j = index / per;
  return {4 * per * j + per * (lane % 4) + index % per, lane / 4};
}

FragmentPlace mma_place_d(const MmaOp&, int lane, int index) {
  return {lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2};
}

}  // namespace kiln::emulator
