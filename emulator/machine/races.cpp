#include "emulator/machine/races.hpp"

#include <algorithm>
#include <bit>

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
  fenced_.resize(warps);
  observed_.resize(warps);
  retired_.resize(warps);
  proxy_fenced_.resize(warps);
  visits_.resize(cluster.blocks.size());
  for (std::uint32_t w = 0; w < warps; ++w) clocks_[w].agents[w * kUnits] = 1;
  unit_epoch_.assign(std::size_t{warps} * kUnits, 0);
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
  return agent / kUnits == i && agent % kUnits != 0 && retired(w, lane, agent % kUnits, epoch, lanes);
}

bool RaceTracker::retired(const Warp& w, int lane, std::uint32_t unit, std::uint32_t epoch,
                          std::uint32_t by) const {
  const auto& list = retired_[index(w)];
  const std::uint32_t readers = lane < 0 ? w.live : 1u << lane;
  const auto knows_of = [&](const Retired& r, int issuer) {
    for (std::uint32_t m = readers; m != 0; m &= m - 1)
      if (const int l = std::countr_zero(m); l != issuer && !w.lanes.ordered(l, issuer, r.time)) return false;
    return true;
  };
  const auto done = [&](int issuer) {
    return std::any_of(list.begin(), list.end(), [&](const Retired& r) {
      return r.unit == unit && r.epoch >= epoch && (r.lanes >> issuer & 1) != 0 && knows_of(r, issuer);
    });
  };
  if (by == 0)  // by lanes that nobody noted: one is enough
    for (const Retired& r : list)
      if (r.unit == unit && r.epoch >= epoch && done(std::countr_zero(r.lanes))) return true;
  for (std::uint32_t m = by; m != 0; m &= m - 1)
    if (!done(std::countr_zero(m))) return false;
  return by != 0;
}

void RaceTracker::tick(Warp& w) {
  const std::uint32_t i = index(w);
  w.lanes.now = ++clocks_[i].agents[i * kUnits];
}

Clock& RaceTracker::pending(Warp& w, std::uint32_t lanes) {
  auto& list = pending_[index(w)];
  for (Pending& p : list)
    if (p.lanes == lanes) return p.clock;
  list.push_back({lanes, {}, 0});
  return list.back().clock;
}

Clock RaceTracker::snapshot(const Warp& w, std::uint32_t lanes) const {
  const std::uint32_t i = index(w), self = i * kUnits;
  const bool whole = (w.live & ~lanes) == 0;
  Clock c = clocks_[i];
  for (const Pending& p : pending_[i])
    if ((p.lanes & lanes) != 0) join(c, p.clock);
  for (const Retired& r : retired_[i]) {
    std::uint32_t known = 0;
    for (std::uint32_t m = r.lanes; m != 0; m &= m - 1)
      if (const int l = std::countr_zero(m); w.lanes.known_to(lanes, l, r.time)) known |= 1u << l;
    std::uint32_t& done = c.agents[self + r.unit];
    if (whole) done = std::max(done, r.floor);
    if (known != 0) c.add({self + r.unit, r.epoch, known});
  }
  if (whole) return c;
  const std::uint32_t now = c.agents[self];
  c.agents[self] = w.lanes.all - std::min(w.lanes.all, 1u);
  c.add({self, now, lanes});
  if (w.lanes.known == nullptr) return c;
  // What these lanes know of the others.
  for (std::uint32_t m = w.live & ~lanes; m != 0; m &= m - 1) {
    const int other = std::countr_zero(m);
    std::uint32_t time = 0;
    for (std::uint32_t l = lanes; l != 0; l &= l - 1)
      time = std::max(
          time,
          (*w.lanes.known)[static_cast<std::size_t>(std::countr_zero(l))][static_cast<std::size_t>(other)]);
    if (time > w.lanes.all) c.add({self, time - 1, 1u << other});
  }
  return c;
}

void RaceTracker::retire(Warp& w, std::uint32_t unit, std::uint32_t epoch) {
  std::uint32_t& done = clocks_[index(w)].agents[agent(w, unit)];
  done = std::max(done, epoch);
}

