#include "emulator/machine/races.hpp"

#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

RaceTracker::RaceTracker(Cluster& cluster) : cluster_(cluster) {
  std::uint32_t warps = 0;
  for (const auto& b : cluster.blocks) {
    first_warp_.push_back(warps);
    warps += static_cast<std::uint32_t>(b->warps.size());
    cells_.emplace_back(b->smem.size() / 16 + 1);
  }
  clocks_.resize(warps);
  for (Clock& c : clocks_) c.agents.assign(std::size_t{warps} * kUnits, 0);
  pending_.resize(warps);
  at_fence_.assign(warps, {});
  for (std::uint32_t w = 0; w < warps; ++w) clocks_[w].agents[w * kUnits] = 1;
  unit_epoch_.assign(std::size_t{warps} * kUnits, 0);
  fenced_.assign(std::size_t{warps} * kUnits, 0);
}

std::uint32_t RaceTracker::index(const Warp& w) const {
  return first_warp_[w.block->rank] + static_cast<std::uint32_t>(w.index);
}

bool RaceTracker::knows(const Warp& w, int lane, std::uint32_t agent, std::uint32_t epoch,
                        std::uint32_t lanes) const {
  const std::uint32_t i = index(w);
  if (clocks_[i].knows(agent, epoch, lanes)) return true;
  for (const Pending& p : pending_[i])
    if ((lane < 0 ? (w.live & ~p.lanes) == 0 : (p.lanes >> lane & 1) != 0) &&
        p.clock.knows(agent, epoch, lanes))
      return true;
  return false;
}

Clock& RaceTracker::pending(Warp& w, std::uint32_t lanes) {
  auto& list = pending_[index(w)];
  for (Pending& p : list)
    if (p.lanes == lanes) return p.clock;
  list.push_back({lanes, {}});
  return list.back().clock;
}

Clock RaceTracker::snapshot(const Warp& w, std::uint32_t lanes) const {
  const std::uint32_t i = index(w), self = i * kUnits;
  Clock c = clocks_[i];
  for (const Pending& p : pending_[i])
    if ((p.lanes & lanes) != 0) join(c, p.clock);
  if ((w.live & ~lanes) == 0) return c;
  const std::uint32_t now = c.agents[self];
  c.agents[self] = w.lanes.full_epoch;
  c.add({self, now, w.lanes.met(lanes)});
  return c;
}

void RaceTracker::retire(Warp& w, std::uint32_t unit, std::uint32_t epoch, std::uint32_t lanes) {
  const bool all = (w.live & ~lanes) == 0;
  Epochs& agents = all ? clocks_[index(w)].agents : pending(w, lanes).agents;
  agents.resize(unit_epoch_.size(), 0);
  agents[agent(w, unit)] = std::max(agents[agent(w, unit)], epoch);
}

Clock RaceTracker::published(const Warp& w, int lane, std::uint32_t unit, std::uint32_t epoch) const {
  Clock c = snapshot(w, lane < 0 ? w.live : 1u << lane);
  std::uint32_t& own = c.agents[agent(w, unit)];
  own = std::max(own, epoch);
  // What the warp does after this point is not part of it.
  return c;
}

void RaceTracker::release(Warp& w, Clock& into, std::uint32_t lanes) {
  const std::uint32_t i = index(w);
  if ((w.live & ~lanes) == 0 && pending_[i].empty())
    join(into, clocks_[i]);
  else
    join(into, snapshot(w, lanes));
  ++clocks_[i].agents[i * kUnits];
}

void RaceTracker::acquire(Warp& w, const Clock& from, std::uint32_t lanes) {
  const std::uint32_t i = index(w), self = i * kUnits;
  // Lanes that meet what their own warp has published have met each other.
  bool own = self < from.agents.size() && from.agents[self] > w.lanes.full_epoch;
  for (const Partial& p : from.partial) own |= p.agent == self && p.epoch > w.lanes.full_epoch;
  const bool all = (w.live & ~lanes) == 0;
  join(all ? clocks_[i] : pending(w, lanes), from);
  // The own epoch is not news, and must not run ahead.
  if (own) synchronize_lanes(w, lanes);
}

void RaceTracker::synchronize_lanes(Warp& w, std::uint32_t lanes) {
  const std::uint32_t i = index(w);
  w.lanes.synchronize(lanes, w.live);
  auto& list = pending_[i];
  if ((w.live & ~lanes) != 0) {
    for (Pending& p : list)
      if ((p.lanes & lanes) != 0) p.lanes |= lanes;
    return;
  }
  for (const Pending& p : list) join(clocks_[i], p.clock);
  list.clear();
  w.lanes.full_epoch = clocks_[i].agents[i * kUnits]++;
}

