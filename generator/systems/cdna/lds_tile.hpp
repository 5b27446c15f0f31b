// A tile in LDS, as CDNA code addresses it: dense blocks of `rows` x `block_cols`, one after the other, each
// XOR-swizzled on its 16-byte vectors, or its elements, seen from the start of the block.
// An element-space swizzle leaves 2^base elements together: where those are whole
// vectors it is one of vectors; where they are less (a fragment of 8 bytes) fragments move inside vectors.
// Units are what moves as one.
//
// Addresses are split so that a lane computes its swizzled part once. With v = row * units_per_row + chunk
// the swizzle is linear over XOR, so for a part v_lane that varies by lane and a literal v that shares no bit
// with it
//
//   swz(v_lane ^ v) = swz(v_lane) ^ swz(v)
//   address = base + ((swz(v_lane) ^ low) + high) * unit   low, high: the bits of swz(v) inside and outside
//                                                          those that swz(v_lane) can have
//
// One register per distinct `low` is enough for a whole tile; everything else is an immediate offset.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "generator/emit/writer.hpp"
#include "generator/layout/banks.hpp"
#include "generator/layout/kv_block.hpp"

namespace kiln::cdna {

struct LdsSwizzle {
  layout::Swizzle map{};
  layout::SwizzleDomain domain = layout::SwizzleDomain::vector;

  LdsSwizzle() = default;
  LdsSwizzle(layout::Swizzle of_vectors) : map(of_vectors) {}
  LdsSwizzle(int bits, int base, int shift) : map{bits, base, shift} {}
  /// Of a config. Not checked.
  explicit LdsSwizzle(const XorSwizzle& x)
      : map(layout::swizzle_of(x)),
        domain(x.element_domain ? layout::SwizzleDomain::element : layout::SwizzleDomain::vector) {}

  bool of_elements() const { return domain == layout::SwizzleDomain::element && !map.is_identity(); }
  /// Bytes of a unit.
  int unit_bytes(int element_bytes) const {
    return of_elements() && map.base < 4 ? std::min(16, element_bytes << map.base) : 16;
  }
  /// The swizzle as one of units.
  layout::Swizzle of_units(int element_bytes) const {
    if (!of_elements()) return map;
    const int elements = unit_bytes(element_bytes) / element_bytes;
    return {map.bits, map.base - std::countr_zero(static_cast<unsigned>(elements)), map.shift};
  }
  /// 16-byte vectors after which the pattern starts anew, at least one.
  int period_vectors(int element_bytes) const {
    const layout::Swizzle s = of_units(element_bytes);
    return s.is_identity() ? 1
                           : std::max(1, (1 << (s.bits + s.base + s.shift)) * unit_bytes(element_bytes) / 16);
  }
};

struct LdsTile {
  int rows = 0, cols = 0;
  int block_cols = 32;  ///< a power of two
  int element_bytes = 2;
  LdsSwizzle swizzle{};
  int block_pad = 0;  ///< bytes between two blocks, so that equal rows of both lie in other banks

  int simd() const { return 16 / element_bytes; }
  int vectors_per_row() const { return block_cols / simd(); }
  int unit_bytes() const { return swizzle.unit_bytes(element_bytes); }
  int unit() const { return unit_bytes() / element_bytes; }  ///< elements that stay together
  int units_per_row() const { return block_cols / unit(); }
  layout::Swizzle of_units() const { return swizzle.of_units(element_bytes); }
  int blocks() const { return (cols + block_cols - 1) / block_cols; }
  int row_bytes() const { return block_cols * element_bytes; }
  int block_bytes() const { return rows * row_bytes() + block_pad; }
  int bytes() const { return blocks() * block_bytes(); }
  layout::KvBlocks layout() const {
    return {rows, block_cols, blocks(), simd(), swizzle.map, swizzle.domain};
  }
  /// Byte offset of (row, col) from the start of the tile: the definition that emitted addresses are held to.
  std::uint32_t byte(int row, int col) const {
    return static_cast<std::uint32_t>(element_bytes) * layout().offset(0, row, col) +
           static_cast<std::uint32_t>(col / block_cols * block_pad);
  }
};

/// Expression of swz(unit) for emitted code; `unit` is the name of a u32.
std::string swizzled_expression(const layout::Swizzle& swizzle, const std::string& unit);

/// What one LDS access of a wave touches at literal (0, 0): element (row, col) of the lane, on the host and
/// as emitted text.
struct LanePattern {
  std::function<int(int lane)> row, col;
  std::string row_text, col_text;  ///< expressions over `lane`
  int lanes = 64;  ///< more where the pattern differs by wave: 64 of each wave, wave after wave
};

/// Addresses of one access pattern of a wave: a lane part plus literals.
class LaneAddress {
 public:
  LaneAddress(std::string name, const LdsTile& tile, LanePattern pattern);

  /// Notes a literal (row, col) that will be used; it shares no bits with the lane's rows and units.
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
  std::uint32_t lane_unit(int lane) const;
  std::uint32_t lane_bytes(int lane) const;
  std::uint32_t byte(int lane, int row, int col) const;

  std::string name_;
  LdsTile tile_;
  LanePattern pattern_;
  std::uint32_t lane_bits_ = 0;  ///< bits that swz(lane unit) can have
  bool crosses_blocks_ = false;  ///< the lanes' columns lie in several blocks
  bool splits_units_ = false;    ///< some lane starts inside a unit
  std::set<std::uint32_t> lows_;
  std::set<std::pair<int, int>> wanted_;
};

}  // namespace kiln::cdna
