// The query tile on sm_80: BM rows through shared memory to A fragments, and on the way out the same rows of
// shared memory as staging for O. Warp w owns rows 16w .. 16w+15, so no two warps ever touch each other's
// part of it.
#pragma once

#include <string>
#include <vector>

#include "generator/layout/proof.hpp"
#include "generator/systems/sm80/smem_tile.hpp"

namespace kiln::sm80 {

class QTile {
 public:
  struct Shape {
    int BM = 0, depth = 0, block_cols = 64, num_threads = 0;
    layout::Swizzle swizzle{};
  };
  explicit QTile(const Shape& shape);

  int k_steps() const { return shape_.depth / 16; }
  int num_registers() const { return 4 * k_steps(); }
  const SmemTile& tile() const { return tile_; }
  const TileCopy& copy() const { return copy_; }
  const FragmentReader& reader() const { return reader_; }

  /// Addresses of this thread's copies and of this lane's fragments. `first`: pointer to the tile's first
  /// row, `rows`: rows of the sequence from there on.
  void emit_construct(Writer& w, const std::string& first, const std::string& rows) const;
  void emit_load_from_dram(Writer& w) const { copy_.emit(w, 0); }
  /// q_reg[4 * step ..] = A fragment of k-step `step`.
  void emit_load_from_shared(Writer& w, int step) const;

  /// O: fragments scaled by SCALE_{0,1}, converted by `pack`, staged in shared memory and stored as 16-byte
  /// rows. `first`: pointer to this warp's first row of O, `stride`: its row distance, `rows`: rows of the
  /// sequence from there.
  void emit_store(Writer& w, const std::string& pack, const std::string& first, const std::string& stride,
                  const std::string& rows, const std::string& scale) const;

  /// The same where O is of floats, which leave as the fragments hold them.
  void emit_store_floats(Writer& w, const std::string& first, const std::string& stride,
                         const std::string& rows, const std::string& scale) const;

  std::vector<layout::Proof> proofs() const;
  /// Of emit_store: staging of O through the tile's rows.
  layout::Proof output_proof() const;

 private:
  bool output_proves() const;
  int output_bank_conflicts() const;

  Shape shape_;
  SmemTile tile_;
  TileCopy copy_;
  FragmentReader reader_;
  LaneAddress o_write_, o_read_;
};

}  // namespace kiln::sm80
