// The race tracker beyond barriers: fences, strong accesses, and what other clusters learn through global
// memory.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/races.hpp"

namespace kiln::emulator {

bool RaceTracker::knows_remote(const Warp& w, int lane, std::uint64_t cluster, std::uint32_t agent,
                               std::uint32_t epoch, std::uint32_t lanes) const {
  const auto knows = [&](const Clock& c) {
    if (c.remote == nullptr) return false;
    const auto it = c.remote->find(cluster);
    return it != c.remote->end() && it->second.knows(agent, epoch, lanes);
  };
  const std::uint32_t i = index(w);
  if (knows(clocks_[i])) return true;
  // Lanes that came to a barrier at different times know it each for itself.
  std::uint32_t missing = lane < 0 ? w.live : 1u << lane;
  for (const Pending& p : pending_[i])
    if ((p.lanes & missing) != 0 && knows(p.clock)) missing &= ~p.lanes;
  return missing == 0;
}

bool RaceTracker::loaded_unfenced(const Warp& w, std::uint64_t address, std::uint64_t cluster,
                                  std::uint32_t agent, std::uint32_t epoch) const {
  const auto& seen = loaded_[index(w)];
  return std::any_of(seen.begin(), seen.end(), [&](const Loaded& l) {
    const auto it = l.published->find(cluster);
    return l.address != address && it != l.published->end() && it->second.knows(agent, epoch, 0);
  });
}

void RaceTracker::note_loaded(const Warp& w, const Loaded& loaded) {
  constexpr std::size_t kMost = 16;  // the latest ones
  auto& seen = loaded_[index(w)];
  const bool known = std::any_of(seen.begin(), seen.end(), [&](const Loaded& l) {
    return l.address == loaded.address && l.published == loaded.published;
  });
  if (known) return;
  if (seen.size() == kMost) seen.erase(seen.begin());
  seen.push_back(loaded);
}

Epochs RaceTracker::known(const Warp& w, std::uint32_t lanes) const {
  const std::uint32_t i = index(w);
  Epochs known = clocks_[i].agents;
  for (const Pending& p : pending_[i])
    if ((p.lanes & lanes) != 0) join(known, p.clock.agents);
  return known;
}

void RaceTracker::fence(Warp& w) {
  Clock& c = clocks_[index(w)];
  if ((w.live & ~w.exec) == 0) {
    join(c.remote, c.pending);
    c.pending.reset();
    for (const Pending& p : pending_[index(w)])
      if ((p.lanes & w.exec) != 0) join(c.remote, p.clock.remote);
  } else if (c.pending != nullptr) {
    join(pending(w, w.exec).remote, c.pending);
  }
  loaded_[index(w)].clear();
  // What other lanes did and these do not know of is not fenced.
  auto& unmet = unmet_fences_[index(w)];
  std::erase_if(unmet.list, [&](const Fence& f) { return f.time < w.lanes.all; });
  unmet.base = std::max(unmet.base, w.lanes.all - std::min(w.lanes.all, 1u));
  unmet.list.push_back({w.exec, w.lanes.now});
  if (w.global_words.unmet(w.lanes, w.exec)) {
    cluster_.launch->globals->note_unmet(w);
    join(c.fenced, snapshot(w, w.exec));
  } else {
    c.fenced.agents = known(w, w.exec);
  }
  tick(w);
}

void RaceTracker::observe(Warp& w, std::uint32_t lanes, const RemotePtr& published, bool acquire) {
  if (!acquire) return join(clocks_[index(w)].pending, published);
  if (published == nullptr) return;
  Clock& c = (w.live & ~lanes) == 0 ? clocks_[index(w)] : pending(w, lanes);
  join(c.remote, published);
  if (const auto own = published->find(cluster_.index); own != published->end())
    join(static_cast<Known&>(c), own->second);
}

RemotePtr RaceTracker::publication(Warp& w, int lane, std::uint64_t cluster, bool release) {
  Clock& c = clocks_[index(w)];
  auto out = c.remote == nullptr ? std::make_shared<Remote>() : std::make_shared<Remote>(*c.remote);
  for (const Pending& p : pending_[index(w)])
    if ((p.lanes >> lane & 1) != 0 && p.clock.remote != nullptr)
      for (const auto& [other, known] : *p.clock.remote) join((*out)[other], known);
  const bool alone = w.global_words.unmet(w.lanes, 1u << lane);
  if (release) {
    if (alone) {
      cluster_.launch->globals->note_unmet(w);
      (*out)[cluster] = snapshot(w, 1u << lane);
    } else {
      (*out)[cluster].agents = known(w, 1u << lane);
    }
    tick(w);
  } else if (!c.fenced.agents.empty()) {
    (*out)[cluster] = alone ? fenced_by(w, lane) : c.fenced;
  } else {
    return nullptr;
  }
  return out;
}

/// What fences of GPU scope have made visible of what `lane` knows: not what other lanes fenced since all have met.
Known RaceTracker::fenced_by(Warp& w, int lane) {
  const std::uint32_t self = index(w) * kUnits;
  Known known = clocks_[index(w)].fenced;
  const Fences& fences = unmet_fences_[index(w)];
  if (fences.list.empty() || fences.list.back().time < w.lanes.all) return known;
  cluster_.launch->globals->note_unmet(w);
  known.agents[self] = std::min(known.agents[self], fences.base);
  std::erase_if(known.partial, [&](const Partial& p) { return p.agent == self; });
  for (const Fence& f : fences.list) {
    std::uint32_t met = f.lanes & 1u << lane;
    for (std::uint32_t m = f.lanes; m != 0; m &= m - 1)
      if (w.lanes.ordered(lane, std::countr_zero(m), f.time)) met |= m & (0 - m);
    if (met != 0) known.add({self, f.time, met});
  }
  return known;
}

const Warp& RaceTracker::warp_of(std::uint32_t agent) const {
  const std::uint32_t warp = agent / kUnits;
  const auto rank = static_cast<std::size_t>(std::upper_bound(first_warp_.begin(), first_warp_.end(), warp) -
                                             first_warp_.begin() - 1);
  return cluster_.blocks[rank]->warps[warp - first_warp_[rank]];
}

Site RaceTracker::remote_site(std::uint64_t cluster, std::uint32_t agent, std::uint32_t op) const {
  const Warp& like = warp_of(agent);
  Site s = site_of(like, cluster_.program->ops[op], -1);
  s.block = block_of(*cluster_.launch->launch, cluster, like.block->rank);
  return s;
}

void RaceTracker::strong_write(Warp& w, std::uint64_t address, int lane, Order order) {
  if (order == Order::release || order == Order::acq_rel) return release(w, variables_[address], 1u << lane);
  const auto& fenced = fenced_[index(w)];
  const bool publishes =
      std::any_of(fenced.begin(), fenced.end(), [&](const Pending& p) { return (p.lanes >> lane & 1) != 0; });
  if (publishes) release_fenced(w, variables_[address], 1u << lane);
}

void RaceTracker::strong_read(Warp& w, std::uint64_t address, int lane, Order order) {
  if (variables_.empty()) return;
  const auto it = variables_.find(address);
  if (it == variables_.end() || it->second.empty()) return;
  if (order == Order::acquire || order == Order::acq_rel) return acquire(w, it->second, 1u << lane);
  auto& seen = observed_[index(w)];
  for (Pending& p : seen)
    if (p.lanes == 1u << lane) return join(p.clock, it->second);
  seen.push_back({1u << lane, it->second, 0});
}

void RaceTracker::fence_lanes(Warp& w, std::uint32_t lanes) {
  const std::uint32_t i = index(w);
  for (Pending& p : observed_[i])
    if ((p.lanes & lanes) != 0) acquire(w, p.clock, p.lanes);
  std::erase_if(observed_[i], [&](const Pending& p) { return (p.lanes & lanes) != 0; });
  for (Pending& p : fenced_[i]) p.lanes &= ~lanes;
  std::erase_if(fenced_[i], [](const Pending& p) { return p.lanes == 0; });
  // Each lane publishes its own past, not that of others it has not met.
  if (pending_[i].empty() && retired_[i].empty() && w.lanes.known == nullptr) {
    Clock common = clocks_[i];
    common.agents[i * kUnits] = w.lanes.all - std::min(w.lanes.all, 1u);
    fenced_[i].push_back({lanes, std::move(common), w.lanes.now});
  } else {
    for (std::uint32_t m = lanes; m != 0; m &= m - 1)
      fenced_[i].push_back({m & (0 - m), snapshot(w, m & (0 - m)), w.lanes.now});
  }
  tick(w);
}

void RaceTracker::release_fenced(Warp& w, Clock& into, std::uint32_t lanes) {
  const std::uint32_t own = index(w);
  bool fenced = false;
  for (const Pending& p : fenced_[own]) {
    // Lanes that fenced and have met since.
    const std::uint32_t met = w.lanes.all > p.time ? p.lanes : p.lanes & lanes;
    if (met == 0) continue;
    fenced = true;
    join(into, p.clock);
    into.add({agent(w, 0), p.time, met});
  }
  if (!fenced) return;
  // Every thread fences, a barrier, and one of them tells: what others had fenced before the barrier is told, too.
  const Epochs knowledge = known(w, lanes);
  for (std::uint32_t i = 0; i < fenced_.size(); ++i)
    for (const Pending& p : fenced_[i])
      if (i != own && std::size_t{i} * kUnits < knowledge.size() &&
          knowledge[std::size_t{i} * kUnits] >= p.time) {
        join(into, p.clock);
        into.add({i * kUnits, p.time, p.lanes});
      }
}

void RaceTracker::proxy_fence(Warp& w, std::uint32_t lanes, bool shared, bool global) {
  if (shared) join(proxy_fenced_[index(w)], snapshot(w, lanes));
  if (global) join(globally_fenced_[index(w)], snapshot(w, lanes));
  tick(w);
}

bool RaceTracker::fenced_globally(const Warp& w, std::uint32_t writer, std::uint32_t epoch) const {
  constexpr std::uint32_t kAnyLane = 0;
  return globally_fenced_[writer / kUnits].knows(writer, epoch, kAnyLane) ||
         globally_fenced_[index(w)].knows(writer, epoch, kAnyLane);
}

}  // namespace kiln::emulator
