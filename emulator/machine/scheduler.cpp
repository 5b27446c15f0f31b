// Clusters on host threads, warps in a cluster, and what happens when nothing can run: late completions,
// time-outs, deadlock.
#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "emulator/machine/machine.hpp"
#include "emulator/tcgen05/hooks.hpp"

namespace kiln::emulator {
namespace {

/// A cluster that has run this long without ending may be waiting for another one: let those have a turn.
constexpr std::uint64_t kSlice = 4'000'000;
/// The same where all clusters of a launch wait for each other.
constexpr std::uint64_t kCooperativeSlice = 20'000;
/// Instructions without anything that others could see, after which a cluster is spinning: others have a turn.
constexpr std::uint64_t kSpinning = 100'000;
/// Atomics in a row that changed nothing, after which lanes of a warp may be waiting for another one of it.
constexpr std::uint32_t kFutile = 256;
/// Rounds of time-outs without progress after which waiting is hopeless.
constexpr int kHopeless = 64;

/// What need not be looked at until some register becomes unknown.
void know_assigned(Warp& w, const Program& p) {
  w.clean.assign(p.assigned_ops.begin(), p.assigned_ops.end());
  w.clean.resize(p.ops.size(), 0);
  w.state.assign(p.assigned_states.size(), {});
  for (std::size_t i = 0; i < w.state.size(); ++i)
    if (p.assigned_states[i]) w.state[i].known = ~0u;
}

std::unique_ptr<Block> make_block(Cluster& c, Dim3 id, std::uint32_t rank) {
  const LaunchState& state = *c.launch;
  const Program& p = *c.program;
  const Launch& l = *state.launch;
  auto b = std::make_unique<Block>();
  b->cluster = &c;
  b->id = id;
  b->rank = rank;
  const std::uint32_t bytes = kSharedBase + p.static_smem + l.dynamic_smem_bytes;
  fill_bytes(b->smem, bytes + 64, kPoison);
  fill_bytes(b->shadow, bytes + 64, kUnallocated);
  std::fill(b->shadow.begin() + kSharedBase, b->shadow.begin() + bytes, kAllocated);
  if (p.uses_reserved_smem) {
    std::fill_n(b->shadow.begin() + kReservedOffset, kReservedBytes, kAllocated);
    std::fill_n(b->shadow.begin() + kReservedOffset, kReservedZeros, kWritten);
    std::fill_n(b->smem.begin() + kReservedOffset, kReservedZeros, std::uint8_t{0});
  }
  const auto threads = static_cast<std::uint32_t>(l.block.count());
  const std::uint32_t warps = (threads + 31) / 32;
  b->warps = std::vector<Warp>(warps);
  b->warpgroups.resize((warps + 3) / 4);
  b->live_warps = warps;
  const FunctionInfo& entry = p.functions[p.entry_function];
  for (std::uint32_t i = 0; i < warps; ++i) {
    Warp& w = b->warps[i];
    w.index = static_cast<int>(i);
    w.block = b.get();
    fill_bytes(w.registers, entry.register_bytes + 64, 0);
    if (l.findings) know_assigned(w, p);
    w.owned.assign(entry.state_count, 0);
    w.local_bytes = entry.local_bytes;
    fill_bytes(w.local, std::size_t{32} * w.local_bytes, kPoison);
    fill_bytes(w.local_shadow, std::size_t{32} * w.local_bytes, kAllocated);
    w.live = threads - i * 32 >= 32 ? 0xffffffffu : (1u << (threads - i * 32)) - 1;
    w.frame = std::make_shared<Frame>();
    w.frame->window_end = entry.register_bytes;
    w.frame->state_end = entry.state_count;
    w.frame->function = p.entry_function;
    w.pc = entry.entry;
    w.active = w.live;
    w.base[0] = w.registers.data();
    w.base[1] = state.constants.data();
    fill_specials(w);
    w.base[2] = w.specials.data();
  }
  return b;
}

}  // namespace

Dim3 block_of(const Launch& l, std::uint64_t cluster, std::uint32_t rank) {
  const Dim3 per = l.cluster;
  const std::uint64_t gx = l.grid.x / per.x, gy = l.grid.y / per.y;
  return {static_cast<std::uint32_t>(cluster % gx) * per.x + rank % per.x,
          static_cast<std::uint32_t>(cluster / gx % gy) * per.y + rank / per.x % per.y,
          static_cast<std::uint32_t>(cluster / gx / gy) * per.z + rank / per.x / per.y};
}

namespace {

std::unique_ptr<Cluster> make_cluster(LaunchState& state, std::uint64_t index) {
  const Launch& l = *state.launch;
  auto c = std::make_unique<Cluster>();
  c->launch = &state;
  c->program = state.program;
  c->policy = l.policy;
  c->findings = l.findings;
  c->index = index;
  c->random.seed(l.seed * 0x9e3779b97f4a7c15ull + index);
  for (std::uint32_t rank = 0; rank < l.cluster.count(); ++rank)
    c->blocks.push_back(make_block(*c, block_of(l, index, rank), rank));
  tcgen05::attach(*c);
  if (c->findings) {
    c->races = std::make_unique<RaceTracker>(*c);
    for (auto& b : c->blocks) b->lane_races = std::make_unique<LaneTracker>(b->smem.size(), b->warps.size());
  }
  return c;
}

std::string describe_wait(const Warp& w, const Group& g, const Program& p) {
  const Wait& t = g.wait;
  std::string s = "block (" + std::to_string(w.block->id.x) + "," + std::to_string(w.block->id.y) + "," +
                  std::to_string(w.block->id.z) + ") warp " + std::to_string(w.index);
  const int line = p.sources[p.ops[g.pc].source].in->line;
  s += " line " + std::to_string(line) + " waits on ";
  switch (t.kind) {
    case WaitKind::barrier: {
      const NamedBarrier& b = w.block->barriers[t.id];
      s += "barrier " + std::to_string(t.id) + " (" + std::to_string(b.arrived) + " of " +
           std::to_string(b.all ? w.block->live_lanes() : b.expected) + " threads arrived)";
      break;
    }
    case WaitKind::mbarrier: {
      const auto it = t.block->mbarriers.find(t.id);
      s += "mbarrier at shared address " + std::to_string(t.id) + " parity " + std::to_string(t.value & 1);
      if (it != t.block->mbarriers.end())
        s += " (" + std::to_string(it->second.phase) + " phases done, " + std::to_string(it->second.pending) +
             " of " + std::to_string(it->second.count) + " arrivals and " + std::to_string(it->second.tx) +
             " bytes outstanding)";
      break;
    }
    case WaitKind::cluster_barrier:
      s += "barrier.cluster";
      break;
    case WaitKind::wgmma:
      s += "the other warps of its warpgroup to issue the same wgmma";
      break;
    case WaitKind::tensor_memory:
      s += "tensor memory: " + std::to_string(t.value) + " free columns";
      break;
    case WaitKind::converge:
    case WaitKind::warp_barrier:
      s += "other lanes of its warp";
      break;
    default:
      s += "nothing";
      break;
  }
  return s;
}

/// Lanes of one warp that wait for the rest at an aligned barrier, which is elsewhere.
void report_divergence(Cluster& c) {
  for (const auto& b : c.blocks)
    for (Warp& w : b->warps)
      for (const Group& g : w.others) {
        const Op& op = c.program->ops[g.pc];
        if (g.wait.kind != WaitKind::converge || op.kind != Kind::barrier) continue;
        for (const Group& o : w.others) {
          if (o.pc == g.pc) continue;
          Finding f;
          f.kind = "divergent-barrier";
          f.message = std::to_string(std::popcount(g.mask)) +
                      " lanes of a warp wait at an aligned barrier while " +
                      std::to_string(std::popcount(o.mask)) + " others are at another instruction";
          f.site = site_of(w, op, std::countr_zero(g.mask));
          f.has_other = true;
          f.other = site_of(w, c.program->ops[o.pc], std::countr_zero(o.mask));
          report(c, std::move(f));
          break;
        }
      }
}

void report_deadlock(Cluster& c) {
  report_divergence(c);
  Finding f;
  f.kind = "deadlock";
  std::string graph;
  int listed = 0;
  bool bytes_missing = false;
  for (const auto& b : c.blocks)
    for (Warp& w : b->warps)
      for (const Group& g : w.others) {
        if (f.site.ptx_line == 0) f.site = site_of(w, c.program->ops[g.pc], std::countr_zero(g.mask));
        if (g.wait.kind == WaitKind::mbarrier) {
          const auto it = g.wait.block->mbarriers.find(g.wait.id);
          if (it != g.wait.block->mbarriers.end() && it->second.pending == 0 && it->second.tx != 0 &&
              !bytes_missing) {
            bytes_missing = true;
            Finding t;
            t.kind = "transaction-count";
            t.site = site_of(w, c.program->ops[g.pc], std::countr_zero(g.mask));
            t.message =
                "mbarrier at shared address " + std::to_string(g.wait.id) + " has all arrivals, but " +
                (it->second.tx > 0 ? std::to_string(it->second.tx) + " expected bytes never come"
                                   : std::to_string(-it->second.tx) + " more bytes came than expected");
            if (it->second.last_expect != nullptr) {
              t.has_other = true;
              t.other = site_of(w, *it->second.last_expect, -1);
            }
            report(c, std::move(t));
          }
        }
        if (++listed <= 12) graph += (graph.empty() ? "" : "; ") + describe_wait(w, g, *c.program);
      }
  if (listed > 12) graph += "; and " + std::to_string(listed - 12) + " more";
  f.message = "nothing can run: " + graph;
  report(c, std::move(f));
  abort_cluster(c);
}

/// Bytes that an mbarrier still counts when the program has ended were expected or copied in the wrong
/// number.
void check_leftovers(Cluster& c) {
  for (const auto& b : c.blocks)
    for (const auto& [offset, m] : b->mbarriers) {
      const Op* op = m.tx > 0 ? m.last_expect : m.last_complete;
      if (m.tx == 0 || op == nullptr) continue;
      Finding f;
      f.kind = "transaction-count";
      f.site = site_of(b->warps[0], *op, -1);
      f.site.warp = -1;
      f.message = "the kernel ends while the mbarrier at shared address " + std::to_string(offset) +
                  (m.tx > 0 ? " expects " + std::to_string(m.tx) + " bytes that never came"
                            : " has received " + std::to_string(-m.tx) + " bytes more than were expected");
      report(c, std::move(f));
    }
}

/// Nothing can run: complete what is in flight, else let timed waits give up, else it is a deadlock.
void unblock(Cluster& c) {
  if (anything_pending(c) && complete_one(c, c.policy == Policy::random)) {
    c.idle_rounds = 0;
    return;
  }
  bool timed = false;
  if (++c.idle_rounds < kHopeless)
    for (const auto& b : c.blocks)
      for (Warp& w : b->warps)
        for (Group& g : w.others)
          if (g.wait.kind == WaitKind::mbarrier) {
            g.wait = {};
            g.resumed = g.timed_out = timed = true;
          }
  if (!timed) report_deadlock(c);
}

/// How many instructions a cluster may run before others have a turn. Not far beyond the budget: a kernel that
/// spins on a faulty access is slow.
std::uint64_t slice_of(const Cluster& c) {
  const std::uint64_t spent = c.launch->instructions, budget = c.launch->launch->instruction_budget;
  return std::min(c.program->uses_grid_workspace ? kCooperativeSlice : kSlice,
                  budget > spent ? budget - spent + 1 : 1);
}

/// After a slice in which a cluster did nothing that others could see: lanes that spin let the other lanes of their
/// warp go on, as every lane makes progress since Volta.
void yield_all(std::span<Warp* const> warps) {
  for (Warp* w : warps)
    if (w->active != 0 && w->wait.kind == WaitKind::none && !w->others.empty()) yield_group(*w);
}

/// The first warp from `start` on that can run, or null; `alive`: some warp has not ended.
Warp* choose_warp(std::span<Warp* const> warps, std::size_t start, bool& alive) {
  for (std::size_t i = 0; i < warps.size(); ++i) {
    Warp& w = *warps[(start + i) % warps.size()];
    if (w.live == 0) continue;
    alive = true;
    if ((w.active != 0 && w.wait.kind == WaitKind::none) || select_group(w)) return &w;
  }
  return nullptr;
}

/// Runs for a while; true when the cluster has ended.
bool run_slice(Cluster& c) {
  LaunchState& state = *c.launch;
  std::vector<Warp*> warps;
  for (const auto& b : c.blocks)
    for (Warp& w : b->warps) warps.push_back(&w);
  const std::uint64_t before = c.progress;
  std::uint64_t ran = 0, last_progress = before, last_useful = 0;
  // Eager runs favour long stretches (fast); the adversarial policies switch often.
  const std::uint32_t longest = c.policy == Policy::eager ? 2048 : c.policy == Policy::lazy ? 512 : 96;
  const std::uint64_t slice = slice_of(c);
  c.slept = false;
  while (ran < slice) {
    if (c.aborted || state.stop.load(std::memory_order_relaxed)) return true;
    const std::size_t start = c.random() % warps.size();
    bool alive = false;
    Warp* chosen = choose_warp(warps, start, alive);
    if (!alive) {
      while (complete_one(c, false)) {
      }
      if (c.findings) check_leftovers(c);
      return true;
    }
    if (chosen == nullptr) {
      unblock(c);
      continue;
    }
    const std::uint32_t quantum = 1 + static_cast<std::uint32_t>(c.random() % longest);
    ran += run_warp(*chosen, quantum);
    // Lanes that try for a lock let the lane of their warp go on that has it.
    if (chosen->futile >= kFutile) {
      chosen->futile = 0;
      yield_all(std::span(&chosen, 1));
    }
    if (c.slept) break;  // what it looks at may be another block's to write
    if (c.progress != last_progress) {
      last_progress = c.progress;
      last_useful = ran;
      c.idle_rounds = 0;
    }
    if (ran - last_useful > kSpinning) break;
    if (c.policy == Policy::random && (c.random() & 3) == 0) complete_one(c, true);
  }
  if (c.progress == before) yield_all(warps);
  // A warp may be polling memory that a late completion would write.
  complete_one(c, c.policy == Policy::random);
  return false;
}

void finish(Cluster& c) {
  LaunchState& state = *c.launch;
  const std::lock_guard lock(state.mutex);
  Counters& sum = state.report.counters;
  for (const auto& b : c.blocks)
    for (const Warp& w : b->warps) {
      for (int k = 0; k < static_cast<int>(Kind::count); ++k)
        if (w.counts[k] != 0) {
          sum.by_kind[name_of(static_cast<Kind>(k))] += w.counts[k];
          sum.warp_instructions += w.counts[k];
        }
      sum.lane_instructions += w.lane_instructions;
    }
  sum.shared_accesses += c.counters.shared_accesses;
  sum.shared_bank_conflicts += c.counters.shared_bank_conflicts;
  sum.global_accesses += c.counters.global_accesses;
  sum.global_sectors += c.counters.global_sectors;
  sum.global_bytes_read += c.counters.global_bytes_read;
  sum.global_bytes_written += c.counters.global_bytes_written;
  sum.async_bytes += c.counters.async_bytes;
  sum.matrix_flops += c.counters.matrix_flops;
  state.report.output += c.output;
}

}  // namespace

void abort_cluster(Cluster& c) {
  c.aborted = true;
  for (const auto& b : c.blocks)
    for (Warp& w : b->warps) w.stop = true;
  const std::lock_guard lock(c.launch->mutex);
  c.launch->report.completed = false;
}

/// Where all blocks of a host thread sleep they wait for those of another one, which need time, too: a bounded number of
/// looks would otherwise be over before they have run.
class Naps {
 public:
  /// `others`: clusters of this thread beside the one whose slice it was.
  void after_slice(bool slept, std::size_t others) {
    if (!slept) asleep_ = 0, nap_ = kShortest;
    if (!slept || ++asleep_ <= others || left_ == 0) return;
    --left_, asleep_ = 0;
    std::this_thread::sleep_for(nap_);
    nap_ = std::min(2 * nap_, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kShortest{50}, kLongest{6400};
  std::size_t asleep_ = 0;  ///< slices in a row that ended asleep
  std::chrono::microseconds nap_ = kShortest;
  int left_ = 200;  ///< a program that waits for ever is stopped by its instructions
};

void run_clusters(LaunchState& state) {
  std::deque<std::unique_ptr<Cluster>> resident;
  // Blocks of a cooperative launch are there all at once.
  const std::size_t limit = state.program->uses_grid_workspace
                                ? static_cast<std::size_t>(state.clusters)
                                : std::max<std::size_t>(1, state.launch->num_sms);
  bool want_more = true;
  Naps naps;
  try {
    for (;;) {
      if (want_more && resident.size() < limit) {
        const std::uint64_t i = state.next_cluster.fetch_add(1);
        if (i < state.clusters) resident.push_front(make_cluster(state, i));
      }
      if (resident.empty()) return;
      std::unique_ptr<Cluster> c = std::move(resident.front());
      resident.pop_front();
      std::uint64_t before = c->instructions;
      const bool ended = run_slice(*c);
      if (state.several_threads) naps.after_slice(c->slept, resident.size());
      c->instructions = 0;
      for (const auto& b : c->blocks)
        for (const Warp& w : b->warps)
          for (const std::uint64_t n : w.counts) c->instructions += n;
      const std::uint64_t total = state.instructions += c->instructions - before;
      if (total > state.launch->instruction_budget && !state.stop.exchange(true)) {
        Finding f;
        f.kind = "instruction-budget";
        f.message = "stopped after " + std::to_string(total) + " warp-instructions";
        f.site.kernel = state.launch->kernel;
        f.site.block = c->blocks[0]->id;
        report(*c, std::move(f));
        abort_cluster(*c);
      }
      if (ended)
        finish(*c);
      else
        resident.push_back(std::move(c));
      want_more = true;
    }
  } catch (const Error& e) {
    const std::lock_guard lock(state.mutex);
    if (state.failure.empty()) {
      state.failure = e.what();
      state.failure_line = e.line();
    }
    state.stop = true;
  }
}

}  // namespace kiln::emulator
