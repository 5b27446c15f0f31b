#include "emulator/tcgen05/copy.hpp"

#include <cstring>

namespace kiln::emulator::tcgen05 {
namespace {

/// A slot of 16 elements of 4 or 6 bits as 16 bytes: e2m1 in bits 5 to 2, the 6-bit types in bits 5 to 0.
void expand_slot(int bits, const std::uint8_t* slot, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    const int at = i * bits;
    std::uint32_t word = slot[at / 8];
    if (at % 8 + bits > 8) word |= static_cast<std::uint32_t>(slot[at / 8 + 1]) << 8;
    const std::uint32_t value = word >> at % 8 & ((1u << bits) - 1);
    out[i] = static_cast<std::uint8_t>(bits == 4 ? value << 2 : value);
  }
}

}  // namespace

std::uint32_t CopyShape::rows() const {
  switch (name) {
    case Name::r128x256b:
    case Name::r128x128b:
      return 128;
    case Name::r4x256b:
      return 4;
    case Name::r32x128b_x4:
      return 32;
    default:
      return 64;
  }
}

LaneMask CopyShape::lanes_of(std::uint32_t r) const {
  LaneMask m;
  switch (name) {
    case Name::r128x256b:
    case Name::r128x128b:
      m.add_lane(r);
      break;
    case Name::r4x256b:
      m.add_lane(32 * r + 31);
      break;
    case Name::r64x128b_02_13:
      m.add_lane(r);
      m.add_lane(r + 64);
      break;
    case Name::r64x128b_01_23:
      m.add_lane(r / 32 * 64 + r % 32);
      m.add_lane(r / 32 * 64 + r % 32 + 32);
      break;
    case Name::r32x128b_x4:
      for (std::uint32_t q = 0; q < 4; ++q) m.add_lane(32 * q + r);
      break;
  }
  return m;
}

LaneMask CopyShape::lanes() const {
  LaneMask m;
  for (std::uint32_t r = 0; r < rows(); ++r) m.add(lanes_of(r));
  return m;
}

void copy_to_tensor(const CopyCall& c, const Cta& cta) {
  static constexpr std::uint8_t kZeros[16] = {};
  const OperandLayout& layout = matrix_layout(c.descriptor, c.shape.extent());
  const std::uint32_t base = layout_base(c.descriptor), chunks = c.shape.chunks();
  for (std::uint32_t r = 0; r < c.shape.rows(); ++r) {
    const LaneMask lanes = c.shape.lanes_of(r);
    for (std::uint32_t i = 0; i < chunks; ++i) {
      const std::uint32_t address = (base + layout.chunks[r * chunks + i]) % kDescriptorSpace;
      const std::uint8_t* from = address + 16 <= cta.shared.size() ? cta.shared.data() + address : kZeros;
      std::uint8_t expanded[16];
      if (c.shape.expand != 0) {
        expand_slot(c.shape.expand, from, expanded);
        from = expanded;
      }
      for (std::uint32_t lane = 0; lane < kLanes; ++lane)
        if (lanes.has(lane)) std::memcpy(cta.tensor->lane(lane) + (c.to & 0xffff) + 4 * i, from, 16);
    }
  }
}

void shift_down(Memory& m, std::uint32_t column) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    if (lane % 32 != 31)
      std::memcpy(m.lane(lane) + column, m.lane(lane + 1) + column, kShiftColumns * sizeof(std::uint32_t));
}

}  // namespace kiln::emulator::tcgen05
