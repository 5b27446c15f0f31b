// ldmatrix, stmatrix, movmatrix: matrices between rows of 16 bytes and registers.
#include <cstring>

#include "emulator/tensor/halves.hpp"
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
    // A row of eight elements is what four lanes hold, so registers are rows one after another.
    std::uint16_t result[64];
    if (trans)
      transpose_halves(rows + 8 * matrix, result);
    else
      for (int row = 0; row < 8; ++row) std::memcpy(result + 8 * row, rows[8 * matrix + row], 16);
    std::memcpy(out[matrix], result, sizeof result);
  }
}

void stmatrix(int count, bool trans, const std::uint32_t* const* in, std::uint8_t* const* rows) {
  for (int matrix = 0; matrix < count; ++matrix) {
    std::uint16_t elements[64];
    std::memcpy(elements, in[matrix], sizeof elements);
    if (trans) {
      const std::uint8_t* lines[8];
      std::uint8_t bytes[sizeof elements];
      std::memcpy(bytes, elements, sizeof bytes);
      for (int row = 0; row < 8; ++row) lines[row] = bytes + 16 * row;
      transpose_halves(lines, elements);
    }
    for (int row = 0; row < 8; ++row) std::memcpy(rows[8 * matrix + row], elements + 8 * row, 16);
  }
}

void ldmatrix_bytes(int matrices, const std::uint8_t* const* rows, std::uint32_t* const* out) {
  for (int i = 0; i < 2 * matrices; ++i)
    for (int lane = 0; lane < 32; ++lane) {
      std::uint32_t word = 0;
      for (int b = 0; b < 4; ++b) {
        const int row = 16 * (i / 2) + 4 * (lane % 4) + 2 * (i % 2) + b % 2;
        word |= std::uint32_t{rows[row][lane / 4 + 8 * (b / 2)]} << 8 * b;
      }
      out[i][lane] = word;
    }
}

void stmatrix_bytes(int count, const std::uint32_t* const* in, std::uint8_t* const* rows) {
  for (int i = 0; i < count; ++i)
    for (int lane = 0; lane < 32; ++lane)
      for (int b = 0; b < 4; ++b)
        rows[8 * i + 2 * (lane % 4) + b % 2][lane / 4 + 8 * (b / 2)] =
            static_cast<std::uint8_t>(in[i][lane] >> 8 * b);
}

void widen_row(int bits, const std::uint8_t* row, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    const int at = bits * i, first = row[at / 8], next = at % 8 + bits > 8 ? row[at / 8 + 1] : 0;
    out[i] = static_cast<std::uint8_t>((first | next << 8) >> at % 8 & ((1 << bits) - 1));
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