void RaceTracker::retire_own(Warp& w, std::uint32_t unit, std::uint32_t epoch, std::uint32_t floor,
                             std::uint32_t lanes) {
  auto& list = retired_[index(w)];
  for (Retired& r : list)
    if (r.unit == unit && r.lanes == lanes && r.time == w.lanes.now) {
      r.epoch = std::max(r.epoch, epoch);
      r.floor = std::max(r.floor, floor);
      return;
    }
  // Lanes that never meet would pile these up: the oldest counts as known then.
  constexpr std::size_t kMost = 64;
  if (list.size() == kMost) {
    clocks_[index(w)].add({agent(w, list[0].unit), list[0].epoch, list[0].lanes});
    list.erase(list.begin());
  }
  list.push_back({unit, epoch, floor, lanes, w.lanes.now});
  if (std::popcount(w.live) == 1) synchronize_lanes(w, w.live);
}

/// What every lane knows to be done is knowledge of the warp.
void RaceTracker::settle_retired(Warp& w) {
  Clock& c = clocks_[index(w)];
  std::erase_if(retired_[index(w)], [&](const Retired& r) {
    if (r.time >= w.lanes.all) return false;
    std::uint32_t& done = c.agents[agent(w, r.unit)];
    done = std::max(done, r.floor);
    c.add({agent(w, r.unit), r.epoch, r.lanes});
    return true;
  });
}

Clock RaceTracker::published(Warp& w, int lane, std::uint32_t unit, std::uint32_t epoch) {
  Clock c = snapshot(w, lane < 0 ? w.live : 1u << lane);
  if (unit == static_cast<std::uint32_t>(Unit::cp_async) && lane >= 0) {
    c.add({agent(w, unit), epoch, 1u << lane});  // other lanes' copies of the same instruction are theirs
  } else {
    std::uint32_t& own = c.agents[agent(w, unit)];
    own = std::max(own, epoch);
  }
  tick(w);  // what the warp does after this point is not part of it
  return c;
}

void RaceTracker::release(Warp& w, Clock& into, std::uint32_t lanes) {
  const std::uint32_t i = index(w);
  if ((w.live & ~lanes) == 0 && pending_[i].empty() && retired_[i].empty())
    join(into, clocks_[i]);
  else
    join(into, snapshot(w, lanes));
  tick(w);
}

void RaceTracker::acquire(Warp& w, const Clock& from, std::uint32_t lanes) {
  if (from.empty()) return;
  const std::uint32_t i = index(w), self = i * kUnits;
  const bool whole = (w.live & ~lanes) == 0;
  const std::uint32_t own = self < from.agents.size() ? from.agents[self] : 0;
  join(whole ? clocks_[i] : pending(w, lanes), from);
  // Lanes that meet what their own warp has published learn of the lanes that did. All of all since nothing
  // happened in between: a barrier.
  if (whole && own + 1 == w.lanes.now) return synchronize_lanes(w, lanes);
  if (own >= w.lanes.all) w.lanes.learn(lanes, w.live, own + 1, w.live);
  for (const Partial& p : from.partial)
    if (p.agent == self) w.lanes.learn(lanes, p.lanes, p.epoch + 1, w.live);
  settle_retired(w);
}

void RaceTracker::synchronize_lanes(Warp& w, std::uint32_t lanes) {
  const std::uint32_t i = index(w);
  w.lanes.synchronize(lanes, w.live);
  clocks_[i].agents[i * kUnits] = w.lanes.now;
  auto& list = pending_[i];
  if ((w.live & ~lanes) != 0) {
    for (Pending& p : list)
      if ((p.lanes & lanes) != 0) p.lanes |= lanes;
    return;
  }
  for (const Pending& p : list) join(clocks_[i], p.clock);
  list.clear();
  settle_retired(w);
}

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

void RaceTracker::overwrite(Cell& cell, std::uint64_t key, std::uint16_t mask, bool forget) {
  const auto rest = static_cast<std::uint16_t>(cell.write.mask & ~mask);
  // Of bytes that several wrote alike (`same`) nobody is noted beyond the cell's latest write.
  const bool alike =
      std::any_of(cell.same.begin(), cell.same.end(), [](const Slot& s) { return s.epoch != 0; });
  const bool displaced = !forget && cell.write.epoch != 0 && rest != 0 && !alike;
  if (!cell.split && !displaced) return;
  auto& others = other_writes_[key];
  for (Slot& s : others) s.mask &= static_cast<std::uint16_t>(~mask);
  std::erase_if(others, [](const Slot& s) { return s.mask == 0; });
  if (displaced) {
    others.push_back(cell.write);
    others.back().mask = rest;
  }
  cell.split = !others.empty();
  if (!cell.split) other_writes_.erase(key);
}

