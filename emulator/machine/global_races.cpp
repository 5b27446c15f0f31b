#include "emulator/machine/global_races.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {
namespace {

/// One cell's owner at a time; pages share locks.
class PageLock {
 public:
  explicit PageLock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~PageLock() { flag_.clear(std::memory_order_release); }
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

GlobalRaces::GlobalRaces(std::uint64_t base, std::size_t bytes) : base_(base), bytes_(bytes) {
  void* p = mmap(nullptr, (bytes / 16 + 1) * sizeof(Cell), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw Error("the host refuses to reserve memory for finding races");
  cells_ = static_cast<Cell*>(p);
}

GlobalRaces::~GlobalRaces() {
  munmap(cells_, (bytes_ / 16 + 1) * sizeof(Cell));
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

void GlobalRaces::access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                         bool write, std::uint32_t unit, std::uint32_t epoch, bool silent) {
  if (address - base_ >= bytes_ || bytes > bytes_ - (address - base_)) return;
  if (unit == 0 && lane >= 0) w.global_words.access(w, op, lane, address, bytes, {write, false, silent});
  const Cluster& c = *w.block->cluster;
  const RaceTracker& races = *c.races;
  const auto cluster = static_cast<std::uint32_t>(c.index);
  const auto agent = static_cast<std::uint16_t>(races.agent(w, unit));
  if (unit == 0) epoch = races.epoch(w);
  const auto op_index = static_cast<std::uint32_t>(&op - c.program->ops.data());
  const auto ordered = [&](const Slot& s) {
    if (s.cluster == cluster)
      return s.agent == races.agent(w, 0) || races.knows(w, lane, s.agent, s.epoch, 0);
    return races.knows_remote(w, s.cluster, s.agent, s.epoch);
  };
  const std::uint64_t end = address - base_ + bytes;
  for (std::uint64_t at = address - base_; at < end;) {
    const std::uint64_t first = at & ~15ull, stop = std::min(end, first + 16);
    const auto mask = static_cast<std::uint16_t>(((1u << (stop - first)) - 1) & ~((1u << (at - first)) - 1));
    Slot other;
    bool other_write = false;
    {
      const PageLock lock(locks_[at >> 12 & 255]);
      Cell& cell = cells_[at / 16];
      const auto meets = [&](const Slot& s) { return s.epoch != 0 && (s.mask & mask) != 0 && !ordered(s); };
      if (meets(cell.write)) {
        if (silent && (cell.write.mask & mask) == mask) {
          note_same(at / 16, cell.write, {cluster, epoch, op_index, agent, mask});
          at = stop;
          continue;
        }
        if (!silent && (write || !same_ordered(at / 16, cell.write, mask, ordered))) {
          other = cell.write;
          other_write = true;
        }
      } else if (write && !silent && meets(cell.read)) {
        other = cell.read;
      }
      Slot& slot = write ? cell.write : cell.read;
      const bool same = slot.cluster == cluster && slot.agent == agent && slot.epoch == epoch;
      slot = {cluster, epoch, op_index, agent, static_cast<std::uint16_t>(same ? slot.mask | mask : mask)};
      if (write) cell.read.mask &= static_cast<std::uint16_t>(~mask);
    }
    if (other.epoch != 0) conflict(w, op, lane, base_ + at, other, write, other_write);
    at = stop;
  }
}

void GlobalRaces::access_lanes(Warp& w, const Op& op, const std::uint64_t* address, std::uint32_t bytes,
                               std::uint32_t lanes, std::uint32_t silent, bool write) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    access(w, op, l, address[l], bytes, write, 0, 0, (silent >> l & 1) != 0);
  }
}

void GlobalRaces::publish(Warp& w, std::uint64_t address, Order order, bool continues) {
  RemotePtr published = w.block->cluster->races->publication(
      w, w.block->cluster->index, order == Order::release || order == Order::acq_rel);
  const std::lock_guard lock(mutex_);
  RemotePtr& variable = variables_[address];
  if (continues)
    join(variable, published);
  else
    variable = std::move(published);
}

void GlobalRaces::observe(Warp& w, std::uint64_t address, Order order) {
  RemotePtr published;
  {
    const std::lock_guard lock(mutex_);
    const auto it = variables_.find(address);
    if (it == variables_.end()) return;
    published = it->second;
  }
  w.block->cluster->races->observe(w, published, order == Order::acquire || order == Order::acq_rel);
}

void GlobalRaces::conflict(Warp& w, const Op& op, int lane, std::uint64_t address, const Slot& other,
                           bool write, bool other_write) {
  {
    const auto mine = static_cast<std::uint32_t>(&op - w.block->cluster->program->ops.data());
    const std::lock_guard lock(mutex_);
    if (!reported_.insert({mine, other.op}).second) return;
  }
  const Cluster& c = *w.block->cluster;
  const Site party = c.races->remote_site(other.cluster, other.agent, other.op);
  const bool same_block = other.cluster == c.index && c.blocks.size() == 1;
  report(w, op, lane, "global-race",
         std::string(write ? "writes" : "reads") + " global memory " + c.launch->memory->describe(address) +
             ", which warp " + std::to_string(party.warp) +
             (same_block ? std::string()
                         : " of block (" + std::to_string(party.block.x) + "," +
                               std::to_string(party.block.y) + "," + std::to_string(party.block.z) + ")") +
             (other_write ? " wrote" : " read") + ", and nothing orders the two",
         party);
}

}  // namespace kiln::emulator
