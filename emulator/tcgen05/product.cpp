#include "emulator/tcgen05/product.hpp"

#include <algorithm>

namespace kiln::emulator::tcgen05 {
namespace {

std::uint32_t column_of(std::uint32_t address) {
  return address & 0xffff;
}
std::uint32_t lane_of(std::uint32_t address) {
  return address >> 16;
}

/// Layouts F and C: 16 rows in every 32 lanes.
bool is_spread(const MmaCall& c) {
  return !c.shape.ws && rows_of(c) == 64 && (c.shape.group == 1 || c.shape.sparse);
}

}  // namespace

std::uint32_t rows_of(const MmaCall& c) {
  return static_cast<std::uint32_t>(c.i.m / c.shape.group);
}

Placement placement_of(const MmaCall& c) {
  Placement p;
  const std::uint32_t rows = rows_of(c), n = static_cast<std::uint32_t>(c.i.n);
  if (is_spread(c)) {
    for (std::uint32_t q = 0; q < 4; ++q) p.segments.push_back({32 * q + lane_of(c.d) % 32, 16, 16 * q, 0});
    p.columns = n;
    return p;
  }
  const std::uint32_t folds = kLanes / rows;  // layouts A and D, B and E, G
  for (std::uint32_t f = 0; f < folds; ++f) p.segments.push_back({f * rows, rows, 0, f * (n / folds)});
  p.columns = n / folds;
  return p;
}

LaneMask Placement::lanes() const {
  LaneMask m;
  for (const Segment& s : segments) m.add(LaneMask::range(s.lane, s.lanes));
  return m;
}

std::string check_addresses(const MmaCall& c) {
  const std::uint32_t lane = lane_of(c.d);
  if (lane != 0 && !(is_spread(c) && lane == 16))
    return "D starts at lane " + std::to_string(lane) + ", must be 0" + (is_spread(c) ? " or 16" : "");
  if (c.shape.a_in_tensor_memory && lane_of(c.a) != lane)
    return "A starts at lane " + std::to_string(lane_of(c.a)) + ", D at lane " + std::to_string(lane) +
           ": they must start alike";
  if (c.shape.sparse && lane_of(c.metadata) != lane)
    return "metadata start at lane " + std::to_string(lane_of(c.metadata)) + ", D at lane " +
           std::to_string(lane) + ": they must start alike";
  if (c.shape.sparse && column_of(c.metadata) % 2 != 0)
    return "metadata start at column " + std::to_string(column_of(c.metadata)) + ", must be even";
  if (is_block_scaled(c.shape.kind) && (lane_of(c.scale_a) != 0 || lane_of(c.scale_b) != 0))
    return "block scales start at lane " + std::to_string(std::max(lane_of(c.scale_a), lane_of(c.scale_b))) +
           ", must be 0";
  return {};
}

Rectangle cells_of_d(const MmaCall& c, int cta) {
  const Placement p = placement_of(c);
  Rectangle r{column_of(c.d), p.columns, p.lanes()};
  r.lanes.remove(c.disabled[static_cast<std::size_t>(cta)]);
  return r;
}

Rectangle cells_of_a(const MmaCall& c) {
  const int per_cell = c.shape.kind == MmaKind::tf32  ? 1
                       : c.shape.kind == MmaKind::f16 ? 2
                       : is_four_bit(c.shape.kind)    ? 8
                                                      : 4;
  return {column_of(c.a), static_cast<std::uint32_t>(k_of(c.shape.kind) / per_cell), placement_of(c).lanes()};
}

Rectangle cells_of_scales(const MmaCall& c, bool of_a) {
  const Placement p = placement_of(c);
  const std::uint32_t count = of_a ? rows_of(c) : p.columns;
  return {column_of(of_a ? c.scale_a : c.scale_b), (count + 31) / 32, LaneMask::all()};
}

Rectangle cells_of_metadata(const MmaCall& c) {
  const bool one = c.shape.kind == MmaKind::f16 || c.shape.kind == MmaKind::tf32;
  return {column_of(c.metadata) + c.i.selector, one ? 1u : 2u, placement_of(c).lanes()};
}

OperandExtent extent_of_a(const MmaCall& c) {
  return extent_of(c.i.a, rows_of(c), k_of(c.shape.kind), c.i.mn_major_a);
}
OperandExtent extent_of_b(const MmaCall& c) {
  return extent_of(c.i.b, static_cast<std::uint32_t>(c.i.n / c.shape.group) + c.zero_columns.shift,
                   k_of(c.shape), c.i.mn_major_b, c.shape.sparse ? 4 : 2);
}

void footprint_of_b(const MmaCall& c, std::vector<ByteRange>& out) {
  const OperandExtent e = extent_of_b(c);
  const ZeroColumns& z = c.zero_columns;
  if (!z.any()) return matrix_footprint(c.desc_b, e, out);
  const std::uint32_t per_chunk = e.mn_major ? static_cast<std::uint32_t>(128 / bits_of(c.i.b)) : 1,
                      n = static_cast<std::uint32_t>(c.i.n);
  part_footprint(
      c.desc_b, e,
      [&](std::uint32_t outer, std::uint32_t inner) {
        const std::uint32_t first = (e.mn_major ? inner : outer) * per_chunk;
        for (std::uint32_t column = first; column < first + per_chunk; ++column)
          if (column >= z.shift && column - z.shift < n && !z.has(column - z.shift)) return true;
        return false;
      },
      out);
}

}  // namespace kiln::emulator::tcgen05
