// Races in global memory: strong accesses (atomic, volatile, relaxed and above).
#include <algorithm>

#include "emulator/machine/global_races.hpp"
#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

void GlobalRaces::publish(Warp& w, const Op& op, int lane, std::uint64_t address, Order order, bool continues,
                          Stored stored) {
  RaceTracker& races = *w.block->cluster->races;
  const bool release = order == Order::release || order == Order::acq_rel;
  RemotePtr published = races.publication(w, lane, w.block->cluster->index, release);
  const std::lock_guard lock(mutex_);
  if (release && (op.flags & (kCtaScope | kClusterScope)) == 0) unfenced_.fence(w, 1u << lane);
  const auto [entry, first] = variables_.try_emplace(address);
  unfenced_.write(w, op, lane, address, {stored.old, stored.bytes, first});
  RemotePtr& variable = entry->second;
  if (continues)
    join(variable, published);
  else if (variable = std::move(published); values_.publish(w, op, lane, address))
    races.step(w);
}

void GlobalRaces::observe(Warp& w, const Op& op, std::uint32_t lanes, std::uint64_t address, Order order) {
  RemotePtr published;
  {
    const std::lock_guard lock(mutex_);
    unfenced_.seen(w, address);
    const auto it = variables_.find(address);
    if (it == variables_.end()) return;
    published = it->second;
    values_.observe(w, op, address);
  }
  w.block->cluster->races->observe(w, lanes, published, order == Order::acquire || order == Order::acq_rel);
}

const std::uint8_t* GlobalRaces::not_visible_yet(Warp& w, const Op& op, int lane, std::uint64_t address,
                                                 std::uint32_t bytes) {
  Cluster& c = *w.block->cluster;
  const std::lock_guard lock(mutex_);
  const bool late = c.policy == Policy::lazy || (c.policy == Policy::random && (c.random() & 1) != 0);
  return unfenced_.read(w, op, lane, address, bytes, late);
}

void GlobalRaces::fence(Warp& w) {
  const std::lock_guard lock(mutex_);
  unfenced_.fence(w, w.exec);
}

void GlobalRaces::check_scope(const Judged& a, std::uint64_t address) {
  const unsigned scope = a.op.flags & (kCtaScope | kClusterScope);
  const std::uint32_t rank = a.w.block->rank;
  const auto outside = [&](const Scoped& s) {
    if (s.by.cluster != a.by.cluster) return (s.scope | scope) != 0;
    return s.rank != rank && ((s.scope | scope) & kCtaScope) != 0;
  };
  Slot other;
  bool other_write = false;
  {
    const std::lock_guard lock(mutex_);
    const auto it = scoped_.find(address);
    for (const bool wrote : {true, false}) {
      if (it == scoped_.end() || other.epoch != 0 || !(a.write || wrote)) continue;
      const Scoped& s = it->second[wrote ? 0 : 1];
      if (s.by.epoch == 0 || !outside(s) || ordered(a, s.by)) continue;
      other = s.by;
      other_write = wrote;
    }
    scoped_[address][a.write ? 0 : 1] = {a.by, rank, scope};
  }
  if (other.epoch != 0)
    conflict(a.w, a.op, a.lane, address, other, a.write, other_write, Severity::error,
             "the scope of one of the two leaves out the other's block");
}

void GlobalRaces::strong_access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                                bool write, std::uint32_t unit, std::uint32_t epoch) {
  if (address - base_ >= bytes_ || bytes > bytes_ - (address - base_)) return;
  Judged a = judged(w, op, write, unit, epoch);
  a.lane = lane;
  if (narrow_scopes_) check_scope(a, address);
  if (!write) follow_strong(a, address);
  note_strong(a, address, bytes);
  // After it was noted: a weak access of another block at this moment has the cell's lock before this one looks, or finds
  // what was noted when it looks for strong accesses behind its own turn.
  meet_weak(a, address, bytes);
}

void GlobalRaces::note_strong(const Judged& a, std::uint64_t address, std::uint32_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t word = (address - base_) / 4; 4 * word < address - base_ + bytes; ++word) {
    std::atomic_ref(strong_stretches_[4 * word / kStretch]).store(1, std::memory_order_relaxed);
    Strong& s = strong_[word];
    if (a.write)
      note_write(a, s);
    else
      note_read(a, s);
    s.read_since = !a.write;
  }
}

/// An atomic whose result is used has seen the earlier ones, and the order of one word does for who follows it.
void GlobalRaces::note_write(const Judged& a, Strong& s) {
  const auto mine = [&](const Slot& r) { return r.cluster == a.by.cluster && r.agent == a.by.agent; };
  if ((a.op.flags & kUnread) == 0)
    s.atomics.clear();
  else if (s.write.epoch != 0 && s.atomics.size() < kEarlierAtomics && !mine(s.write) &&
           !ordered(a, s.write) && std::none_of(s.atomics.begin(), s.atomics.end(), [&](const Slot& r) {
             return r.cluster == s.write.cluster && r.agent == s.write.agent;
           }))
    s.atomics.push_back(s.write);
  s.write = a.by;
}

