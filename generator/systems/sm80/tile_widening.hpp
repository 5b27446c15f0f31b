// TileWidening: 8-bit rows to a tile of 16-bit elements, in shared memory.
//
// Every thread widens the very bytes that it copied (TileCopy of a tile of bytes), so its own wait for its
// copies is enough: the bytes need no barrier, and a stage of them is free for the next copies as soon as
// they are read. The tile that results is what 16-bit rows would be, for ldmatrix and mma.sync to read.
#pragma once

#include <string>

#include <kiln/types.hpp>
#include "generator/emit/prelude.hpp"
#include "generator/systems/sm80/smem_tile.hpp"

namespace kiln::sm80 {

/// Prelude section and function that makes two registers of two 16-bit values of four bytes: the even bytes,
/// then the odd ones.
std::string widen_function(DType stored, DType compute);

/// The tile of bytes beside a 16-bit tile: as many rows, and blocks of as many elements.
SmemTile tile_of_bytes(const SmemTile& wide);

class TileWidening {
 public:
  TileWidening(const std::string& name, const SmemTile& wide, int num_threads, DType stored, DType compute);

  void use(Prelude& prelude) const;
  /// Addresses of this thread in the 16-bit tile at `base`.
  void emit_construct(Writer& w, const std::string& base) const;
  /// Widens what `copy` brought to the stage at byte `offset`.
  void emit(Writer& w, const TileCopy& copy, int offset) const;

  int bank_conflicts() const;
  /// Both halves of every 16 bytes go where the 16-bit tile has them.
  bool proves(const TileCopy& copy) const;

 private:
  SmemTile wide_;
  int num_threads_;
  std::string widen_;
  LaneAddress address_;
};

}  // namespace kiln::sm80
