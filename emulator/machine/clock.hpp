// Vector clocks: what a warp knows to have happened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace kiln::emulator {

/// Latest known epoch of every agent of a cluster.
using Epochs = std::vector<std::uint32_t>;
void join(Epochs& into, const Epochs& other);

/// Of an agent's accesses up to `epoch`, those of some lanes only: one lane arrived at a barrier for itself.
struct Partial {
  std::uint32_t agent = 0, epoch = 0, lanes = 0;
};

/// What is known of the agents of a cluster.
struct Known {
  Epochs agents;
  std::vector<Partial> partial;  ///< by agent, each of its lanes once
  bool empty() const { return agents.empty(); }
  /// Those of one agent.
  std::span<const Partial> partial_of(std::uint32_t agent) const {
    const auto first = static_cast<std::size_t>(place_of(agent) - partial.begin());
    std::size_t last = first;
    while (last < partial.size() && partial[last].agent == agent) ++last;
    return {partial.data() + first, last - first};
  }
  /// Whether accesses of an agent at `epoch` by `lanes` are known.
  bool knows(std::uint32_t agent, std::uint32_t epoch, std::uint32_t lanes) const {
    if (agent < agents.size() && agents[agent] >= epoch) return true;
    bool some = false;
    for (const Partial& p : partial_of(agent)) {
      if (p.epoch < epoch) continue;
      some = true;
      lanes &= ~p.lanes;
    }
    return some && lanes == 0;
  }
  /// Whether all of `other` is known.
  bool covers(const Known& other) const;
  void add(Partial p);

 private:
  /// Where those of an agent begin, or would.
  std::vector<Partial>::const_iterator place_of(std::uint32_t agent) const {
    return std::lower_bound(partial.begin(), partial.end(), agent,
                            [](const Partial& p, std::uint32_t a) { return p.agent < a; });
  }
};
void join(Known& into, const Known& other);

/// The same of other clusters, by their number. Shared and never changed.
using Remote = std::map<std::uint64_t, Known>;
using RemotePtr = std::shared_ptr<const Remote>;
void join(RemotePtr& into, const RemotePtr& other);

/// Of the own cluster, and what serves communication through global memory: `fenced` is what a fence of GPU scope has
/// made visible (and a relaxed write publishes), `pending` what a relaxed read has seen and the next fence will add to
/// `remote`.
struct Clock : Known {
  Known fenced;
  RemotePtr remote, pending;
  void clear() { *this = {}; }
};
void join(Clock& into, const Clock& other);

}  // namespace kiln::emulator
