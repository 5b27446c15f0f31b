// A tile of 16-bit elements in shared memory, as sm_80 code addresses it: dense blocks of `rows` x
// `block_cols`, one after the other, each XOR-swizzled on its 16-byte vectors.
//
// Addresses are split so that a thread computes its swizzled part once. With v = row * vectors_per_row +
// chunk the swizzle is linear over XOR, so for a part v_lane that varies by lane and a literal v that shares
// no bit with it
//
//   swz(v_lane ^ v) = swz(v_lane) ^ swz(v)
//   address = base + ((swz(v_lane) ^ low) + high) * 16        low, high: swz(v) below and above the lane's
//   range
//
// One register per distinct `low` is enough for a whole tile; everything else is an immediate offset.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "generator/emit/writer.hpp"
#include "generator/layout/kv_block.hpp"
#include "generator/layout/mma_sync.hpp"

namespace kiln::sm80 {

struct SmemTile {
  int rows = 0, cols = 0;
  int block_cols = 64;        ///< a power of two, at least 16 where ldmatrix reads
  layout::Swizzle swizzle{};  ///< vector domain

  int vectors_per_row() const { return block_cols / 8; }
  int blocks() const { return (cols + block_cols - 1) / block_cols; }
  int row_bytes() const { return block_cols * 2; }
  int block_bytes() const { return rows * row_bytes(); }
  int bytes() const { return blocks() * block_bytes(); }
  layout::KvBlocks layout() const {
    return {rows, block_cols, blocks(), 8, swizzle, layout::SwizzleDomain::vector};
  }
  /// Byte offset of (row, col) from the start of the tile: the definition that emitted addresses are held to.
  std::uint32_t byte(int row, int col) const { return 2 * layout().offset(0, row, col); }
};

/// Expression of swz(vector) for emitted code; `vector` is the name of a u32.
std::string swizzled_expression(const layout::Swizzle& swizzle, const std::string& vector);

/// Addresses of one access pattern of a warp or block: a lane part plus literals.
class LaneAddress {
 public:
  /// `lane_vectors`: the lane part lies in [0, lane_vectors), a power of two.
  LaneAddress(std::string name, const SmemTile& tile, int lane_vectors);

  /// Notes a literal (row, chunk of 8 columns) that will be used; row * vectors_per_row avoids the lane's
  /// bits.
  void want(int row, int chunk);
  /// Declares NAME_<low> for every wanted literal: `base` + the swizzled lane part, `sub` more bytes inside
  /// the vector. `lane_vector` is the expression of the lane part.
  void emit(Writer& w, const std::string& base, const std::string& lane_vector,
            const std::string& sub = "") const;
  /// Expression of the address of (row, chunk), `offset` bytes further.
  std::string at(int row, int chunk, int offset = 0) const;
  /// What at() evaluates to for a given lane part, relative to `base`: for proofs.
  std::uint32_t byte(int lane_vector, int row, int chunk) const;

 private:
  struct Split {
    int low, bytes;
  };
  Split split(int row, int chunk) const;

  std::string name_;
  SmemTile tile_;
  int lane_vectors_;
  std::set<int> lows_;
};

/// Registers <- shared memory: 16 x 16 tiles by ldmatrix.x4.
class FragmentReader {
 public:
  FragmentReader(std::string name, const SmemTile& tile, layout::MatrixOrder order);
  void emit_construct(Writer& w, const std::string& base) const;
  /// Address of the 16x16 tile at (row, col), both multiples of 16.
  std::string at(int row, int col, int offset = 0) const { return address_.at(row, col / 8, offset); }
  /// Largest number of bank conflicts of one ldmatrix.x4, over all tiles.
  int bank_conflicts() const;
  /// Every lane's emitted address is where the layout puts its row.
  bool proves() const;

 private:
  SmemTile tile_;
  layout::MatrixOrder order_;
  std::string name_;
  LaneAddress address_;
};

/// Shared memory <- global memory: all threads, 16 bytes a copy, neighbours along a row first.
class TileCopy {
 public:
  /// `bytes`: rows in global memory are of bytes, two for each column of the tile.
  TileCopy(const std::string& name, const SmemTile& tile, int num_threads, bool bytes = false);

  /// One copy of every thread, 16 bytes of a row in a block of columns, and which threads have such a piece
  /// (an emitted condition; empty: all).
  struct Piece {
    int block, pass;
    std::string guard;
  };
  std::vector<Piece> pieces() const;
  /// Expression of where this thread's part of a piece lies, `offset` bytes further.
  std::string address(const Piece& piece, int offset) const;

  int passes() const;  ///< copies of a thread per block of columns
  int rows_per_pass() const { return num_threads_ / tile_.vectors_per_row(); }
  int copies_per_thread() const { return passes() * tile_.blocks(); }

  /// Declares NAME_dst_*, NAME_chunk and, where code names it, NAME_row of this thread.
  void emit_construct(Writer& w, const std::string& base, bool names_row = true) const;
  /// The copies of one tile. NAME_src points at this thread's first element, NAME_pass is the element
  /// distance of rows_per_pass rows, NAME_rows the rows left from this thread's first one; rows past the end
  /// become zeros.
  void emit(Writer& w, int offset) const;
  /// The same from rows that lie anywhere: `source` and `valid` give this thread's pointer and condition of a
  /// pass, as expressions.
  void emit_from(Writer& w, int offset, const std::function<std::string(int)>& source,
                 const std::function<std::string(int)>& valid) const;
  /// The same, further by the value of an emitted expression.
  void emit_from(Writer& w, const std::string& offset, const std::function<std::string(int)>& source,
                 const std::function<std::string(int)>& valid) const;
  int bank_conflicts() const;
  /// Every vector of the tile is written exactly once, where the layout has it.
  bool proves() const;

 private:
  void emit_pieces(Writer& w, const std::string& further, int offset,
                   const std::function<std::string(int)>& source,
                   const std::function<std::string(int)>& valid) const;

  SmemTile tile_;
  int num_threads_;
  bool bytes_;
  std::string name_;
  LaneAddress address_;
};

}  // namespace kiln::sm80
