// Work items of the prefill kernels of sm_90a and sm_100a: what one is, and how every role of a block decodes it.
#pragma once

#include <string>

#include "generator/emit/writer.hpp"
#include "generator/systems/mask.hpp"

namespace kiln {

struct PrefillWork {
  int BM = 0, BN = 0;     ///< query rows of an item, keys of a tile
  int cluster = 1;        ///< blocks that take an item together, BM rows each
  bool ragged = false;    ///< sequences differ in length: place and rows of an item are found by a warp
  bool sections = false;  ///< longest first inside a section of heads; the kernel has section_heads
  const Mask* mask = nullptr;
  bool part = false;  ///< ragged, and positions are given at launch (part_kernels.hpp)

  /// Row i is at key position i + seqlen_k less this: the sequence's own rows, or of a part of it what the launch says.
  const char* aligned_rows() const { return part ? "work.aligned_rows" : "work.seqlen_q"; }
  /// The last KV tile an item visits (they go from the highest down).
  const char* first_block() const { return mask->bounded_below() ? "work.first_block" : "0"; }
  /// Call of the emitted function, of the item `tile`, or of a ragged batch of `place` and `rows`.
  std::string decode_call(const char* tile = "tile") const;
  /// The emitted struct Work and `decode_work`: query tile, head, sequence and the range of KV tiles.
  void emit(Writer& w) const;

 private:
  /// Of the rows that the blocks of a cluster have together, which visit the same KV tiles.
  std::string first_row() const;
  void emit_decode_tile(Writer& w) const;
};

}  // namespace kiln
