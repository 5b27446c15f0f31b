#include "emulator/tcgen05/accesses.hpp"

#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

/// Whether the thread of `now` comes after the issue of `before`, an instruction of the pipe.
bool issued_after(const RaceTracker& races, const Party& before, const Party& now) {
  if (before.warp == now.warp)
    return before.lane == now.lane || before.warp->lanes.knows(now.lane, 1u << before.lane, before.issued);
  return races.knows(*now.warp, now.lane, races.agent(*before.warp, 0), before.issued, 0);
}

/// The pairs that PTX calls pipelined: "tcgen05 memory consistency model, pipelined instructions".
bool pipelined(const Party& before, const Party& now) {
  const bool same = before.form == now.form;
  switch (before.what) {
    case Access::accumulator:
      return now.what == Access::shift || (now.what == Access::accumulator && same);
    case Access::copy:
      return now.what == Access::accumulator || now.what == Access::operand || now.what == Access::moved;
    case Access::shift:
      return true;
    case Access::moved:
      return now.what == Access::shift ||
             ((now.what == Access::operand || now.what == Access::moved) && same);
    default:
      return now.what == Access::shift || (now.what == Access::moved && same);
  }
}

}  // namespace

Verdict judge(const RaceTracker& races, const Party& before, const Party& now) {
  if (!before.write && !now.write) return Verdict::ordered;
  if (!in_pipe(before.what)) {
    if (before.pending) return Verdict::race;
    if (before.warp == now.warp) return Verdict::ordered;
    return races.knows(*now.warp, now.lane, races.agent(*before.warp, 0), before.epoch, 0) ? Verdict::ordered
                                                                                           : Verdict::race;
  }
  if (races.knows(*now.warp, now.lane, races.agent(*before.warp, kPipeUnit), before.epoch, 0))
    return Verdict::ordered;
  if (!in_pipe(now.what) || !issued_after(races, before, now)) return Verdict::race;
  if (pipelined(before, now)) return Verdict::ordered;
  // PTX promises nothing for these; kernels live on the pipe's reading operands in the order of issue.
  const bool overwrites_operand = before.what == Access::operand ||
                                  (before.what == Access::copy && now.what == Access::copy) ||
                                  (before.what == Access::moved && now.what != Access::accumulator);
  return overwrites_operand ? Verdict::in_order_only : Verdict::race;
}

void Accesses::check(const RaceTracker& races, const Rectangle& r, const Party& party,
                     const Conflict& conflict) const {
  for (std::uint32_t c = r.column; c < r.column + r.columns; ++c)
    for (const Entry& e : columns_[c]) {
      if (!e.lanes.intersects(r.lanes)) continue;
      const Verdict v = judge(races, e.party, party);
      if (v == Verdict::ordered) continue;
      LaneMask common = e.lanes;
      for (std::size_t i = 0; i < 2; ++i) common.words[i] &= r.lanes.words[i];
      conflict(e.party, v, common.first(), c);
    }
}

void Accesses::note(const RaceTracker& races, const Rectangle& r, const Party& party,
                    const Conflict& conflict) {
  // A chain of products on one accumulator: in every column the one before, and nothing else.
  const auto continues = [&](const std::vector<Entry>& entries) {
    return party.what == Access::accumulator && entries.size() == 1 && entries[0].lanes == r.lanes &&
           entries[0].party.what == Access::accumulator && entries[0].party.form == party.form &&
           entries[0].party.warp == party.warp && entries[0].party.lane == party.lane;
  };
  for (std::uint32_t c = r.column; c < r.column + r.columns; ++c) {
    auto& entries = columns_[c];
    if (continues(entries)) {
      entries[0].party = party;
      continue;
    }
    check(races, {c, 1, r.lanes}, party, conflict);
    if (party.write) {
      for (Entry& e : entries) e.lanes.remove(r.lanes);
      std::erase_if(entries, [](const Entry& e) { return e.lanes.empty(); });
    } else {
      // A later read of the same agent stands for an earlier one.
      std::erase_if(entries, [&](const Entry& e) {
        return !e.party.write && !e.party.pending && e.party.warp == party.warp &&
               e.party.what == party.what && r.lanes.contains(e.lanes) && !party.pending;
      });
    }
    entries.push_back({r.lanes, party});
  }
}

void Accesses::complete(const Warp& w, std::uint32_t number, std::uint32_t epoch, const Rectangle& r) {
  for (std::uint32_t c = r.column; c < r.column + r.columns; ++c) {
    auto& entries = columns_[c];
    LaneMask read;
    for (Entry& e : entries) {
      if (e.party.warp != &w || e.party.number != number || in_pipe(e.party.what)) continue;
      e.party.pending = false;
      e.party.epoch = epoch;
      if (!e.party.write) read.add(e.lanes);
    }
    std::erase_if(entries, [&](const Entry& e) {
      return e.party.what == Access::load && !e.party.pending && e.party.warp == &w &&
             e.party.number != number && read.contains(e.lanes);
    });
  }
}

void Accesses::forget(std::uint32_t column, std::uint32_t columns) {
  for (std::uint32_t c = column; c < column + columns; ++c) columns_[c].clear();
}

}  // namespace kiln::emulator::tcgen05
