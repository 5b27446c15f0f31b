#include "emulator/amdgcn/memory/global_races.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "emulator/amdgcn/machine/machine.hpp"

namespace kiln::emulator::amdgcn {
namespace {

std::uint64_t agent_of(const Wave& w, int index) {
  const Dim3 &id = w.wg.id, &grid = w.grid.launch.grid;
  const std::uint64_t block = id.x + std::uint64_t{grid.x} * (id.y + std::uint64_t{grid.y} * id.z);
  return block * w.wg.waves.size() + static_cast<std::uint64_t>(index) + 1;
}

/// The last epoch of the wave all of whose writes were waited for.
std::uint32_t over(const Wave& w) {
  std::uint32_t epoch = w.clock.epoch;
  for (const Pending* op : w.vm) {
    if (op->global_write) epoch = std::min(epoch, op->epoch - 1);
  }
  return epoch;
}

void join(RemotePtr& into, const RemotePtr& other) {
  if (other == nullptr || into == other) return;
  if (into == nullptr) {
    into = other;
    return;
  }
  auto both = std::make_shared<RemoteEpochs>(*into);
  for (const auto& [agent, epoch] : *other) {
    std::uint32_t& known = (*both)[agent];
    known = std::max(known, epoch);
  }
  into = std::move(both);
}

/// What the wave can pass on.
RemotePtr publication(const Wave& w) {
  auto known =
      w.clock.remote ? std::make_shared<RemoteEpochs>(*w.clock.remote) : std::make_shared<RemoteEpochs>();
  for (std::size_t i = 0; i < w.clock.block.size(); ++i)
    (*known)[agent_of(w, static_cast<int>(i))] = w.clock.block[i];
  (*known)[agent_of(w, w.index)] = over(w);
  return known;
}

bool knows(const Wave& w, std::uint64_t agent, std::uint32_t epoch) {
  const std::uint64_t first = agent_of(w, 0);
  if (agent >= first && agent < first + w.wg.waves.size()) {
    const auto index = static_cast<std::size_t>(agent - first);
    if (static_cast<int>(index) == w.index) return true;
    if (index < w.clock.block.size() && w.clock.block[index] >= epoch) return true;
    if (index < w.clock.met.size() && w.clock.met[index] >= epoch) return true;
  }
  if (w.clock.remote == nullptr) return false;
  const auto it = w.clock.remote->find(agent);
  return it != w.clock.remote->end() && it->second >= epoch;
}

}  // namespace

/// `own` touches bytes of a cell: those of an earlier epoch are forgotten.
void GlobalRaces::note(Access& last, const Access& own, std::uint8_t which) {
  if (last.agent != own.agent || last.epoch != own.epoch) last.which = 0;
  which |= last.which;
  last = own;
  last.which = which;
}

template <class Visit>
void GlobalRaces::each_cell(std::uint64_t address, int bytes, bool make, Visit visit) {
  const std::uint64_t end = address + static_cast<unsigned>(bytes);
  for (std::uint64_t at = address & ~std::uint64_t{1}; at < end;) {
    const std::uint64_t page_end = std::min(end, (at | 4095) + 1);
    Shard& shard = shard_of(at);
    const std::lock_guard lock(shard.mutex);
    const auto found = make ? shard.pages.try_emplace(at >> 12).first : shard.pages.find(at >> 12);
    if (found == shard.pages.end()) {
      at = page_end;
      continue;
    }
    if (found->second == nullptr) found->second = std::make_unique<Page>();
    for (; at < page_end; at += 2) {
      const unsigned low = at >= address ? 1 : 0, high = at + 1 < end ? 2 : 0;
      visit((*found->second)[at / 2 % std::tuple_size_v<Page>], at, static_cast<std::uint8_t>(low | high));
    }
  }
}

void GlobalRaces::report(Wave& w, const Inst& in, int lane, std::uint64_t address, const Access& other,
                         const char* does, const char* how) {
  const std::uint64_t waves = w.wg.waves.size();
  const auto wave = static_cast<int>((other.agent - 1) % waves);
  w.report("global-race", in, lane,
           std::string(does) + " global memory " + w.grid.memory.describe(address) + ", which wave " +
               std::to_string(wave) + " of block " + std::to_string((other.agent - 1) / waves) + " " + how +
               " orders the two",
           other.inst, wave);
}

void GlobalRaces::read(Wave& w, const Inst& in, int lane, std::uint64_t address, int bytes, bool strong) {
  if (!any_.load(std::memory_order_relaxed)) return;
  if (strong) {
    RemotePtr seen;
    {
      Shard& shard = shard_of(address);
      const std::lock_guard lock(shard.mutex);
      const auto variable = shard.variables.find(address);
      if (variable != shard.variables.end()) seen = variable->second;
    }
    return join(w.clock.remote, seen);
  }
  Access other;
  const Access own{agent_of(w, w.index), &in, w.clock.epoch};
  each_cell(address, bytes, false, [&](Cell& cell, std::uint64_t, std::uint8_t which) {
    if ((cell.writer.which & which) != 0 && !knows(w, cell.writer.agent, cell.writer.epoch))
      other = cell.writer;
    note(cell.reader, own, which);
    w.clock.read = true;
  });
  if (other.agent != 0)
    report(w, in, lane, address, other, "reads", "wrote, and no wait with a barrier or an atomic");
}

void GlobalRaces::begin_write(Wave& w) {
  if (!w.clock.read) return;
  ++w.clock.epoch;
  w.clock.read = false;
}

void GlobalRaces::write(Wave& w, const Inst& in, int lane, std::uint64_t address,
                        std::span<const std::byte> data, bool flag, bool strong) {
  any_.store(true, std::memory_order_relaxed);
  if (flag) {
    RemotePtr published = publication(w);
    Shard& shard = shard_of(address);
    const std::lock_guard lock(shard.mutex);
    shard.variables[address] = std::move(published);
  }
  const Access own{agent_of(w, w.index), &in, w.clock.epoch};
  Access writer, reader;
  each_cell(address, static_cast<int>(data.size()), true,
            [&](Cell& cell, std::uint64_t at, std::uint8_t which) {
              std::uint8_t same = 0;  // bytes that the writer wrote alike
              for (unsigned i = 0; i < 2; ++i) {
                if ((which >> i & 1) == 0) continue;
                const auto value = std::to_integer<std::uint8_t>(data[at + i - address]);
                if (cell.value[i] == value) same |= static_cast<std::uint8_t>(cell.writer.which & 1 << i);
                cell.value[i] = value;
              }
              const int changed = flag || strong ? 0 : which & ~same;
              if ((cell.writer.which & changed) != 0 && !knows(w, cell.writer.agent, cell.writer.epoch))
                writer = cell.writer;
              if ((cell.reader.which & changed) != 0 && !knows(w, cell.reader.agent, cell.reader.epoch))
                reader = cell.reader;
              note(cell.writer, own, which);
            });
  if (writer.agent != 0)
    report(w, in, lane, address, writer, "writes",
           "wrote otherwise, and no wait with a barrier or an atomic");
  if (reader.agent != 0) report(w, in, lane, address, reader, "writes", "has read, and no barrier or atomic");
}

void GlobalRaces::exchange(Wave& w, std::uint64_t address) {
  const RemotePtr published = publication(w);
  Shard& shard = shard_of(address);
  RemotePtr before;
  {
    const std::lock_guard lock(shard.mutex);
    RemotePtr& variable = shard.variables[address];
    before = variable;
    join(variable, published);
  }
  join(w.clock.remote, before);
  ++w.clock.epoch;  // what the wave reads and writes from here on was not passed on
  w.clock.read = false;
}

void GlobalRaces::meet(Workgroup& group) {
  std::vector<std::uint32_t> block(group.waves.size()), met(group.waves.size());
  RemotePtr remote;
  for (const auto& w : group.waves) {
    std::uint32_t& own = block[static_cast<std::size_t>(w->index)];
    own = std::max(own, over(*w));
    met[static_cast<std::size_t>(w->index)] = group.split() ? own : w->clock.epoch;
    for (std::size_t i = 0; i < w->clock.block.size(); ++i) block[i] = std::max(block[i], w->clock.block[i]);
    join(remote, w->clock.remote);
  }
  for (const auto& w : group.waves) {
    w->clock.block = block;
    w->clock.met = met;
    w->clock.remote = remote;
    ++w->clock.epoch;
  }
}

}  // namespace kiln::emulator::amdgcn
