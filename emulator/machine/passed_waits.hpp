// Waits that come in time. A wait by parity tells a phase of an mbarrier from its neighbours only: lanes that pass it
// must have passed before the phase after it ends, or they find the parity of the phase before again and wait for ever
// (or for one phase too many). Lanes of a warp that wait together need not look together on a GPU: while one of them
// waits somewhere else, the others may go on, and where only one lane issues the copies nobody waits for those that fall
// behind.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace kiln::emulator {

struct Cluster;
struct MBarrier;
struct Op;
struct Warp;

/// Lanes of a warp have found a phase of an mbarrier complete.
struct PassedWait {
  Warp* warp = nullptr;
  const Op* op = nullptr;
  std::uint32_t lanes = 0;
  std::uint32_t epoch = 0;  ///< of the warp, when each of them passed
  std::uint32_t met = 0,
                met_at = 0;  ///< lanes any of which tells of all since that epoch; 0: they have not met
};

/// `lanes` of `w` pass the wait `op` for the latest phase of `m`.
void note_passed(Warp& w, const Op& op, MBarrier& m, std::uint32_t lanes);
/// `lanes` of `w` meet in one instruction: none of them goes on before all have come. It orders no memory.
void note_met(Warp& w, std::uint32_t lanes);
/// A phase of `m` has ended: reports waits for the one before that nothing orders before this.
void check_passed(Cluster& c, MBarrier& m);

}  // namespace kiln::emulator
