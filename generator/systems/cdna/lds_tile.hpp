// A tile in LDS, as CDNA code addresses it: dense blocks of `rows` x `block_cols`, one after the other, each
// XOR-swizzled on its 16-byte vectors seen from the start of the block (seed-systems.md 2.5).
//
// Addresses are split so that a lane computes its swizzled part once. With v = row * vectors_per_row + chunk
// the swizzle is linear over XOR, so for a part v_lane that varies by lane and a literal v that shares no bit
// with it
//
//   swz(v_lane ^ v) = swz(v_lane) ^ swz(v)
//   address = base + ((swz(v_lane) ^ low) + high) * 16     low, high: the bits of swz(v) inside and outside
//                                                          those that swz(v_lane) can have
//
// One register per distinct `low` is enough for a whole tile; everything else is an immediate offset.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "generator/emit/writer.hpp"
#include "generator/layout/banks.hpp"
#include "generator/layout/kv_block.hpp"

namespace kiln::cdna {

struct LdsTile {
  int rows = 0, cols = 0;
  int block_cols = 32;  ///< a power of two
  int element_bytes = 2;
  layout::Swizzle swizzle{};  ///< vector domain
  int block_pad = 0;          ///< bytes between two blocks, so that equal rows of both lie in other banks

  int simd() const { return 16 / element_bytes; }
  int vectors_per_row() const { return block_cols / simd(); }
  int blocks() const { return (cols + block_cols - 1) / block_cols; }
  int row_bytes() const { return block_cols * element_bytes; }
  int block_bytes() const { return rows * row_bytes() + block_pad; }
  int bytes() const { return blocks() * block_bytes(); }
  layout::KvBlocks layout() const {
    return {rows, block_cols, blocks(), simd(), swizzle, layout::SwizzleDomain::vector};
  }
  /// Byte offset of (row, col) from the start of the tile: the definition that emitted addresses are held to.
  std::uint32_t byte(int row, int col) const {
    return static_cast<std::uint32_t>(element_bytes) * layout().offset(0, row, col) +
           static_cast<std::uint32_t>(col / block_cols * block_pad);
  }
};

/// Expression of swz(vector) for emitted code; `vector` is the name of a u32.
std::string swizzled_expression(const layout::Swizzle& swizzle, const std::string& vector);

/// What one LDS access of a wave touches at literal (0, 0): element (row, col) of the lane, on the host and
/// as emitted text.
struct LanePattern {
  std::function<int(int lane)> row, col;
  std::string row_text, col_text;  ///< expressions over `lane`
};

/// Addresses of one access pattern of a wave: a lane part plus literals.
class LaneAddress {
 public:
  LaneAddress(std::string name, const LdsTile& tile, LanePattern pattern);

  /// Notes a literal (row, col) that will be used; it shares no bits with the lane's rows and vectors.
  void want(int row, int col);
  /// Declares NAME_<low>: byte offsets in LDS of the lane's part, from `base`. `wave_col`: columns to add
  /// that differ by wave; whole multiples of the wanted literals' span.
  void emit(Writer& w, const std::string& base, const std::string& wave_col = "") const;
  /// Expression of the offset of (row, col), `bytes` further.
  std::string at(int row, int col, int bytes = 0) const;

  /// Row that a lane adds to the literals.
  int row(int lane) const { return pattern_.row(lane); }
  /// Every lane's emitted address is where the tile puts the element, for every wanted literal.
  bool proves() const;
  /// Worst extra cycles of one access, over all wanted literals.
  int bank_conflicts(Target target, layout::LdsAccess access) const;

 private:
  struct Split {
    std::uint32_t low, bytes;
  };
  Split split(int row, int col) const;
  std::uint32_t lane_vector(int lane) const;
  std::uint32_t lane_bytes(int lane) const;
  std::uint32_t byte(int lane, int row, int col) const;

  std::string name_;
  LdsTile tile_;
  LanePattern pattern_;
  std::uint32_t lane_bits_ = 0;  ///< bits that swz(lane vector) can have
  bool crosses_blocks_ = false;  ///< the lanes' columns lie in several blocks
  bool splits_vectors_ = false;  ///< some lane starts inside a vector
  std::set<std::uint32_t> lows_;
  std::set<std::pair<int, int>> wanted_;
};

}  // namespace kiln::cdna
