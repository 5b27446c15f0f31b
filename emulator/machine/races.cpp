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
  for (std::uint32_t a = 0; a < warps * kUnits; ++a) {
    const std::uint32_t unit = a % kUnits;
    const bool strong = unit == static_cast<std::uint32_t>(Unit::strong) ||
                        unit == static_cast<std::uint32_t>(Unit::strong_before);
    actors_.push_back(static_cast<std::uint16_t>(strong ? a - unit : a));
  }
  pending_.resize(warps);
  fenced_.resize(warps);
  observed_.resize(warps);
  retired_.resize(warps);
  unmet_fences_.resize(warps);
  loaded_.resize(warps);
  for (auto* fences : {&proxy_fenced_, &globally_fenced_}) {
    fences->resize(warps);
    for (Clock& c : *fences) c.agents.assign(std::size_t{warps} * kUnits, 0);
  }
  mbarriers_.resize(warps);
  visits_.resize(cluster.blocks.size());
  for (std::uint32_t w = 0; w < warps; ++w) clocks_[w].agents[std::size_t{w} * kUnits] = 1;
  unit_epoch_.assign(std::size_t{warps} * kUnits, 0);
}

std::uint32_t RaceTracker::index(const Warp& w) const {
  return first_warp_[w.block->rank] + static_cast<std::uint32_t>(w.index);
}

/// Mbarriers of a warp are told apart in the order in which it uses them, as far as there are units.
std::uint32_t RaceTracker::number_of(const Warp& w, std::uint32_t mbarrier) {
  auto& list = mbarriers_[index(w)];
  const auto it = std::find(list.begin(), list.end(), mbarrier);
  const auto number = static_cast<std::uint32_t>(it - list.begin());
  if (it == list.end()) list.push_back(mbarrier);
  return number % kUnitsOfMbarriers;
}

bool RaceTracker::knows(const Warp& w, int lane, std::uint32_t agent, std::uint32_t epoch,
                        std::uint32_t lanes) const {
  const std::uint32_t i = index(w);
  if (clocks_[i].knows(agent, epoch, lanes)) return true;
  // All of the warp know what each of its lanes has learned, be it at different times.
  const std::uint32_t readers = lane < 0 ? w.live : 1u << lane;
  std::uint32_t informed = 0;
  for (const Pending& p : pending_[i])
    if ((readers == 0 || (p.lanes & readers & ~informed) != 0) && p.clock.knows(agent, epoch, lanes))
      informed |= p.lanes;
  if (informed != 0 && (readers & ~informed) == 0) return true;
  return agent / kUnits == i && agent % kUnits != 0 && retired(w, lane, agent % kUnits, epoch, lanes);
}

bool RaceTracker::follows(const Warp& w, int lane, const Clock& clock) const {
  const auto known = [&](std::uint32_t agent, std::uint32_t epoch, std::uint32_t lanes) {
    if (agent == index(w) * kUnits)
      return epoch < w.lanes.all || w.lanes.knows(lane, lanes == 0 ? w.live : lanes, epoch);
    return knows(w, lane, agent, epoch, lanes);
  };
  for (std::uint32_t a = 0; a < clock.agents.size(); ++a)
    if (clock.agents[a] != 0 && !known(a, clock.agents[a], 0)) return false;
  return std::all_of(clock.partial.begin(), clock.partial.end(),
                     [&](const Partial& p) { return known(p.agent, p.epoch, p.lanes); });
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
  w.lanes.now = ++clocks_[i].agents[std::size_t{i} * kUnits];
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

void RaceTracker::retire(const Warp& w, const Warp& of, std::uint32_t unit, std::uint32_t epoch) {
  std::uint32_t& done = clocks_[index(w)].agents[agent(of, unit)];
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
  const std::uint32_t by = lane < 0 ? w.live : 1u << lane;
  if (w.global_words.unmet(w.lanes, by)) cluster_.launch->globals->note_unmet(w);
  Clock c = snapshot(w, by);
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
  if ((w.live & ~lanes) != 0 && w.global_words.unmet(w.lanes, lanes)) cluster_.launch->globals->note_unmet(w);
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
  clocks_[i].agents[std::size_t{i} * kUnits] = w.lanes.now;
  note_met(w, lanes);
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

namespace {
std::string unit_name(std::uint32_t unit, const Program& p) {
  switch (unit) {
    case 0:
      return "a thread's access";
    case 1:
      return p.uses_tcgen05 ? "the tensor pipe (tcgen05)" : "wgmma";
    case 2:
      return "a bulk store";
    case 3:
      return "cp.async";
    case static_cast<std::uint32_t>(Unit::strong):
    case static_cast<std::uint32_t>(Unit::strong_before):
      return "an atomic or strong access";
    case static_cast<std::uint32_t>(Unit::reduction):
    case static_cast<std::uint32_t>(Unit::reduction) + 1:
    case static_cast<std::uint32_t>(Unit::reduction) + 2:
    case static_cast<std::uint32_t>(Unit::reduction) + 3:
      return "an asynchronous reduction";
    default:
      return "a bulk load";
  }
}
}  // namespace

void RaceTracker::conflict(const SharedAccess& a, std::uint32_t address, const Slot& other,
                           bool other_write) {
  const auto mine = static_cast<std::uint32_t>(&a.op - cluster_.program->ops.data());
  if (!reported_.insert({mine, other.op}).second) return;
  const std::uint32_t by = other.agent % kUnits;
  const Warp& party = warp_of(other.agent);
  const auto strong = [](std::uint32_t u) {
    return u == static_cast<std::uint32_t>(Unit::strong) ||
           u == static_cast<std::uint32_t>(Unit::strong_before);
  };
  const auto thread = [&](std::uint32_t u) { return u == 0 || strong(u); };
  report(
      a.warp, a.op, a.lane, thread(a.unit) && thread(by) ? "shared-race" : "async-memory",
      unit_name(a.unit, *cluster_.program) + (a.write ? " writes" : " reads") + " shared address " +
          std::to_string(address) +
          (&a.block != a.warp.block ? " of block rank " + std::to_string(a.block.rank) : "") +
          ", unordered with " + unit_name(by, *cluster_.program) + " of warp " + std::to_string(party.index) +
          " that " + (other_write ? "writes" : "reads") + " it" +
          (strong(a.unit) && strong(by) ? ": the scope of one of the two leaves out the other's block" : ""),
      site_of(party, cluster_.program->ops[other.op], -1));
}

void RaceTracker::missing_fence(const SharedAccess& a, std::uint32_t address, const Slot& other) {
  // Bulk copies write through the async proxy; st.async and red.async do not.
  if (a.write && cluster_.program->sources[a.op.source].in->opcode != "cp") return;
  const auto mine = static_cast<std::uint32_t>(&a.op - cluster_.program->ops.data());
  if (!reported_.insert({mine, other.op}).second) return;
  const Warp& party = warp_of(other.agent);
  report(a.warp, a.op, a.lane, "missing-proxy-fence",
         "shared address " + std::to_string(address) + " was written by warp " + std::to_string(party.index) +
             " through the generic proxy, with no fence.proxy.async before this asynchronous " +
             (a.write ? "write" : "read"),
         site_of(party, cluster_.program->ops[other.op], -1));
}

}  // namespace kiln::emulator
