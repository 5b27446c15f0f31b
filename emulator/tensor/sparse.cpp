// Sparse matrix products: each stored element of A meets the row of B that its metadata name.
#include "emulator/tensor/sparse.hpp"

#include <bit>
#include <cstring>

#include "emulator/tensor/mma_elements.hpp"

namespace kiln::emulator {
namespace {

constexpr int kSparseRows = 16, kSparseColumns = 8, kSparseMaxK = 128;

/// 16-bit and 32-bit types: a metadata register holds 16 bits of row g and 16 of row g + 8. Narrower ones: 32 bits of
/// one of the two.
bool halves(MatrixType a) {
  return bit_width(a) >= 16;
}
int chunk_columns(MatrixType a) {
  return a == MatrixType::tf32 ? 2 : bit_width(a) == 4 ? 8 : 4;
}
/// Lanes of a quad that hold metadata: 1, 2 or 4.
int lanes_of_quad(MatrixType a, int k) {
  return 4 * (k / chunk_columns(a)) * 16 / 32 / 8;
}

bool type_exists(const MmaOp& op) {
  switch (op.a) {
    case MatrixType::f16:
      return op.b == op.a && (op.k == 16 || op.k == 32);
    case MatrixType::bf16:
      return op.b == op.a && (op.k == 16 || op.k == 32) && op.d == MatrixType::f32;
    case MatrixType::tf32:
      return op.b == op.a && (op.k == 8 || op.k == 16) && op.d == MatrixType::f32;
    case MatrixType::e4m3:
    case MatrixType::e5m2:
      return is_fp8(op.b) && op.k == 64;
    case MatrixType::s8:
    case MatrixType::u8:
      return is_integer(op.b) && bit_width(op.b) == 8 && (op.k == 32 || op.k == 64);
    case MatrixType::s4:
    case MatrixType::u4:
      return is_integer(op.b) && bit_width(op.b) == 4 && (op.k == 64 || op.k == 128);
    default:
      return false;
  }
}

/// The stored elements of A in a[16][k / 2], and B in b[k][8].
void spread(const MmaOp& op, const std::uint32_t* const* a, const std::uint32_t* const* b, float* a_matrix,
            float* b_matrix) {
  const int per = elements_per_register(op.a);
  const MmaRegisters n = *mma_sparse_registers(op);
  for (int j = 0; j < n.a; ++j)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < per; ++i) {
        const int row = lane / 4 + 8 * (j % 2), stored = 4 * per * (j / 2) + per * (lane % 4) + i;
        a_matrix[row * (op.k / 2) + stored] = element_as_float(op.a, a[j][lane], i);
      }
  for (int j = 0; j < n.b; ++j)
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < per; ++i)
        b_matrix[(4 * per * j + per * (lane % 4) + i) * kSparseColumns + lane / 4] =
            element_as_float(op.b, b[j][lane], i);
}

}  // namespace

std::uint32_t metadata_lanes(MatrixType a, int k, int selector) {
  const int lanes = lanes_of_quad(a, k);
  if (selector < 0 || selector >= 4 / lanes) return 0;
  const std::uint32_t quad = ((1u << lanes) - 1) << (selector * lanes);
  return quad * 0x11111111u;
}

SparseColumns sparse_columns(MatrixType a, int k, int selector, bool ordered, const std::uint32_t* metadata) {
  SparseColumns out;
  const int wide = chunk_columns(a), chunks = k / wide, first = selector * lanes_of_quad(a, k);
  for (int row = 0; row < kSparseRows; ++row)
    for (int q = 0; q < chunks; ++q) {
      const int member = halves(a) ? first + q / 4 : first + row / 8 + 2 * (q / 8);
      const int lane = 4 * (row % 8) + member, shift = halves(a) ? 16 * (row / 8) + 4 * (q % 4) : 4 * (q % 8);
      const std::uint32_t bits = metadata[lane] >> shift & 0xf, one = bits & 3, two = bits >> 2;
      const bool valid = a == MatrixType::tf32 ? bits == 0x4 || bits == 0xe
                         : ordered             ? one < two
                                               : one != two;
      if (!valid && !out.bad) out.bad = SparseColumns::Bad{lane, bits};
      std::uint8_t* const to = out.column[row];
      const int base = q * wide;
      const auto at = [&](std::uint32_t i) { return static_cast<std::uint8_t>(base + static_cast<int>(i)); };
      if (wide == 2) {
        to[q] = at(one >> 1);
      } else if (wide == 4) {
        to[2 * q] = at(one);
        to[2 * q + 1] = at(two);
      } else {
        for (std::uint32_t i = 0; i < 4; ++i)
          to[4 * q + static_cast<int>(i)] = at(2 * (i < 2 ? one : two) + i % 2);
      }
    }
  return out;
}

std::optional<MmaRegisters> mma_sparse_registers(const MmaOp& op) {
  const bool integer = is_integer(op.a);
  const bool sums = integer ? op.d == MatrixType::s32 : op.d == MatrixType::f32 || op.d == MatrixType::f16;
  if (op.m != kSparseRows || op.n != kSparseColumns || op.c != op.d || !sums || !type_exists(op) ||
      (op.satfinite && !integer))
    return std::nullopt;
  MmaRegisters n;
  n.a = kSparseRows * op.k / 2 * bit_width(op.a) / (32 * 32);
  n.b = kSparseColumns * op.k * bit_width(op.b) / (32 * 32);
  n.c = n.d = kSparseRows * kSparseColumns * bit_width(op.d) / (32 * 32);
  return n;
}

void mma_sparse(const MmaOp& op, const SparseColumns& columns, std::uint32_t* const* d,
                const std::uint32_t* const* a, const std::uint32_t* const* b, const std::uint32_t* const* c) {
  float a_matrix[kSparseRows * kSparseMaxK / 2] = {}, b_matrix[kSparseMaxK * kSparseColumns] = {};
  spread(op, a, b, a_matrix, b_matrix);
  const bool integer = op.d == MatrixType::s32, half = op.d == MatrixType::f16;
  std::uint32_t sums[4][32];
  for (int i = 0; i < 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      float sum = integer ? 0.f
                  : half  ? element_as_float(MatrixType::f16, c[i / 2][lane], i % 2)
                          : std::bit_cast<float>(c[i][lane]);
      for (int s = 0; s < op.k / 2; ++s)
        sum += a_matrix[row * (op.k / 2) + s] * b_matrix[columns.column[row][s] * kSparseColumns + column];
      sums[i][lane] = integer ? accumulate_s32(c[i][lane], static_cast<std::int64_t>(sum), op.satfinite)
                      : half  ? f32_to_f16(sum)
                              : std::bit_cast<std::uint32_t>(canonicalize(sum));
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int lane = 0; lane < 32; ++lane) {
      if (!half)
        d[i][lane] = sums[i][lane];
      else if (i % 2 == 0)
        d[i / 2][lane] = sums[i][lane] | sums[i + 1][lane] << 16;
    }
}

}  // namespace kiln::emulator
