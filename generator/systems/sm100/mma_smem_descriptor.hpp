// MMASmemDescriptorPair: the shared-memory descriptors of a product, of which only the low word changes from step to step,
// and the tensor-memory map of the two-tile kernel.
//
//   operand  rows            contraction along   major
//   Q, K     queries, keys   depth               K: rows are contiguous along depth
//   V        keys            keys                MN: rows are contiguous along the columns of O
#pragma once

#include <string>
#include <vector>

#include "generator/layout/proof.hpp"
#include "generator/systems/sm90/wgmma.hpp"

namespace kiln::sm100 {

using sm90::SmemTile;

/// One operand in shared memory.
class MMASmemDescriptor {
 public:
  MMASmemDescriptor(SmemTile tile, bool is_k_major) : tile_(tile), is_k_major_(is_k_major) {}

  const SmemTile& tile() const { return tile_; }
  bool is_k_major() const { return is_k_major_; }
  /// Constant words: what is or-ed to (address >> 4), and the upper word.
  unsigned low() const;
  unsigned high() const;
  /// Elements of a contraction step: 32 bytes.
  int step_elements() const { return 32 / tile_.element_bytes; }
  /// What contraction step `step` adds to the low word.
  int step(int step) const;
  /// L1: the tensor copy fills the tile, and the descriptor of every step finds its elements there.
  void add_proofs(std::vector<layout::Proof>& out, const std::string& name, int columns) const;

 private:
  SmemTile tile_;
  bool is_k_major_;
};

/// Columns of tensor memory of the two-tile kernel. P of a tile takes the place of its S.
struct TensorMemoryMap {
  int s1 = 0, o0 = 0, o1 = 0, used = 0;  ///< first columns; S of tile 0 begins at 0
  /// What is allocated: a power of two.
  int columns() const {
    int columns = 32;
    while (columns < used) columns *= 2;
    return columns;
  }
};

}  // namespace kiln::sm100
