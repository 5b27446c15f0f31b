// ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of b16 between rows of 16 bytes and registers.
#include <cstring>

#include "emulator/tensor/mma.hpp"

namespace kiln::emulator {

namespace {

/// Element (row, column) of a matrix as registers hold it: register of lane 4 * row + column / 2, half column
/// % 2.
struct Half {
  int lane, shift;
};
Half place(int row, int column, bool trans) {
  const int r = trans ? column : row, c = trans ? row : column;
  return {4 * r + c / 2, 16 * (c % 2)};
}

}  // namespace

void ldmatrix(int count, bool trans, const std::uint8_t* const* rows, std::uint32_t* const* out) {
  for (int matrix = 0; matrix < count; ++matrix) {
    std::uint32_t result[32] = {};
    for (int row = 0; row < 8; ++row) {
      std::uint16_t elements[8];
      std::memcpy(elements, rows[8 * matrix + row], sizeof elements);
      for (int column = 0; column < 8; ++column) {
        const Half half = place(row, column, trans);
        result[half.lane] |= static_cast<std::uint32_t>(elements[column]) << half.shift;
      }
    }
    std::memcpy(out[matrix], result, sizeof result);
  }
}

void stmatrix(int count, bool trans, const std::uint32_t* const* in, std::uint8_t* const* rows) {
  for (int matrix = 0; matrix < count; ++matrix) {
    for (int row = 0; row < 8; ++row) {
      std::uint16_t elements[8];
      for (int column = 0; column < 8; ++column) {
        const Half half = place(row, column, trans);
        elements[column] = static_cast<std::uint16_t>(in[matrix][half.lane] >> half.shift);
      }
      std::memcpy(rows[8 * matrix + row], elements, sizeof elements);
    }
  }
}

void movmatrix_trans(const std::uint32_t* in, std::uint32_t* out) {
  std::uint32_t result[32] = {};
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) {
      const Half from = place(row, column, false), to = place(row, column, true);
      result[to.lane] |= ((in[from.lane] >> from.shift) & 0xffffu) << to.shift;
    }
  }
  std::memcpy(out, result, sizeof result);
}

}  // namespace kiln::emulator
