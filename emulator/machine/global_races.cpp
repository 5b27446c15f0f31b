#include "emulator/machine/global_races.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "emulator/machine/host.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/tensor/multiversion.hpp"

namespace kiln::emulator {
namespace {

constexpr const char* kHalfMet =
    "the lane of that warp which told of it had not met the lane that did it: a bar.warp.sync is missing there";
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

GlobalRaces::GlobalRaces(const Program& program, std::uint64_t base, std::size_t bytes)
    : base_(base), bytes_(bytes), narrow_scopes_(program.uses_narrow_scopes), values_(program) {
  const auto reserve = [](std::size_t size) {
    void* const p =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
  };
  const std::size_t of_cells = (bytes / 16 + 1) * sizeof(Cell), of_beside = (bytes / 16 + 1) * sizeof(Beside),
                    of_stretches = bytes / kStretch + 1;
  cells_ = static_cast<Cell*>(reserve(of_cells));
  strong_stretches_ = static_cast<std::uint8_t*>(reserve(of_stretches));
  if (cells_ == nullptr || strong_stretches_ == nullptr) {
    if (cells_ != nullptr) munmap(cells_, of_cells);
    if (strong_stretches_ != nullptr) munmap(strong_stretches_, of_stretches);
    refuse_for_memory("finding races in global memory", of_cells + of_beside + of_stretches);
  }
  beside_ = static_cast<Beside*>(reserve(of_beside));
  // Much memory is touched sooner in large pages. It is no error where the host has none.
  if (of_cells >= 8 * kHugePage) madvise(cells_, of_cells, MADV_HUGEPAGE);
}

GlobalRaces::~GlobalRaces() {
  munmap(cells_, (bytes_ / 16 + 1) * sizeof(Cell));
  if (beside_ != nullptr) munmap(beside_, (bytes_ / 16 + 1) * sizeof(Beside));
  munmap(strong_stretches_, bytes_ / kStretch + 1);
}

void GlobalRaces::note_same(std::uint64_t cell, const Slot& base, const Slot& by) {
  const std::lock_guard lock(mutex_);
  auto& list = same_[cell];
  std::erase_if(list, [&](const Same& s) {
    const bool stale =
        s.base.cluster != base.cluster || s.base.agent != base.agent || s.base.epoch != base.epoch;
    return stale || (s.by.cluster == by.cluster && s.by.agent == by.agent);
  });
  list.push_back({base, by});
}

template <class F>
bool GlobalRaces::same_ordered(std::uint64_t cell, const Slot& base, std::uint16_t mask, F ordered) {
  const std::lock_guard lock(mutex_);
  const auto it = same_.find(cell);
  return it != same_.end() && std::any_of(it->second.begin(), it->second.end(), [&](const Same& s) {
           return s.base.cluster == base.cluster && s.base.agent == base.agent &&
                  s.base.epoch == base.epoch && (s.by.mask & mask) == mask && ordered(s.by);
         });
}

GlobalRaces::Judged GlobalRaces::judged(Warp& w, const Op& op, bool write, std::uint32_t unit,
                                        std::uint32_t epoch) const {
  const Cluster& c = *w.block->cluster;
  const RaceTracker& races = *c.races;
  return {w,
          op,
          races,
          {static_cast<std::uint32_t>(c.index), unit == 0 ? races.epoch(w) : epoch,
           static_cast<std::uint32_t>(&op - c.program->ops.data()),
           static_cast<std::uint16_t>(races.agent(w, unit)), 0},
          races.agent(w, 0),
          write};
}

bool GlobalRaces::ordered(const Judged& a, const Slot& s, std::uint32_t lanes) {
  if (s.cluster == a.by.cluster)
    return s.agent == a.thread || a.races.knows(a.w, a.lane, s.agent, s.epoch, lanes);
  return a.races.knows_remote(a.w, a.lane, s.cluster, s.agent, s.epoch, lanes);
}

bool GlobalRaces::met(const Judged& a, const Slot& s, std::uint64_t cell, std::uint16_t mask, bool write) {
  if (unmet_.empty() || s.agent % kUnits != 0) return true;
  if (s.cluster == a.by.cluster && s.agent == a.thread) return true;
  const std::lock_guard lock(mutex_);
  for (std::uint64_t i = 0; i < 4; ++i)
    if (((mask & s.mask) >> 4 * i & 0xf) != 0) {
      const std::uint32_t lanes =
          unmet_.lanes((base_ + 16 * cell) / 4 + i, {s.cluster, s.agent, s.epoch, write});
      if (lanes != 0 && !ordered(a, s, lanes)) return false;
    }
  return true;
}

void GlobalRaces::note_unmet(Warp& w) {
  const RaceTracker& races = *w.block->cluster->races;
  const std::lock_guard lock(mutex_);
  unmet_.note(w, static_cast<std::uint32_t>(w.block->cluster->index), races.agent(w, 0));
}

/// Whether nothing is to be said of an access, whatever its lane.
[[gnu::always_inline]] inline bool GlobalRaces::plain(const Judged& a, std::uint64_t cell,
                                                      std::uint16_t mask) const {
  const auto harmless = [&](const Slot& s) {
    if (s.epoch == 0 || (s.mask & mask) == 0) return true;
    return s.cluster == a.by.cluster && (s.agent == a.thread || a.races.known_to_all(a.w, s.agent, s.epoch));
  };
  const Cell& c = cells_[cell];
  if (!harmless(c.write) || (a.write && !harmless(c.read))) return false;
  if (a.write && (c.read.op & kBeside) != 0 && !harmless(beside_[cell].reader)) return false;
  if ((c.write.op & kBeside) == 0) return true;
  const auto& writers = beside_[cell].writers;
  return std::all_of(writers.begin(), writers.end(), harmless);
}

[[gnu::always_inline]] inline void GlobalRaces::note(const Judged& a, std::uint64_t cell,
                                                     std::uint16_t mask) {
  Cell& c = cells_[cell];
  Slot& slot = a.write ? c.write : c.read;
  const bool by_same = slot.cluster == a.by.cluster && slot.agent == a.by.agent;
  const auto apart = static_cast<std::uint16_t>(slot.mask & ~mask);
  if (a.write && ((slot.op & kBeside) != 0 || (!by_same && apart != 0))) return note_beside(a, cell, mask);
  if (!a.write && slot.epoch != 0 && (!by_same || (apart != 0 && slot.epoch != a.by.epoch)))
    return note_reader(a, cell, mask);
  const auto before = static_cast<std::uint16_t>(by_same && slot.epoch == a.by.epoch ? slot.mask : 0);
  const std::uint32_t several = a.write ? 0 : slot.op & kBeside;
  slot = a.by;
  slot.op |= several;
  slot.mask = before | mask;
  if (a.write) overwrite_reads(cell, mask);
}

[[gnu::always_inline]] inline void GlobalRaces::overwrite_reads(std::uint64_t cell, std::uint16_t mask) {
  Slot& read = cells_[cell].read;
  read.mask &= static_cast<std::uint16_t>(~mask);
  if ((read.op & kBeside) == 0) return;
  Slot& first = beside_[cell].reader;
  first.mask &= static_cast<std::uint16_t>(~mask);
  if (first.mask == 0) read.op &= ~kBeside;
}

/// The latest reader, where there was another one: the first one since the write is kept, unless the latest follows it and
/// has read the same bytes.
[[gnu::noinline]] void GlobalRaces::note_reader(const Judged& a, std::uint64_t cell, std::uint16_t mask) {
  Slot& slot = cells_[cell].read;
  std::uint32_t several = slot.op & kBeside;
  const bool follows = slot.cluster == a.by.cluster && (slot.mask & ~mask) == 0 &&
                       a.races.known_to_all(a.w, slot.agent, slot.epoch);
  if (several == 0 && slot.mask != 0 && !follows && beside_ != nullptr) {
    beside_[cell].reader = slot;
    several = kBeside;
  }
  slot = a.by;
  slot.op |= several;
  slot.mask = mask;
}

[[gnu::noinline]] void GlobalRaces::note_beside(const Judged& a, std::uint64_t cell, std::uint16_t mask) {
  Cell& c = cells_[cell];
  const auto rest = static_cast<std::uint16_t>(~mask);
  Slot last = writer(c);
  const bool by_same = last.cluster == a.by.cluster && last.agent == a.by.agent;
  const auto before = static_cast<std::uint16_t>(by_same && last.epoch == a.by.epoch ? last.mask : 0);
  last.mask &= rest;
  c.write = a.by;
  c.write.mask = before | mask;
  overwrite_reads(cell, mask);
  if (beside_ == nullptr) return;
  auto& list = beside_[cell].writers;
  for (Slot& s : list) s.mask &= rest;
  if (!by_same && last.mask != 0) {
    // The oldest makes room.
    const auto free = std::find_if(list.begin(), list.end(), [](const Slot& s) { return s.mask == 0; });
    const auto to = free == list.end() ? list.begin() : free;
    std::move(to + 1, list.end(), to);
    list.back() = last;
  }
  if (std::any_of(list.begin(), list.end(), [](const Slot& s) { return s.mask != 0; })) c.write.op |= kBeside;
}

GlobalRaces::Slot GlobalRaces::beside(const Judged& a, std::uint64_t cell, std::uint16_t mask) {
  if ((cells_[cell].write.op & kBeside) == 0) return {};
  for (const Slot& s : beside_[cell].writers) {
    if ((s.mask & mask) == 0 || ordered(a, s)) continue;
    if (a.write || !same_ordered(cell, s, s.mask & mask, [&](const Slot& by) { return ordered(a, by); }))
      return s;
  }
  return {};
}

namespace {

template <class Slot>
struct Met {
  Slot slot;
  bool write = false, lanes_only = false;
};
/// What an access that writes another value meets besides the latest writer of a cell: other writers, readers, and what
/// lanes of a warp did that the publishing one had not met.
template <class Judged, class Cell, class Slot, class ReadMeets, class HalfMet>
Met<Slot> others(const Judged& a, const Cell& cell, const Slot& reader, const Slot& apart,
                 ReadMeets read_meets, HalfMet half_met) {
  if (apart.epoch != 0) return {apart, true, false};
  for (const Slot& read : {cell.read, reader})
    if (a.write && read_meets(read)) return {read, false, false};
  if (half_met(cell.write, true)) return {cell.write, true, true};
  if (a.write && half_met(cell.read, false)) return {cell.read, false, true};
  return {};
}

}  // namespace

void GlobalRaces::judge(Judged& a, std::uint64_t address, std::uint32_t bytes) {
  PageLock lock(locks_);
  const std::uint64_t end = address - base_ + bytes;
  for (std::uint64_t at = address - base_, stop = 0; at < end; at = stop) {
    const std::uint64_t first = at & ~15ull;
    stop = std::min(end, first + 16);
    const auto mask = static_cast<std::uint16_t>(((1u << (stop - first)) - 1) & ~((1u << (at - first)) - 1));
    lock.take(at);
    if (plain(a, at / 16, mask)) {
      note(a, at / 16, mask);
      continue;
    }
    const Cell cell{writer(cells_[at / 16]), plain_slot(cells_[at / 16].read)};
    const Slot reader = first_reader(at / 16);
    const auto meets = [&](const Slot& s) { return s.epoch != 0 && (s.mask & mask) != 0 && !ordered(a, s); };
    const auto half_met = [&](const Slot& s, bool write) {
      return s.epoch != 0 && (s.mask & mask) != 0 && !met(a, s, at / 16, mask, write);
    };
    Slot other;
    bool other_write = false, lanes_only = false;
    if (meets(cell.write)) {
      if (a.silent && (cell.write.mask & mask) == mask) {
        Slot by = a.by;
        by.mask = mask;
        note_same(at / 16, cell.write, by);
        continue;
      }
      if (!a.silent && (a.write || !same_ordered(at / 16, cell.write, mask,
                                                 [&](const Slot& s) { return ordered(a, s); }))) {
        other = cell.write;
        other_write = true;
      }
    } else if (!a.silent) {
      const auto read = [&](const Slot& s) { return meets(s) && !write_depends(a, s); };
      const auto met = others(a, cell, reader, beside(a, at / 16, mask), read, half_met);
      other = met.slot;
      other_write = met.write;
      lanes_only = met.lanes_only;
    }
    note(a, at / 16, mask);
    if (other.epoch == 0) continue;
    lock.release();
    conflict(a.w, a.op, a.lane, base_ + at, other, a.write, other_write,
             lanes_only ? Severity::undefined : Severity::error,
             lanes_only ? kHalfMet : "nothing orders the two");
  }
}

void GlobalRaces::access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                         bool write, std::uint32_t unit, std::uint32_t epoch, bool silent) {
  if (address - base_ >= bytes_ || bytes > bytes_ - (address - base_)) return;
  if (unit == 0 && lane >= 0) w.global_words.access(w, op, lane, address, bytes, {write, false, silent});
  Judged a = judged(w, op, write, unit, epoch);
  a.lane = lane;
  a.silent = silent;
  judge(a, address, bytes);
  if (any_strong(address - base_) || any_strong(address - base_ + bytes - 1)) meet_strong(a, address, bytes);
}

void GlobalRaces::check_proxy_fence(Warp& w, const Op& op, int lane, std::uint64_t address,
                                    std::uint32_t bytes) {
  if (address - base_ >= bytes_ || bytes > bytes_ - (address - base_)) return;
  const Judged a = judged(w, op, false, 0, 0);
  const Cluster& c = *w.block->cluster;
  PageLock lock(locks_);
  for (std::uint64_t at = (address - base_) & ~15ull; at < address - base_ + bytes; at += 16) {
    lock.take(at);
    const Slot s = writer(cells_[at / 16]);
    // Of other clusters' writes their fences are not known here; what nothing orders is a race.
    if (s.epoch == 0 || s.cluster != a.by.cluster || s.agent % kUnits != 0) continue;
    if (a.races.fenced_globally(w, s.agent, s.epoch) || (s.agent != a.thread && !ordered(a, s))) continue;
    lock.release();
    {
      const std::lock_guard once(mutex_);
      if (!reported_.insert({a.by.op, s.op}).second) return;
    }
    const Site party = a.races.remote_site(s.cluster, s.agent, s.op);
    return report(w, op, lane, "missing-proxy-fence",
                  "reads global memory " + c.launch->memory->describe(base_ + at) + ", which warp " +
                      std::to_string(party.warp) +
                      " wrote, and no fence.proxy.async came between the two proxies",
                  party);
  }
}

void GlobalRaces::acquire_map(Warp& w, const Op& op, std::uint64_t address) {
  constexpr std::uint64_t kBytes = sizeof(MapWrites) / sizeof(Slot) * 16;
  if (address - base_ >= bytes_ || kBytes > bytes_ - (address - base_)) return;
  const Judged a = judged(w, op, false, 0, 0);
  MapWrites writes{};
  {
    PageLock lock(locks_);
    for (std::size_t i = 0; i < writes.size(); ++i) {
      lock.take(address - base_ + 16 * i);
      const Slot s = writer(cells_[(address - base_) / 16 + i]);
      if (s.epoch != 0 && ordered(a, s)) writes[i] = s;
    }
  }
  const std::lock_guard lock(mutex_);
  acquired_maps_[{a.by.cluster, w.block->rank, address}] = writes;
}

void GlobalRaces::check_map(Warp& w, const Op& op, int lane, std::uint64_t address) {
  constexpr std::uint64_t kBytes = sizeof(MapWrites) / sizeof(Slot) * 16;
  if (address - base_ >= bytes_ || kBytes > bytes_ - (address - base_)) return;
  Judged a = judged(w, op, false, 0, 0);
  a.lane = lane;
  MapWrites taken{};
  {
    const std::lock_guard lock(mutex_);
    const auto it = acquired_maps_.find({a.by.cluster, w.block->rank, address});
    if (it != acquired_maps_.end()) taken = it->second;
  }
  PageLock lock(locks_);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    lock.take(address - base_ + 16 * i);
    const Slot s = writer(cells_[(address - base_) / 16 + i]), &t = taken[i];
    if (s.epoch == 0 || (s.cluster == t.cluster && s.agent == t.agent && s.epoch == t.epoch)) continue;
    lock.release();
    if (!ordered(a, s)) return conflict(w, op, lane, address + 16 * i, s, false, true);
    {
      const std::lock_guard once(mutex_);
      if (!reported_.insert({a.by.op, s.op}).second) return;
    }
    const Site party = a.races.remote_site(s.cluster, s.agent, s.op);
    return report(w, op, lane, "missing-proxy-fence",
                  "the tensor map was written by warp " + std::to_string(party.warp) +
                      ", and no fence.proxy.tensormap::generic.acquire of its bytes came before this copy",
                  party);
  }
}

