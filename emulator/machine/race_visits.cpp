// Uses of a block's shared memory by other blocks and by bulk loads: it must not have ended. And what is over for all
// of its threads.
#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

void RaceTracker::visit(Warp& w, const Op& op, int lane, Block& block, std::uint32_t unit,
                        std::uint32_t epoch) {
  const auto at = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  if (block.live_warps != 0) {
    auto& list = visits_[block.rank];
    if (list.empty()) list.resize(unit_epoch_.size());
    Visit& v = list[agent(w, unit)];
    const std::uint32_t lanes = lane < 0 ? w.live : 1u << lane;
    v = {epoch, v.epoch == epoch ? v.lanes | lanes : lanes, at};
  } else if (reported_.insert({at, at}).second) {
    report(w, op, lane, "ended-block",
           "uses shared memory of block rank " + std::to_string(block.rank) + ", which has ended");
  }
}

void RaceTracker::block_ended(Warp& last, const Op& op, Block& block) {
  const auto& list = visits_[block.rank];
  for (std::uint32_t by = 0; by < list.size(); ++by) {
    const Visit& v = list[by];
    if (v.epoch == 0) continue;
    const bool known = std::any_of(block.warps.begin(), block.warps.end(),
                                   [&](const Warp& w) { return knows(w, -1, by, v.epoch, v.lanes); });
    if (known || !reported_.insert({v.op, v.op}).second) continue;
    const Warp& party = warp_of(by);
    report(last, op, -1, "ended-block",
           by % kUnits != 0
               ? "the block ends while a bulk load may still write its shared memory: no thread of it has "
                 "waited for the load"
               : "the block ends, and nothing orders this after an access to its shared memory by block "
                 "rank " +
                     std::to_string(party.block->rank),
           site_of(party, cluster_.program->ops[v.op], -1));
  }
}

void RaceTracker::block_met(const Block& block) {
  // What asynchronous units do, and what other blocks do, is not over at a barrier of the block's threads.
  if (!cluster_.program->uses_async && cluster_.blocks.size() == 1) ++cells_[block.rank].now;
}

}  // namespace kiln::emulator
