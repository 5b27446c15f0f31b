#include "emulator/machine/clock.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace kiln::emulator {

void join(Epochs& into, const Epochs& other) {
  if (into.size() < other.size()) into.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

void join(RemotePtr& into, const RemotePtr& other) {
  if (other == nullptr || other == into) return;
  if (into == nullptr) {
    into = other;
    return;
  }
  // Who looks at a lock again and again learns nothing new.
  const bool nothing_new = std::all_of(other->begin(), other->end(), [&](const auto& entry) {
    const auto it = into->find(entry.first);
    return it != into->end() && it->second.covers(entry.second);
  });
  if (nothing_new) return;
  auto sum = std::make_shared<Remote>(*into);
  for (const auto& [cluster, known] : *other) join((*sum)[cluster], known);
  into = std::move(sum);
}

namespace {

/// The latest known epoch of each lane of an agent.
struct LaneEpochs {
  LaneEpochs(const Known& known, std::uint32_t agent) {
    epochs.fill(agent < known.agents.size() ? known.agents[agent] : 0);
    for (const Partial& p : known.partial_of(agent)) {
      for (std::uint32_t m = p.lanes; m != 0; m &= m - 1) {
        std::uint32_t& epoch = epochs[static_cast<std::size_t>(std::countr_zero(m))];
        epoch = std::max(epoch, p.epoch);
      }
    }
  }
  bool covers(const Partial& p) const {
    for (std::uint32_t m = p.lanes; m != 0; m &= m - 1)
      if (epochs[static_cast<std::size_t>(std::countr_zero(m))] < p.epoch) return false;
    return true;
  }
  std::array<std::uint32_t, 32> epochs;
};

/// Calls f(partial) for those of `other` that `known` does not cover, until it returns false; whether it never did.
template <class F>
bool each_unknown(const Known& known, const Known& other, F f) {
  for (std::size_t i = 0; i < other.partial.size();) {
    const std::uint32_t agent = other.partial[i].agent;
    const LaneEpochs mine(known, agent);
    for (; i < other.partial.size() && other.partial[i].agent == agent; ++i)
      if (!mine.covers(other.partial[i]) && !f(other.partial[i])) return false;
  }
  return true;
}

}  // namespace

bool Known::covers(const Known& other) const {
  if (other.agents.size() > agents.size()) return false;
  for (std::size_t i = 0; i < other.agents.size(); ++i)
    if (other.agents[i] > agents[i]) return false;
  return each_unknown(*this, other, [](const Partial&) { return false; });
}

void Known::add(Partial p) {
  if (p.agent < agents.size() && agents[p.agent] >= p.epoch) return;
  const auto first = partial.begin() + (place_of(p.agent) - partial.cbegin());
  auto last = first;
  // Each lane once, with its latest epoch.
  for (; last != partial.end() && last->agent == p.agent; ++last) {
    if (last->epoch < p.epoch)
      last->lanes &= ~p.lanes;
    else if (last->epoch == p.epoch)
      p.lanes |= std::exchange(last->lanes, 0);
    else
      p.lanes &= ~last->lanes;
  }
  const auto kept = std::remove_if(first, last, [](const Partial& known) { return known.lanes == 0; });
  const auto at = partial.erase(kept, last);
  if (p.lanes == 0) return;
  if (p.lanes != 0xffffffffu) {
    partial.insert(at, p);
    return;
  }
  if (agents.size() <= p.agent) agents.resize(p.agent + 1, 0);
  agents[p.agent] = p.epoch;  // of all lanes is of the warp
}

void join(Known& into, const Known& other) {
  join(into.agents, other.agents);
  if (!into.partial.empty())
    std::erase_if(into.partial, [&](const Partial& p) {
      return p.agent < into.agents.size() && into.agents[p.agent] >= p.epoch;
    });
  each_unknown(into, other, [&](const Partial& p) {
    into.add(p);
    return true;
  });
}

void join(Clock& into, const Clock& other) {
  join(static_cast<Known&>(into), static_cast<const Known&>(other));
  if (!other.fenced.empty()) join(into.fenced, other.fenced);
  join(into.remote, other.remote);
  join(into.pending, other.pending);
}

}  // namespace kiln::emulator
