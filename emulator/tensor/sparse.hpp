// Structured sparsity of matrix A (mma.sp, wgmma.mma_async.sp): half of the elements of each row are stored, and
// metadata tell which (PTX ISA, "Sparse matrix storage").
//
// A chunk of a row has four bits of metadata: two 2-bit indices. It is 4 elements of 16 or 8 bits (2 stored), 2 of
// tf32 (1 stored; the indices name halves of 32 bits), or 8 of 4 bits (2 pairs stored).
#pragma once

#include <cstdint>
#include <optional>

#include "emulator/tensor/mma.hpp"

namespace kiln::emulator {

/// Columns of the dense A that the stored elements of 16 rows have.
struct SparseColumns {
  std::uint8_t column[16][64] = {};  ///< [row][stored element]
  /// The first chunk whose metadata mean nothing: two equal indices, a decreasing pair where they have to be ordered,
  /// a tf32 index that is neither half.
  struct Bad {
    int lane = 0;
    std::uint32_t bits = 0;
  };
  std::optional<Bad> bad;
};

/// Lanes whose metadata register a form reads, as a mask; `k` is that of the dense A. 0: no such selector.
std::uint32_t metadata_lanes(MatrixType a, int k, int selector);
SparseColumns sparse_columns(MatrixType a, int k, int selector, bool ordered, const std::uint32_t* metadata);

/// Registers per lane of a form that PTX has; op.k is that of the dense A.
std::optional<MmaRegisters> mma_sparse_registers(const MmaOp& op);
/// D = A * B + C with the stored elements of A; otherwise as mma_sync.
void mma_sparse(const MmaOp& op, const SparseColumns& columns, std::uint32_t* const* d,
                const std::uint32_t* const* a, const std::uint32_t* const* b, const std::uint32_t* const* c);

}  // namespace kiln::emulator
