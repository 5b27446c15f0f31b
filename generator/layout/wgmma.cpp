#include "generator/layout/wgmma.hpp"

#include "generator/layout/mma_sync.hpp"
#include "generator/layout/tma.hpp"

namespace kiln::layout {
namespace {

/// The 16-row map of one warp, repeated for the four warps of a warpgroup.
FragmentMap four_warps(const FragmentMap& warp) {
  FragmentMap group = warp;
  group.rows = 4 * warp.rows;
  group.lanes = 128;
  group.at = [warp](int lane, int e) {
    const Coord c = warp(lane % 32, e);
    return Coord{16 * (lane / 32) + c.row, c.col};
  };
  return group;
}

std::uint64_t layout_code(SwizzleMode mode) {
  switch (mode) {
    case SwizzleMode::none:
      return 0;
    case SwizzleMode::b128:
      return 1;
    case SwizzleMode::b64:
      return 2;
    case SwizzleMode::b32:
      return 3;
  }
  return 0;
}

}  // namespace

FragmentMap wgmma_a(int k) {
  return four_warps(mma_a(k));
}

FragmentMap wgmma_c(int n) {
  const FragmentMap tile = mma_c();
  FragmentMap warp{16, n, 32, n / 2, [tile](int lane, int e) {
                     const Coord c = tile(lane, e % 4);
                     return Coord{c.row, 8 * (e / 4) + c.col};
                   }};
  return four_warps(warp);
}

std::uint64_t SmemDescriptor::encode() const {
  const auto field = [](std::uint32_t bytes) {
    return static_cast<std::uint64_t>((bytes >> 4) & kDescriptorField);
  };
  return field(address & 0x3FFFF) | field(lbo) << 16 | field(sbo) << 32 |
         static_cast<std::uint64_t>(base_offset & 7) << 49 | layout_code(mode) << 62;
}

SmemDescriptor SmemDescriptor::decode(std::uint64_t bits) {
  const auto field = [bits](int low) {
    return static_cast<std::uint32_t>((bits >> low) & kDescriptorField) << 4;
  };
  constexpr SwizzleMode kModes[] = {SwizzleMode::none, SwizzleMode::b128, SwizzleMode::b64, SwizzleMode::b32};
  return {field(0), field(16), field(32), static_cast<int>((bits >> 49) & 7), kModes[bits >> 62]};
}

SmemDescriptor k_major_descriptor(SwizzleMode mode, std::uint32_t address, int rows, int fold) {
  if (mode == SwizzleMode::none) return {address, static_cast<std::uint32_t>(16 * rows), 128, 0, mode};
  return {address, 16, static_cast<std::uint32_t>(fold * pattern_bytes(mode)), 0, mode};
}

int k_major_step_bytes(SwizzleMode mode, int step, int rows, int fold) {
  if (mode == SwizzleMode::none) return step * 2 * 16 * rows;  // two core matrices along k
  const int steps_per_span = span_bytes(mode) / 32;
  return step % steps_per_span * 32 + panel_byte(step / steps_per_span, rows, span_bytes(mode), fold);
}

std::optional<SmemDescriptor> mn_major_descriptor(SwizzleMode mode, std::uint32_t address, int k_rows,
                                                  int fold) {
  if (mode == SwizzleMode::none) return std::nullopt;
  return SmemDescriptor{address, static_cast<std::uint32_t>(panel_byte(1, k_rows, span_bytes(mode), fold)),
                        static_cast<std::uint32_t>(fold * pattern_bytes(mode)), 0, mode};
}

int mn_major_step_bytes(SwizzleMode mode, int step, int fold) {
  return step * 16 * span_bytes(mode) * fold;
}

std::uint32_t k_major_address(const SmemDescriptor& d, int mn, int k, int element_bytes) {
  const auto row = static_cast<std::uint32_t>(mn);
  const auto byte = static_cast<std::uint32_t>(k * element_bytes);
  if (d.mode == SwizzleMode::none)
    return d.address + row / 8 * d.sbo + byte / 16 * d.lbo + row % 8 * 16 + byte % 16;
  const auto pitch = static_cast<std::uint32_t>(span_bytes(d.mode));
  return byte_swizzle(d.mode)(d.address + row / 8 * d.sbo + row % 8 * pitch + byte);
}

std::uint32_t mn_major_address(const SmemDescriptor& d, int mn, int k, int element_bytes) {
  const auto byte = static_cast<std::uint32_t>(mn * element_bytes);
  const auto row = static_cast<std::uint32_t>(k);
  const auto pitch = static_cast<std::uint32_t>(span_bytes(d.mode));
  return byte_swizzle(d.mode)(d.address + byte / pitch * d.lbo + byte % pitch + row / 8 * d.sbo +
                              row % 8 * pitch);
}

}  // namespace kiln::layout
