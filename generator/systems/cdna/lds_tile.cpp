#include "generator/systems/cdna/lds_tile.hpp"

#include <algorithm>

namespace kiln::cdna {

std::string swizzled_expression(const layout::Swizzle& s, const std::string& unit) {
  if (s.is_identity()) return unit;
  const int mask = ((1 << s.bits) - 1) << s.base;
  return fmt::format("({0} ^ ({0} >> {1} & {2}))", unit, s.shift, mask);
}

LaneAddress::LaneAddress(std::string name, const LdsTile& tile, LanePattern pattern)
    : name_(std::move(name)), tile_(tile), pattern_(std::move(pattern)) {
  for (int lane = 0; lane < pattern_.lanes; ++lane) {
    lane_bits_ |= tile_.of_units()(lane_unit(lane));
    crosses_blocks_ |= pattern_.col(lane) >= tile_.block_cols;
    splits_units_ |= pattern_.col(lane) % tile_.unit() != 0;
  }
}

std::uint32_t LaneAddress::lane_unit(int lane) const {
  return static_cast<std::uint32_t>(pattern_.row(lane) * tile_.units_per_row() +
                                    pattern_.col(lane) % tile_.block_cols / tile_.unit());
}

/// What the swizzle leaves alone: the block, and the place inside a unit.
std::uint32_t LaneAddress::lane_bytes(int lane) const {
  const int col = pattern_.col(lane);
  return static_cast<std::uint32_t>(col / tile_.block_cols * tile_.block_bytes() +
                                    col % tile_.unit() * tile_.element_bytes);
}

LaneAddress::Split LaneAddress::split(int row, int col) const {
  const int block = col / tile_.block_cols, chunk = col % tile_.block_cols / tile_.unit();
  const std::uint32_t swizzled =
      tile_.of_units()(static_cast<std::uint32_t>(row * tile_.units_per_row() + chunk));
  return {swizzled & lane_bits_,
          static_cast<std::uint32_t>(block * tile_.block_bytes()) +
              (swizzled & ~lane_bits_) * static_cast<std::uint32_t>(tile_.unit_bytes())};
}

void LaneAddress::want(int row, int col) {
  lows_.insert(split(row, col).low);
  wanted_.insert({row, col});
}

void LaneAddress::emit(Writer& w, const std::string& base, const std::string& wave_col) const {
  const std::string col = name_ + "_col";
  w.line("const u32 {0}_row = {1}, {0}_col = {2};", name_, pattern_.row_text,
         wave_col.empty() ? pattern_.col_text : pattern_.col_text + " + " + wave_col);
  const std::string in_block = crosses_blocks_ ? fmt::format("({} & {})", col, tile_.block_cols - 1) : col;
  const int unit = tile_.unit();
  w.line("const u32 {0}_vector = {0}_row * {1} + {2} / {3};", name_, tile_.units_per_row(), in_block, unit);
  std::string rest = base;
  if (crosses_blocks_) rest += fmt::format(" + {} / {} * {}", col, tile_.block_cols, tile_.block_bytes());
  if (splits_units_) rest += fmt::format(" + {} % {} * {}", col, unit, tile_.element_bytes);
  for (const std::uint32_t low : lows_) {
    const std::string swizzled = swizzled_expression(tile_.of_units(), name_ + "_vector");
    w.line("const u32 {}_{} = {} + {}{}{} * {};", name_, low, rest, low == 0 ? "" : "(", swizzled,
           low == 0 ? "" : fmt::format(" ^ {})", low), tile_.unit_bytes());
  }
}

std::string LaneAddress::at(int row, int col, int bytes) const {
  const Split s = split(row, col);
  const std::uint32_t offset = s.bytes + static_cast<std::uint32_t>(bytes);
  return offset == 0 ? fmt::format("{}_{}", name_, s.low) : fmt::format("{}_{} + {}", name_, s.low, offset);
}

/// What at() evaluates to in lane `lane`, relative to `base`.
std::uint32_t LaneAddress::byte(int lane, int row, int col) const {
  const Split s = split(row, col);
  return (tile_.of_units()(lane_unit(lane)) ^ s.low) * static_cast<std::uint32_t>(tile_.unit_bytes()) +
         lane_bytes(lane) + s.bytes;
}

bool LaneAddress::proves() const {
  for (const auto& [row, col] : wanted_) {
    for (int lane = 0; lane < pattern_.lanes; ++lane) {
      if (byte(lane, row, col) != tile_.byte(row + pattern_.row(lane), col + pattern_.col(lane)))
        return false;
    }
  }
  return true;
}

int LaneAddress::bank_conflicts(Target target, layout::LdsAccess access) const {
  int worst = 0;
  for (const auto& [row, col] : wanted_) {
    std::vector<std::uint32_t> addresses;
    addresses.reserve(64);
    for (int lane = 0; lane < 64; ++lane) addresses.push_back(byte(lane, row, col));
    worst = std::max(worst, layout::amd_banks(target, access, addresses).conflicts());
  }
  return worst;
}

}  // namespace kiln::cdna