KILN_MULTIVERSION void GlobalRaces::access_lanes(Warp& w, const Op& op, const WarpAccess<std::uint64_t>& all,
                                                 std::uint32_t unit, std::uint32_t epoch) {
  if (unit == 0) w.global_words.access_lanes(w, all);
  Judged a = judged(w, op, all.write, unit, epoch);
  PageLock lock(locks_);
  for (std::uint32_t m = all.lanes; m != 0;) {
    const std::uint32_t first = m;
    const int lane = std::countr_zero(m);
    a.lane = lane;
    a.silent = (all.silent >> lane & 1) != 0;
    // Lanes side by side in a cell are one access, unless something is to be said.
    const std::uint64_t cell = (all.at[lane] - base_) / 16;
    std::uint32_t mask = 0;
    for (; m != 0; m &= m - 1) {
      const int next = std::countr_zero(m);
      const std::uint64_t at = all.at[next] - base_;
      const std::uint32_t part = all.bytes > 16 ? 0x10000 : ((1u << all.bytes) - 1) << (at & 15);
      if (at / 16 != cell || ((all.silent >> next & 1) != 0) != a.silent || part > 0xffff) break;
      mask |= part;
    }
    if (mask != 0) {
      lock.take(16 * cell);
      if (!any_strong(16 * cell) && plain(a, cell, static_cast<std::uint16_t>(mask))) {
        note(a, cell, static_cast<std::uint16_t>(mask));
        continue;
      }
      lock.release();
    } else {
      m &= m - 1;
    }
    for (std::uint32_t left = first & ~m; left != 0; left &= left - 1) {
      a.lane = std::countr_zero(left);
      judge(a, all.at[a.lane], all.bytes);
      if (any_strong(all.at[a.lane] - base_)) meet_strong(a, all.at[a.lane], all.bytes);
    }
  }
}

