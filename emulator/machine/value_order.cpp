#include "emulator/machine/value_order.hpp"

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

std::uint32_t ValueOrder::number(const Op& op) const {
  return static_cast<std::uint32_t>(&op - program_.ops.data());
}

bool ValueOrder::publish(const Warp& w, const Op& op, int lane, std::uint64_t address) {
  const Cluster& c = *w.block->cluster;
  const auto cluster = static_cast<std::uint32_t>(c.index);
  const std::uint32_t agent = c.races->agent(w, 0), at = number(op);
  if (!stored_.empty() && c.races->alike(w)) {
    const Stored& last = stored_.back();
    if (last.cluster == cluster && last.agent == agent && last.op == at && last.issue == w.lanes.issue) {
      latest_[address] = static_cast<std::uint32_t>(stored_.size() - 1);
      return false;
    }
  }
  if (stored_.size() == kMost) {
    latest_.erase(address);
    return false;
  }
  const auto seen = seen_.find(cluster);
  latest_[address] = static_cast<std::uint32_t>(stored_.size());
  stored_.push_back({cluster, at, agent, w.lanes.issue, c.races->known(w, 1u << lane),
                     seen == seen_.end() ? 0 : seen->second.list.size()});
  return true;
}

void ValueOrder::observe(const Warp& w, const Op& op, std::uint64_t address) {
  const auto it = latest_.find(address);
  if (it == latest_.end()) return;
  const RaceTracker& races = *w.block->cluster->races;
  const Seen now{it->second, number(op), races.agent(w, 0), races.epoch(w)};
  Values& values = seen_[static_cast<std::uint32_t>(w.block->cluster->index)];
  // Whoever polls sees the same again, and other lanes see it, too: the first time is the earliest.
  if (values.noted.size() < kMost &&
      values.noted.insert(now.stored | std::uint64_t{now.agent} << 16 | std::uint64_t{now.op} << 32).second)
    values.list.push_back(now);
}

/// Whether one of `values` depends on what was read, perhaps by way of values of other blocks.
bool ValueOrder::follows(std::vector<std::uint32_t> values, const Read& read) {
  std::vector<bool> visited(stored_.size());
  while (!values.empty()) {
    const std::uint32_t at = values.back();
    values.pop_back();
    if (visited[at]) continue;
    visited[at] = true;
    const Stored& s = stored_[at];
    if (s.cluster == read.cluster && s.known[read.agent] >= read.epoch && dependence_.flows(read.op, s.op))
      return true;
    const auto seen = seen_.find(s.cluster);
    for (std::size_t i = 0; i < s.seen; ++i)
      if (const Seen& by = seen->second.list[i];
          s.known[by.agent] >= by.epoch && dependence_.steers(by.op, s.op))
        values.push_back(by.stored);
  }
  return false;
}

bool ValueOrder::ordered(const Warp& w, int lane, std::uint32_t op, const Read& read) {
  const Cluster& c = *w.block->cluster;
  const auto cluster = static_cast<std::uint32_t>(c.index);
  const auto seen = seen_.find(cluster);
  if (seen == seen_.end()) return false;
  const std::uint32_t self = c.races->agent(w, 0);
  std::uint32_t& answer = answers_[{cluster, self, op, read.cluster, read.agent, read.op}];
  if (read.epoch <= answer) return true;
  std::vector<std::uint32_t> values;
  for (const Seen& by : seen->second.list)
    if ((by.agent == self || c.races->knows(w, lane, by.agent, by.epoch, 0)) && dependence_.steers(by.op, op))
      values.push_back(by.stored);
  if (!follows(std::move(values), read)) return false;
  answer = read.epoch;
  return true;
}

}  // namespace kiln::emulator