void RaceTracker::access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset,
                         std::uint32_t bytes, bool write, std::uint32_t unit, std::uint32_t epoch,
                         bool silent) {
  if (unit == 0 && lane >= 0) block.lane_races->access(w, op, lane, block, offset, bytes, write);
  const std::uint32_t i = index(w);
  const Epochs& clock = clocks_[i].agents;
  const std::uint32_t self = i * kUnits + unit, thread = i * kUnits;
  constexpr auto kStrong = static_cast<std::uint32_t>(Unit::strong);
  const bool strong = unit == kStrong, by_thread = unit == 0 || strong;
  if (by_thread) epoch = clock[thread];
  const auto op_index = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  const bool async_proxy = !by_thread && unit != static_cast<std::uint32_t>(Unit::cp_async);
  const std::uint32_t end =
      std::min<std::uint32_t>(offset + bytes, static_cast<std::uint32_t>(block.smem.size()));
  const std::uint32_t lanes = lane < 0 ? w.live : 1u << lane;
  const bool by_load = unit >= static_cast<std::uint32_t>(Unit::bulk_load) &&
                       unit < static_cast<std::uint32_t>(Unit::bulk_write);
  if (by_load || &block != w.block) visit(w, op, lane, block, strong ? 0 : unit, epoch);
  // A thread follows its own past; what its units did it follows only once retired.
  const auto ordered = [&](const Slot& s) {
    const bool other_strong = s.agent % kUnits == kStrong;
    if (strong && other_strong) return true;
    const std::uint32_t by = other_strong ? s.agent - kStrong : s.agent;
    if (by == thread)  // between threads of a warp LaneTracker judges
      return by_thread || lane < 0 || w.lanes.knows(lane, s.lanes, s.epoch);
    return s.epoch <= clock[by] || knows(w, lane, by, s.epoch, s.lanes);
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
  const auto judge = [&](const Slot& s, std::uint32_t at) {
    // Lanes that copy to one place in one cp.async are taken for one: they bring the same.
    const bool together =
        s.agent == self && s.epoch == epoch && unit == static_cast<std::uint32_t>(Unit::cp_async);
    if (!ordered(s) && !(write && together)) {
      conflict(w, op, lane, block, at, s, write, true, unit);
    } else if (async_proxy) {
      const std::uint32_t by = s.agent % kUnits;
      const bool generic = by == 0 || by == kStrong || by == static_cast<std::uint32_t>(Unit::cp_async);
      const std::uint32_t writer = by == kStrong ? s.agent - kStrong : s.agent;
      // By the writer, or by whoever starts this and knows of the write.
      const bool fenced = proxy_fenced_[writer / kUnits].knows(writer, s.epoch, s.lanes) ||
                          proxy_fenced_[i].knows(writer, s.epoch, s.lanes);
      if (generic && !fenced) missing_fence(w, op, lane, at, s, write);
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
      // Who follows any writer of what is there may read; of cp.async each lane's words are its own.
      if (!ordered(*last))
        for (const Slot& s : cell.same)
          if (s.epoch != 0 && (s.mask & mask) == mask && (!write || s.agent == last->agent) && ordered(s))
            last = &s;
      judge(*last, at);
    }
    if (cell.split) {
      const auto& others = other_writes_[key];
      const bool unordered = std::any_of(others.begin(), others.end(),
                                         [&](const Slot& s) { return (s.mask & mask) != 0 && !ordered(s); });
      if (silent && unordered) {  // it disturbs nobody, and who follows either writer may read
        overwrite(cell, key, mask, true);
        at = stop;
        continue;
      }
      for (const Slot& s : others)
        if ((s.mask & mask) != 0) judge(s, at);
    }
    if (write) {
      // Reads of other bytes of the cell stay: their writer is yet to come.
      const auto overtake = [&](Slot& r) {
        if (r.epoch == 0 || (r.mask & mask) == 0) return;
        if (r.agent != self && !silent && !ordered(r)) conflict(w, op, lane, block, at, r, true, false, unit);
        r.mask &= static_cast<std::uint16_t>(~mask);
        if (r.mask == 0) r.epoch = 0;
      };
      for (Slot& r : cell.reads) overtake(r);
      if (cell.more) {
        auto& more = more_reads_[key];
        for (Slot& r : more) overtake(r);
        std::erase_if(more, [](const Slot& r) { return r.epoch == 0; });
        cell.more = !more.empty();
        if (!cell.more) more_reads_.erase(key);
      }
      const bool joins = cell.write.agent == self && cell.write.epoch == epoch;  // the latest write
      if (!joins || cell.split) overwrite(cell, key, mask, joins);
      const bool narrow = unit == static_cast<std::uint32_t>(Unit::cp_async) && bytes < 16;
      if (!narrow || !joins)
        for (Slot& same : cell.same) same.epoch = 0;
      note(cell.write);
      if (narrow) {
        const auto free =
            std::find_if(cell.same.begin(), cell.same.end(), [](const Slot& s) { return s.epoch == 0; });
        if (free != cell.same.end()) note(*free);
      }
    } else {
      Slot* free = nullptr;
      // Of an agent the latest read of a byte counts. An earlier one of other bytes keeps its place, and so
      // does another lane's until this lane knows of it.
      const auto replaces = [&](const Slot& r) {
        if (r.epoch == 0 || r.agent != self) return false;
        if (r.epoch == epoch) return true;
        return (r.mask & ~mask) == 0 && !(by_thread && lane >= 0 && !w.lanes.knows(lane, r.lanes, r.epoch));
      };
      for (Slot& r : cell.reads) {
        if (replaces(r)) {
          free = &r;
          break;
        }
        if (free == nullptr && (r.epoch == 0 || (r.agent != self && (r.mask & ~mask) == 0 && ordered(r))))
          free = &r;
      }
      if (free == nullptr) {  // more readers than slots, none of them known to this one
        auto& more = more_reads_[key];
        cell.more = true;
        const auto mine = std::find_if(more.begin(), more.end(), replaces);
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
    case static_cast<std::uint32_t>(Unit::strong):
      return "an atomic or strong access";
    default:
      return "a bulk load";
  }
}
}  // namespace

void RaceTracker::conflict(Warp& w, const Op& op, int lane, Block& block, std::uint32_t address,
                           const Slot& other, bool write, bool other_write, std::uint32_t unit) {
  const auto mine = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  if (!reported_.insert({mine, other.op}).second) return;
  const std::uint32_t by = other.agent % kUnits;
  const Warp& party = warp_of(other.agent);
  const auto thread = [](std::uint32_t u) { return u == 0 || u == static_cast<std::uint32_t>(Unit::strong); };
  report(w, op, lane, thread(unit) && thread(by) ? "shared-race" : "async-memory",
         unit_name(unit) + (write ? " writes" : " reads") + " shared address " + std::to_string(address) +
             (&block != w.block ? " of block rank " + std::to_string(block.rank) : "") + ", unordered with " +
             unit_name(by) + " of warp " + std::to_string(party.index) + " that " +
             (other_write ? "writes" : "reads") + " it",
         site_of(party, cluster_.program->ops[other.op], -1));
}

void RaceTracker::missing_fence(Warp& w, const Op& op, int lane, std::uint32_t address, const Slot& other,
                                bool write) {
  // Bulk copies write through the async proxy; st.async and red.async do not.
  if (write && cluster_.program->sources[op.source].in->opcode != "cp") return;
  const auto mine = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  if (!reported_.insert({mine, other.op}).second) return;
  const Warp& party = warp_of(other.agent);
  report(w, op, lane, "missing-proxy-fence",
         "shared address " + std::to_string(address) + " was written by warp " + std::to_string(party.index) +
             " through the generic proxy, with no fence.proxy.async before this asynchronous " +
             (write ? "write" : "read"),
         site_of(party, cluster_.program->ops[other.op], -1));
}

}  // namespace kiln::emulator
