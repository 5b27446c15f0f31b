#include "emulator/machine/races.hpp"

#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

RaceTracker::RaceTracker(Cluster& cluster) : cluster_(cluster) {
  std::uint32_t warps = 0;
  for (const auto& b : cluster.blocks) {
    first_warp_.push_back(warps);
    warps += static_cast<std::uint32_t>(b->warps.size());
    cells_.emplace_back(b->smem.size() / 16 + 1);
  }
  clocks_.assign(warps, Clock(std::size_t{warps} * kUnits, 0));
  at_fence_.assign(warps, {});
  for (std::uint32_t w = 0; w < warps; ++w) clocks_[w][w * kUnits] = 1;
  unit_epoch_.assign(std::size_t{warps} * kUnits, 0);
  fenced_.assign(std::size_t{warps} * kUnits, 0);
}

std::uint32_t RaceTracker::index(const Warp& w) const {
  return first_warp_[w.block->rank] + static_cast<std::uint32_t>(w.index);
}

void RaceTracker::retire(Warp& w, std::uint32_t unit, std::uint32_t epoch) {
  std::uint32_t& known = clocks_[index(w)][agent(w, unit)];
  known = std::max(known, epoch);
}

Clock RaceTracker::published(const Warp& w, std::uint32_t unit, std::uint32_t epoch) const {
  Clock c = clocks_[index(w)];
  c[agent(w, unit)] = std::max(c[agent(w, unit)], epoch);
  // What the warp does after this point is not part of it.
  return c;
}

void RaceTracker::release(Warp& w, Clock& into) {
  const std::uint32_t i = index(w);
  join(into, clocks_[i]);
  ++clocks_[i][i * kUnits];
}

void RaceTracker::acquire(Warp& w, const Clock& from) {
  join(clocks_[index(w)], from);
}

void RaceTracker::synchronize(Warp& w, std::uint64_t address) {
  Clock& c = variables_[address];
  acquire(w, c);
  release(w, c);
}

void RaceTracker::proxy_fence(Warp& w) {
  const std::uint32_t i = index(w);
  fenced_[i * kUnits] = clocks_[i][i * kUnits];
  // cp.async writes count once they were waited for.
  const std::uint32_t copies = agent(w, static_cast<std::uint32_t>(Unit::cp_async));
  fenced_[copies] = clocks_[i][copies];
  at_fence_[i] = clocks_[i];
  ++clocks_[i][i * kUnits];
}

void RaceTracker::access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset,
                         std::uint32_t bytes, bool write, std::uint32_t unit, std::uint32_t epoch,
                         bool silent) {
  const std::uint32_t i = index(w);
  const Clock& clock = clocks_[i];
  const std::uint32_t self = i * kUnits + unit, thread = i * kUnits;
  if (unit == 0) epoch = clock[self];
  const auto op_index = static_cast<std::uint32_t>(&op - cluster_.program->ops.data());
  const bool async_proxy = unit != 0 && unit != static_cast<std::uint32_t>(Unit::cp_async);
  const std::uint32_t end =
      std::min<std::uint32_t>(offset + bytes, static_cast<std::uint32_t>(block.smem.size()));
  // A thread follows its own past; what its units did it follows only once retired.
  const auto ordered = [&](const Slot& s) { return s.agent == thread || s.epoch <= clock[s.agent]; };
  for (std::uint32_t at = offset; at < end;) {
    const std::uint32_t base = at & ~15u, stop = std::min(end, base + 16);
    const auto mask = static_cast<std::uint16_t>(((1u << (stop - base)) - 1) & ~((1u << (at - base)) - 1));
    Cell& cell = cells_[block.rank][base / 16];
    const Slot* last = &cell.write;
    const bool overlaps = last->epoch != 0 && (last->mask & mask) != 0;
    if (overlaps && silent && !ordered(*last) && (last->mask & mask) == mask) {
      Slot* free = &cell.same[0];
      for (Slot& s : cell.same)
        if (s.epoch == 0 || s.agent == self) free = &s;
      if (free->agent == self && free->epoch == epoch)
        free->mask |= mask;
      else
        *free = {static_cast<std::uint16_t>(self), mask, epoch, op_index};
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
      for (Slot& same : cell.same) same.epoch = 0;
      if (cell.write.agent == self && cell.write.epoch == epoch)
        cell.write.mask |= mask;
      else
        cell.write = {static_cast<std::uint16_t>(self), mask, epoch, op_index};
      cell.write.op = op_index;
    } else {
      Slot* free = nullptr;
      for (Slot& r : cell.reads) {
        if (r.epoch != 0 && r.agent == self) {
          free = &r;
          break;
        }
        if (free == nullptr && (r.epoch == 0 || ordered(r))) free = &r;
      }
      if (free == nullptr) free = &cell.reads[0];
      if (free->agent == self && free->epoch == epoch)
        free->mask |= mask;
      else
        *free = {static_cast<std::uint16_t>(self), mask, epoch, op_index};
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
