#include "emulator/machine/clock.hpp"

#include <algorithm>

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
  auto sum = std::make_shared<Remote>(*into);
  for (const auto& [cluster, known] : *other) join((*sum)[cluster], known);
  into = std::move(sum);
}

void Known::add(Partial p) {
  if (p.agent < agents.size() && agents[p.agent] >= p.epoch) return;
  for (const Partial& known : partial) {
    if (known.agent != p.agent) continue;
    if (known.epoch >= p.epoch && (p.lanes & ~known.lanes) == 0) return;
    if (known.epoch == p.epoch) p.lanes |= known.lanes;
  }
  std::erase_if(partial, [&](const Partial& known) {
    return known.agent == p.agent && known.epoch <= p.epoch && (known.lanes & ~p.lanes) == 0;
  });
  if (p.lanes != 0xffffffffu) return partial.push_back(p);
  if (agents.size() <= p.agent) agents.resize(p.agent + 1, 0);
  agents[p.agent] = p.epoch;  // of all lanes is of the warp
}

void join(Known& into, const Known& other) {
  join(into.agents, other.agents);
  if (!into.partial.empty())
    std::erase_if(into.partial, [&](const Partial& p) {
      return p.agent < into.agents.size() && into.agents[p.agent] >= p.epoch;
    });
  for (const Partial& p : other.partial) into.add(p);
}

void join(Clock& into, const Clock& other) {
  join(static_cast<Known&>(into), static_cast<const Known&>(other));
  if (!other.fenced.empty()) join(into.fenced, other.fenced);
  join(into.remote, other.remote);
  join(into.pending, other.pending);
}

}  // namespace kiln::emulator
