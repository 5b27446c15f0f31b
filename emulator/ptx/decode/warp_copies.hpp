// cp.async of a warp as a whole: in the common case every lane copies written bytes of global memory to aligned bytes of
// the block's own shared memory, no two of them to one place.
#pragma once

#include "emulator/machine/machine.hpp"

namespace kiln::emulator::ptx {

/// What the executing lanes of one cp.async copy, by lane.
struct WarpCopies {
  std::uint32_t lanes = 0;
  std::uint32_t whole = 0;  ///< lanes whose source is as long as what they write; the rest is zeros
  std::uint64_t global[32];
  std::uint32_t shared[32];
  std::uint8_t source_bytes[32];
};

WarpCopies copies_of(const Warp& w, const Op& op);
/// Sources are mostly read for the first time: what is known of them and their bytes are on the way while lanes are
/// looked at one after another. `distance`: to the copies of a later instruction, whose sources may not be there.
void prefetch_sources(const Cluster& c, const WarpCopies& copies, std::uint64_t distance);
/// Checks all copies and tells the race trackers. False, with nothing done, when some lane needs a closer look.
bool note_plain_copies(Warp& w, const Op& op, const WarpCopies& copies, std::uint32_t epoch);
/// Makes copies that are noted so.
void complete_plain_copies(Warp& w, const Op& op, const WarpCopies& copies);
/// A lane's copy, as the queue of those under way has it.
LaneCopy lane_copy(const Warp& w, const Op& op, const WarpCopies& copies, int lane);

}  // namespace kiln::emulator::ptx
