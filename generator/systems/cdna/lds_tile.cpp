#include "generator/systems/cdna/lds_tile.hpp"

#include <algorithm>

namespace kiln::cdna {

std::string swizzled_expression(const layout::Swizzle& s, const std::string& vector) {
  if (s.is_identity()) return vector;
  const int mask = ((1 << s.bits) - 1) << s.base;
  return fmt::format("({0} ^ ({0} >> {1} & {2}))", vector, s.shift, mask);
}

LaneAddress::LaneAddress(std::string name, const LdsTile& tile, LanePattern pattern)
    : name_(std::move(name)), tile_(tile), pattern_(std::move(pattern)) {
  for (int lane = 0; lane < 64; ++lane) {
    lane_bits_ |= tile_.swizzle(lane_vector(lane));
    crosses_blocks_ |= pattern_.col(lane) >= tile_.block_cols;
    splits_vectors_ |= pattern_.col(lane) % tile_.simd() != 0;
  }
}

std::uint32_t LaneAddress::lane_vector(int lane) const {
  return static_cast<std::uint32_t>(pattern_.row(lane) * tile_.vectors_per_row() +
                                    pattern_.col(lane) % tile_.block_cols / tile_.simd());
}

/// What the swizzle leaves alone: the block, and the place inside a vector.
std::uint32_t LaneAddress::lane_bytes(int lane) const {
  const int col = pattern_.col(lane);
  return static_cast<std::uint32_t>(col / tile_.block_cols * tile_.block_bytes() +
                                    col % tile_.simd() * tile_.element_bytes);
}

LaneAddress::Split LaneAddress::split(int row, int col) const {
  const int block = col / tile_.block_cols, chunk = col % tile_.block_cols / tile_.simd();
  const std::uint32_t swizzled =
      tile_.swizzle(static_cast<std::uint32_t>(row * tile_.vectors_per_row() + chunk));
  return {swizzled & lane_bits_,
          static_cast<std::uint32_t>(block * tile_.block_bytes()) + (swizzled & ~lane_bits_) * 16};
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
  const int row_shift = tile_.vectors_per_row(), simd = tile_.simd();
  w.line("const u32 {0}_vector = {0}_row * {1} + {2} / {3};", name_, row_shift, in_block, simd);
  std::string rest = base;
  if (crosses_blocks_) rest += fmt::format(" + {} / {} * {}", col, tile_.block_cols, tile_.block_bytes());
  if (splits_vectors_) rest += fmt::format(" + {} % {} * {}", col, simd, tile_.element_bytes);
  for (const std::uint32_t low : lows_) {
    const std::string swizzled = swizzled_expression(tile_.swizzle, name_ + "_vector");
    w.line("const u32 {}_{} = {} + {}{}{} * 16;", name_, low, rest, low == 0 ? "" : "(", swizzled,
           low == 0 ? "" : fmt::format(" ^ {})", low));
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
  return (tile_.swizzle(lane_vector(lane)) ^ s.low) * 16 + lane_bytes(lane) + s.bytes;
}

bool LaneAddress::proves() const {
  for (const auto& [row, col] : wanted_) {
    for (int lane = 0; lane < 64; ++lane) {
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
    for (int lane = 0; lane < 64; ++lane) addresses.push_back(byte(lane, row, col));
    worst = std::max(worst, layout::amd_banks(target, access, addresses).conflicts());
  }
  return worst;
}

}  // namespace kiln::cdna