bool RaceTracker::knows_remote(const Warp& w, std::uint64_t cluster, std::uint32_t agent,
                               std::uint32_t epoch) const {
  const RemotePtr& remote = clocks_[index(w)].remote;
  if (remote == nullptr) return false;
  const auto it = remote->find(cluster);
  return it != remote->end() && agent < it->second.size() && it->second[agent] >= epoch;
}

void RaceTracker::fence(Warp& w) {
  Clock& c = clocks_[index(w)];
  join(c.remote, c.pending);
  c.pending.reset();
  c.fenced = c.agents;
  ++c.agents[agent(w, 0)];
}

void RaceTracker::observe(Warp& w, const RemotePtr& published, bool acquire) {
  Clock& c = clocks_[index(w)];
  join(acquire ? c.remote : c.pending, published);
  if (acquire && published != nullptr)
    if (const auto own = published->find(cluster_.index); own != published->end())
      join(c.agents, own->second);
}

RemotePtr RaceTracker::publication(Warp& w, std::uint64_t cluster, bool release) {
  Clock& c = clocks_[index(w)];
  auto out = c.remote == nullptr ? std::make_shared<Remote>() : std::make_shared<Remote>(*c.remote);
  if (release) {
    (*out)[cluster] = c.agents;
    ++c.agents[agent(w, 0)];
  } else if (!c.fenced.empty()) {
    (*out)[cluster] = c.fenced;
  } else {
    return nullptr;
  }
  return out;
}

Site RaceTracker::remote_site(std::uint64_t cluster, std::uint32_t agent, std::uint32_t op) const {
  const std::uint32_t warp = agent / kUnits;
  const auto rank = static_cast<std::size_t>(std::upper_bound(first_warp_.begin(), first_warp_.end(), warp) -
                                             first_warp_.begin() - 1);
  const Warp& like = cluster_.blocks[rank]->warps[warp - first_warp_[rank]];
  Site s = site_of(like, cluster_.program->ops[op], -1);
  s.block = block_of(*cluster_.launch->launch, cluster, static_cast<std::uint32_t>(rank));
  return s;
}

void RaceTracker::synchronize(Warp& w, std::uint64_t address) {
  Clock& c = variables_[address];
  // Lanes that meet at a variable are not told apart.
  acquire(w, c, w.live);
  synchronize_lanes(w, w.live);
  release(w, c, w.live);
}

void RaceTracker::proxy_fence(Warp& w) {
  const std::uint32_t i = index(w);
  fenced_[i * kUnits] = clocks_[i].agents[i * kUnits];
  // cp.async writes count once they were waited for.
  const std::uint32_t copies = agent(w, static_cast<std::uint32_t>(Unit::cp_async));
  fenced_[copies] = clocks_[i].agents[copies];
  at_fence_[i] = clocks_[i].agents;
  ++clocks_[i].agents[i * kUnits];
}