/// A read that the new one follows needs no place: who follows the new one follows it.
void GlobalRaces::note_read(const Judged& a, Strong& s) {
  const auto mine = [&](const Slot& r) { return r.cluster == a.by.cluster && r.agent == a.by.agent; };
  if (s.read.epoch != 0 && !mine(s.read)) {
    std::erase_if(s.earlier, [&](const Slot& r) { return mine(r) || ordered(a, r); });
    if (s.earlier.size() < kEarlierReads && !ordered(a, s.read)) s.earlier.push_back(s.read);
  }
  s.read = a.by;
}

/// A strong load of what an earlier one told of: PTX wants a fence between the two.
void GlobalRaces::follow_strong(const Judged& a, std::uint64_t address) {
  RaceTracker& races = *a.w.block->cluster->races;
  Slot by;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = strong_.find((address - base_) / 4); it != strong_.end()) by = it->second.write;
    const auto published = variables_.find(address);
    if (by.epoch == 0 || by.cluster == a.by.cluster ||
        !races.loaded_unfenced(a.w, address, by.cluster, by.agent, by.epoch)) {
      if (published != variables_.end() && published->second != nullptr)
        races.note_loaded(a.w, {address, published->second});
      return;
    }
  }
  // An acquire makes its own order: what it may miss it looks for again.
  constexpr unsigned kAcquires = 1u << 9;
  if ((a.op.flags & kAcquires) != 0 || ordered(a, by)) return;
  conflict(
      a.w, a.op, a.lane, address, by, false, true, Severity::note,
      "what an earlier strong load read tells of it, with no fence of GPU scope between the two loads: PTX does "
      "not order them, hardware does where the second one waits for the first");
}

void GlobalRaces::meet_weak(const Judged& a, std::uint64_t address, std::uint32_t bytes) {
  Slot other;
  bool other_write = false;
  PageLock lock(locks_);
  const std::uint64_t end = address - base_ + bytes;
  for (std::uint64_t at = address - base_, stop = 0; at < end && other.epoch == 0; at = stop) {
    const std::uint64_t first = at & ~15ull;
    stop = std::min(end, first + 16);
    const auto mask = static_cast<std::uint16_t>(((1u << (stop - first)) - 1) & ~((1u << (at - first)) - 1));
    lock.take(at);
    const Cell cell{writer(cells_[at / 16]), plain_slot(cells_[at / 16].read)};
    const Slot reader = first_reader(at / 16);
    const auto meets = [&](const Slot& s) { return s.epoch != 0 && (s.mask & mask) != 0 && !ordered(a, s); };
    other_write = meets(cell.write);
    if (other_write)
      other = cell.write;
    else if (const Slot apart = beside(a, at / 16, mask); apart.epoch != 0)
      other = apart, other_write = true;
    else if (a.write && meets(cell.read) && !write_depends(a, cell.read))
      other = cell.read;
    else if (a.write && meets(reader) && !write_depends(a, reader))
      other = reader;
  }
  lock.release();
  if (other.epoch != 0)
    conflict(a.w, a.op, a.lane, address, other, a.write, other_write, Severity::undefined);
}

void GlobalRaces::meet_strong(const Judged& a, std::uint64_t address, std::uint32_t bytes) {
  if (a.silent) return;
  Slot other;
  bool other_write = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::uint64_t word = (address - base_) / 4; 4 * word < address - base_ + bytes; ++word) {
      const auto it = strong_.find(word);
      if (it == strong_.end() || other.epoch != 0) continue;
      const Strong& s = it->second;
      const bool read_ordered = s.read.epoch != 0 && ordered(a, s.read);
      const auto meets = [&](const Slot& r) {
        return !ordered(a, r) && !values_.ordered(a.w, a.lane, a.by.op, {r.cluster, r.agent, r.epoch, r.op});
      };
      const bool followed = s.read_since && read_ordered;
      const auto atomic =
          std::find_if(s.atomics.begin(), s.atomics.end(), [&](const Slot& r) { return !ordered(a, r); });
      if (s.write.epoch != 0 && !ordered(a, s.write) && !followed)
        other = s.write, other_write = true;
      else if (!followed && atomic != s.atomics.end())
        other = *atomic, other_write = true;
      else if (a.write && s.read.epoch != 0 && meets(s.read))
        other = s.read;
      else if (a.write)
        if (const auto r = std::find_if(s.earlier.begin(), s.earlier.end(), meets); r != s.earlier.end())
          other = *r;
    }
  }
  if (other.epoch != 0)
    conflict(a.w, a.op, a.lane, address, other, a.write, other_write, Severity::undefined);
}

}  // namespace kiln::emulator
