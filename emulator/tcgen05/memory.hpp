// Tensor memory of a block: 128 lanes of 512 columns of 32-bit cells, which of them were written, and which allocation
// a column belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace kiln::emulator::tcgen05 {

inline constexpr std::uint32_t kLanes = 128, kColumns = 512;

/// A set of lanes.
struct LaneMask {
  std::array<std::uint64_t, 2> words{};
  bool operator==(const LaneMask&) const = default;
  bool empty() const { return (words[0] | words[1]) == 0; }
  bool intersects(const LaneMask& o) const {
    return ((words[0] & o.words[0]) | (words[1] & o.words[1])) != 0;
  }
  bool contains(const LaneMask& o) const {
    return ((o.words[0] & ~words[0]) | (o.words[1] & ~words[1])) == 0;
  }
  bool has(std::uint32_t lane) const { return (words[lane / 64] >> lane % 64 & 1) != 0; }
  void add(const LaneMask& o) {
    words[0] |= o.words[0];
    words[1] |= o.words[1];
  }
  void remove(const LaneMask& o) {
    words[0] &= ~o.words[0];
    words[1] &= ~o.words[1];
  }
  void add_lane(std::uint32_t lane) { words[lane / 64] |= std::uint64_t{1} << lane % 64; }
  /// The first lane of a set that is not empty.
  std::uint32_t first() const;
  static LaneMask range(std::uint32_t begin, std::uint32_t count);
  static LaneMask all() { return {{~std::uint64_t{0}, ~std::uint64_t{0}}}; }
};

/// Lanes of a run of columns.
struct Rectangle {
  std::uint32_t column = 0, columns = 0;
  LaneMask lanes;
};

class Memory {
 public:
  Memory();
  /// The cells of a lane, by column.
  std::uint32_t* lane(std::uint32_t index) { return cells_.data() + std::size_t{index} * kColumns; }
  const std::uint32_t* lane(std::uint32_t index) const {
    return cells_.data() + std::size_t{index} * kColumns;
  }

  void mark_written(const Rectangle& r);
  void mark_unwritten(const Rectangle& r);
  bool all_written(const Rectangle& r) const;
  const LaneMask& written(std::uint32_t column) const { return written_[column]; }

  /// Columns of allocations: `owner` counts from 1, 0 is nobody.
  std::uint32_t owner(std::uint32_t column) const { return owner_[column]; }
  void set_owner(std::uint32_t column, std::uint32_t columns, std::uint32_t owner);
  /// The first run of `columns` free columns at a multiple of their number; kColumns if there is none.
  std::uint32_t find_free(std::uint32_t columns) const;

 private:
  std::vector<std::uint32_t> cells_;
  std::array<LaneMask, kColumns> written_{};
  std::array<std::uint32_t, kColumns> owner_{};
};

}  // namespace kiln::emulator::tcgen05