void RaceTracker::access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset,
                         std::uint32_t bytes, bool write, std::uint32_t unit, std::uint32_t epoch,
                         bool silent) {
  if (unit == 0 && lane >= 0) block.lane_races->access(w, op, lane, block, offset, bytes, write);
  const std::uint32_t i = index(w);
  const Epochs& clock = clocks_[i].agents;
  const std::uint32_t self = i * kUnits + unit, thread = i * kUnits;
  if (unit == 0) epoch = clock[self];
  const auto op_index = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  const bool async_proxy = unit != 0 && unit != static_cast<std::uint32_t>(Unit::cp_async);
  const std::uint32_t end =
      std::min<std::uint32_t>(offset + bytes, static_cast<std::uint32_t>(block.smem.size()));
  // A thread follows its own past; what its units did it follows only once retired.
  const std::uint32_t lanes = lane < 0 ? w.live : 1u << lane;
  const auto ordered = [&](const Slot& s) {
    if (s.agent == thread)  // between threads of a warp LaneTracker judges
      return unit == 0 || lane < 0 || s.epoch <= w.lanes.full_epoch || (s.lanes & ~w.lanes.met(lanes)) == 0;
    return s.epoch <= clock[s.agent] || knows(w, lane, s.agent, s.epoch, s.lanes);
  };
  const auto note_in = [&](Slot& s, std::uint16_t mask) {
    if (s.agent == self && s.epoch == epoch) {
      s.mask |= mask;
      s.lanes |= lanes;
      s.op = op_index;
    } else {
      s = {static_cast<std::uint16_t>(self), mask, epoch, op_index, lanes};
    }
  };
  for (std::uint32_t at = offset; at < end;) {
    const std::uint32_t base = at & ~15u, stop = std::min(end, base + 16);
    const auto mask = static_cast<std::uint16_t>(((1u << (stop - base)) - 1) & ~((1u << (at - base)) - 1));
    const auto note = [&](Slot& s) { note_in(s, mask); };
    Cell& cell = cells_[block.rank][base / 16];
    const std::uint64_t key = std::uint64_t{block.rank} << 32 | base;
    const Slot* last = &cell.write;
    const bool overlaps = last->epoch != 0 && (last->mask & mask) != 0;
    if (overlaps && silent && !ordered(*last) && (last->mask & mask) == mask) {
      Slot* free = &cell.same[0];
      for (Slot& s : cell.same)
        if (s.epoch == 0 || s.agent == self) free = &s;
      note(*free);
      at = stop;
      continue;
    }
    if (overlaps) {
      if (!write && !ordered(*last))
        for (const Slot& s : cell.same)
          if (s.epoch != 0 && (s.mask & mask) == mask && ordered(s)) last = &s;
      if (!ordered(*last) &&
          !(write && last->agent == self && unit == static_cast<std::uint32_t>(Unit::cp_async))) {
        conflict(w, op, lane, block, at, *last, write, true, unit);
      } else if (async_proxy && !write) {
        const std::uint32_t by = last->agent % kUnits;
        const bool generic = by == 0 || by == static_cast<std::uint32_t>(Unit::cp_async);
        const bool fenced = fenced_[last->agent] >= last->epoch ||
                            (!at_fence_[i].empty() && at_fence_[i][last->agent] >= last->epoch);
        if (generic && !fenced) missing_fence(w, op, lane, at, *last);
      }
    }
    if (write) {
      for (Slot& r : cell.reads) {
        if (r.epoch != 0 && (r.mask & mask) != 0 && r.agent != self && !silent && !ordered(r))
          conflict(w, op, lane, block, at, r, true, false, unit);
        r.epoch = 0;
      }
      if (cell.more) {
        for (const Slot& r : more_reads_[key])
          if ((r.mask & mask) != 0 && r.agent != self && !silent && !ordered(r))
            conflict(w, op, lane, block, at, r, true, false, unit);
        more_reads_.erase(key);
        cell.more = false;
      }
      for (Slot& same : cell.same) same.epoch = 0;
      note(cell.write);
    } else {
      Slot* free = nullptr;
      for (Slot& r : cell.reads) {
        if (r.epoch != 0 && r.agent == self) {
          free = &r;
          break;
        }
        if (free == nullptr && (r.epoch == 0 || ordered(r))) free = &r;
      }
      if (free == nullptr) {  // more readers than slots, none of them known to this one
        auto& more = more_reads_[key];
        cell.more = true;
        const auto mine =
            std::find_if(more.begin(), more.end(), [&](const Slot& s) { return s.agent == self; });
        free = mine != more.end() ? &*mine : &more.emplace_back();
      }
      note(*free);
    }
    at = stop;
  }
}

namespace {
std::string unit_name(std::uint32_t unit) {
  switch (unit) {
    case 0:
      return "a thread's access";
    case 1:
      return "wgmma";
    case 2:
      return "a bulk store";
    case 3:
      return "cp.async";
    default:
      return "a bulk load";
  }
}
}  // namespace

void RaceTracker::conflict(Warp& w, const Op& op, int lane, Block& block, std::uint32_t address,
                           const Slot& other, bool write, bool other_write, std::uint32_t unit) {
  const auto mine = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  if (!reported_.insert({mine, other.op}).second) return;
  const std::uint32_t warp = other.agent / kUnits, by = other.agent % kUnits;
  const auto rank = static_cast<std::size_t>(std::upper_bound(first_warp_.begin(), first_warp_.end(), warp) -
                                             first_warp_.begin() - 1);
  const Warp& party = cluster_.blocks[rank]->warps[warp - first_warp_[rank]];
  report(w, op, lane, unit == 0 && by == 0 ? "shared-race" : "async-memory",
         unit_name(unit) + (write ? " writes" : " reads") + " shared address " + std::to_string(address) +
             (&block != w.block ? " of block rank " + std::to_string(block.rank) : "") + ", unordered with " +
             unit_name(by) + " of warp " + std::to_string(party.index) + " that " +
             (other_write ? "writes" : "reads") + " it",
         site_of(party, cluster_.program->ops[other.op], -1));
}

void RaceTracker::missing_fence(Warp& w, const Op& op, int lane, std::uint32_t address, const Slot& other) {
  const auto mine = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  if (!reported_.insert({mine, other.op}).second) return;
  const std::uint32_t warp = other.agent / kUnits;
  const auto rank = static_cast<std::size_t>(std::upper_bound(first_warp_.begin(), first_warp_.end(), warp) -
                                             first_warp_.begin() - 1);
  const Warp& party = cluster_.blocks[rank]->warps[warp - first_warp_[rank]];
  report(w, op, lane, "missing-proxy-fence",
         "shared address " + std::to_string(address) + " was written by warp " + std::to_string(party.index) +
             " through the generic proxy, with no fence.proxy.async before this asynchronous read",
         site_of(party, cluster_.program->ops[other.op], -1));
}

}  // namespace kiln::emulator