/// Whether the write depends on a value that depends on what was read.
bool GlobalRaces::write_depends(const Judged& a, const Slot& read) {
  const std::lock_guard lock(mutex_);
  return values_.ordered(a.w, a.lane, a.by.op, {read.cluster, read.agent, read.epoch, read.op});
}

void GlobalRaces::conflict(Warp& w, const Op& op, int lane, std::uint64_t address, const Slot& other,
                           bool write, bool other_write, Severity severity, const char* why) {
  {
    const auto mine = static_cast<std::uint32_t>(&op - w.block->cluster->program->ops.data());
    const std::lock_guard lock(mutex_);
    if (!reported_.insert({mine, other.op}).second) return;
  }
  const Cluster& c = *w.block->cluster;
  const Site party = c.races->remote_site(other.cluster, other.agent, other.op);
  const bool same_block = other.cluster == c.index && c.blocks.size() == 1;
  Finding f;
  f.kind = "global-race";
  f.severity = severity;
  f.site = site_of(w, op, lane);
  f.other = party;
  f.has_other = true;
  f.message = std::string(write ? "writes" : "reads") + " global memory " +
              c.launch->memory->describe(address) + ", which warp " + std::to_string(party.warp) +
              (same_block ? std::string()
                          : " of block (" + std::to_string(party.block.x) + "," +
                                std::to_string(party.block.y) + "," + std::to_string(party.block.z) + ")") +
              (other_write ? " wrote" : " read") + ", and " + why +
              (severity == Severity::undefined && why != kHalfMet ? kMixedRace : "");
  report(*w.block->cluster, std::move(f));
}

}  // namespace kiln::emulator
