// Named barriers and mbarriers: counting, completion and misuse.
#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

void barrier_settle(Block& b, NamedBarrier& n) {
  if (n.arrived == 0) return;
  const std::uint32_t expected = n.all ? b.live_lanes() : n.expected;
  if (n.arrived < expected) return;
  if (n.all && !n.only_arrived && b.live_warps == b.warps.size() && b.cluster->races != nullptr)
    b.cluster->races->block_met(b);
  n.arrived = 0;
  n.warps = 0;
  n.only_arrived = false;
  ++n.generation;
  n.done = std::move(n.arriving);
  n.arriving.clear();
  n.last_and = n.and_;
  n.last_or = n.or_;
  n.last_popc = n.popc;
  n.and_ = 1;
  n.or_ = n.popc = 0;
  ++b.cluster->progress;
}

MBarrier* find_mbarrier(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset) {
  const auto it = block.mbarriers.find(offset);
  if (it != block.mbarriers.end()) {
    MBarrier& m = it->second;
    RaceTracker* r = block.cluster->races.get();
    if (r == nullptr || r->follows(w, lane, block.warps[static_cast<std::size_t>(m.init_warp)], m.init_epoch))
      return &m;
    report(w, op, lane, "invalid-mbarrier",
           "nothing orders this after the initialisation of the mbarrier at shared address " +
               std::to_string(offset) + " by warp " + std::to_string(m.init_warp),
           site_of(block.warps[static_cast<std::size_t>(m.init_warp)], *m.init, -1));
    m.init_epoch = 0;  // said once
    return &m;
  }
  report(w, op, lane, "invalid-mbarrier",
         "no mbarrier was initialised at shared address " + std::to_string(offset));
  return nullptr;
}

void check_mbarriers_kept(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset,
                          std::uint32_t bytes) {
  for (const auto& [at, m] : block.mbarriers) {
    if (at + 8 <= offset || at >= offset + bytes) continue;
    report(w, op, lane, "invalid-mbarrier",
           "writes over the mbarrier at shared address " + std::to_string(at) +
               ", which no mbarrier.inval ended",
           site_of(block.warps[static_cast<std::size_t>(m.init_warp)], *m.init, -1));
    return;
  }
}

void mbarrier_settle(Cluster& c, MBarrier& m) {
  if (m.pending != 0 || m.tx != 0) return;
  ++m.phase;
  join(m.done, m.arriving);
  m.arriving.clear();
  if (!m.passed.empty()) check_passed(c, m);
  m.pending = m.count;
  ++c.progress;
}

void report_overrun(Warp& w, const Op& op, int lane, std::uint32_t offset, const MBarrier& m) {
  report(w, op, lane, "mbarrier-overrun",
         "arrival at mbarrier " + std::to_string(offset) + " whose " + std::to_string(m.count) +
             " arrivals of this phase are all in");
}

void mbarrier_arrive(Cluster& c, MBarrier& m, std::uint32_t count) {
  ++c.progress;
  m.pending -= std::min(count, m.pending);
  mbarrier_settle(c, m);
}

void mbarrier_complete_tx(Cluster& c, MBarrier& m, std::int64_t bytes) {
  ++c.progress;
  m.tx -= bytes;
  mbarrier_settle(c, m);
}

}  // namespace kiln::emulator
