// What the tests of tensor copies and matrix products share: where copied bytes come from, and formats of elements.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "emulator/tensor/numeric.hpp"
#include "emulator/tensor/tma.hpp"

namespace emulator_test {

using namespace kiln::emulator;

/// What one byte of shared memory holds after a tensor copy: a byte of global memory, or the fill.
struct CopiedByte {
  bool oob;
  std::uint64_t global;
  bool operator==(const CopiedByte&) const = default;
};
using CopiedBytes = std::map<std::uint32_t, CopiedByte>;  ///< by address in shared memory

inline CopiedBytes copied_by(const std::vector<BoxRun>& runs) {
  CopiedBytes bytes;
  for (const BoxRun& run : runs)
    for (std::uint32_t i = 0; i < run.bytes; ++i)
      bytes[swizzle_address(run.swizzle, run.shared + i)] =
          run.oob ? CopiedByte{true, 0} : CopiedByte{false, run.global + i};
  return bytes;
}

/// Where an element of a fragment is in its matrix.
struct MatrixPlace {
  int row, column;
};

inline FloatFormat format_of(MatrixType type) {
  switch (type) {
    case MatrixType::f16:
      return FloatFormat::f16;
    case MatrixType::bf16:
      return FloatFormat::bf16;
    case MatrixType::tf32:
      return FloatFormat::tf32;
    case MatrixType::e4m3:
      return FloatFormat::e4m3;
    case MatrixType::e5m2:
      return FloatFormat::e5m2;
    default:
      return FloatFormat::f32;
  }
}

}  // namespace emulator_test
