#include "emulator/machine/passed_waits.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {
namespace {

/// Whether what has been published of an agent includes what any of `lanes` did from `epoch` on.
bool knows_any(const Clock& clock, std::uint32_t agent, std::uint32_t epoch, std::uint32_t lanes) {
  if (lanes == 0) return false;
  if (agent < clock.agents.size() && clock.agents[agent] >= epoch) return true;
  return std::ranges::any_of(clock.partial_of(agent),
                             [&](const Partial& p) { return p.epoch >= epoch && (p.lanes & lanes) != 0; });
}

}  // namespace

void note_passed(Warp& w, const Op& op, MBarrier& m, std::uint32_t lanes) {
  if (!w.block->cluster->races || lanes == 0) return;
  // A later wait of the same lanes stands for the earlier one.
  std::erase_if(m.passed, [&](const auto& p) { return p->warp == &w && (p->lanes & ~lanes) == 0; });
  auto passed = std::make_shared<PassedWait>(PassedWait{&w, &op, lanes, w.block->cluster->races->epoch(w)});
  m.passed.push_back(passed);
  if (std::has_single_bit(lanes)) return;
  constexpr std::size_t kMany = 64;
  if (w.passed.size() >= kMany) std::erase_if(w.passed, [](const auto& p) { return p.use_count() == 1; });
  w.passed.push_back(std::move(passed));
}

void note_met(Warp& w, std::uint32_t lanes) {
  if (w.passed.empty()) return;
  std::erase_if(w.passed, [&](const auto& p) {
    if ((p->lanes & ~lanes & w.live) != 0) return false;
    p->met = lanes;
    p->met_at = w.block->cluster->races->epoch(w);
    return true;
  });
}

void check_passed(Cluster& c, MBarrier& m) {
  for (const auto& p : m.passed) {
    const std::uint32_t agent = c.races->agent(*p->warp, 0);
    // Where no lane of the warp had a part in it, others did: warps that meet in a wgmma, one of which arrives.
    if (!knows_any(m.done, agent, p->epoch, ~0u)) continue;
    if (m.done.knows(agent, p->epoch, p->lanes) || knows_any(m.done, agent, p->met_at, p->met)) continue;
    report(*p->warp, *p->op, std::countr_zero(p->lanes), "missed-phase",
           "nothing makes the end of the mbarrier's next phase wait until " +
               std::string(std::has_single_bit(p->lanes) ? "this lane has" : "all these lanes have") +
               " passed: one that comes later finds the parity of the phase before and waits on");
  }
  m.passed.clear();
}

}  // namespace kiln::emulator
