// Copies that bring equal bytes to one place: they disturb nobody, whether they have landed or are under way.
#include <algorithm>
#include <cstring>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

/// Whether `a` brings to [at, at + bytes) what the writer noted in `s` has left there or will.
bool RaceTracker::brings_equal(const SharedAccess& a, const Slot& s, std::uint32_t bytes,
                               std::uint32_t at) const {
  const std::uint8_t* const mine = a.brings + (at - a.offset);
  bool under_way = false;
  if (s.agent % kUnits == static_cast<std::uint32_t>(Unit::cp_async))
    for (const LaneCopy& c : warp_of(s.agent).copies.pending) {
      const std::uint32_t to = c.shared & 0xffffffu;
      if (c.arrive || c.done || to + c.bytes <= at || at + bytes <= to) continue;
      under_way = true;
      const std::uint8_t* const from = cluster_.launch->memory->at(c.global);
      for (std::uint32_t i = std::max(at, to); i < std::min(at + bytes, to + c.bytes); ++i)
        if (mine[i - at] != (i - to < c.source_bytes ? from[i - to] : 0)) return false;
    }
  return under_way || std::memcmp(a.block.smem.data() + at, mine, bytes) == 0;
}

}  // namespace kiln::emulator
