// The dispatch loop, divergence (lowest program counter first) and the scheduler of a cluster.
#include <algorithm>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/tcgen05/hooks.hpp"

namespace kiln::emulator {
namespace {

void set_window(Warp& w) {
  w.base[0] = w.registers.data() + (w.frame ? w.frame->window : 0);
}

void park(Warp& w) {
  if (w.active == 0) return;
  w.others.push_back({w.pc, w.active, w.frame, w.wait, w.resumed, w.timed_out});
  w.active = 0;
}

bool satisfied(const Warp& w, const Group& g) {
  const Wait& t = g.wait;
  switch (t.kind) {
    case WaitKind::none:
      return true;
    case WaitKind::converge:
    case WaitKind::warp_barrier:
      return false;  // others of the warp join it, see select_group
    case WaitKind::barrier:
      return w.block->barriers[t.id].generation != t.value;
    case WaitKind::mbarrier: {
      const auto it = t.block->mbarriers.find(t.id);
      return it == t.block->mbarriers.end() || (it->second.phase & 1) != (t.value & 1);
    }
    case WaitKind::cluster_barrier:
      return w.block->cluster->barrier_generation != t.value;
    case WaitKind::wgmma: {
      const WgmmaQueue& q = w.block->warpgroups[static_cast<std::size_t>(w.index) / 4];
      for (std::uint64_t n = q.completed; n < t.value; ++n) {
        const std::uint64_t at = n - q.completed;
        if (at >= q.pending.size() || q.pending[at].warps != 0xf) return false;
      }
      return true;
    }
    case WaitKind::tensor_memory:
      return tcgen05::may_allocate(t);
    case WaitKind::sleep:
      return true;
  }
  return true;
}

/// Whether two groups are at the same place and free or waiting for each other.
bool joinable(const Group& a, const Group& b) {
  if (a.pc != b.pc || a.frame != b.frame || a.resumed || b.resumed) return false;
  const auto free = [](const Group& g) { return g.wait.kind == WaitKind::none; };
  const auto waits = [](const Group& g) { return g.wait.kind == WaitKind::converge; };
  if (waits(a) && waits(b)) return a.wait.id == b.wait.id;  // of another mask: another group
  return (free(a) || waits(a)) && (free(b) || waits(b));
}
void join_groups(std::vector<Group>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (std::size_t j = i + 1; j < groups.size();) {
      Group &a = groups[i], &b = groups[j];
      if (joinable(a, b)) {
        a.mask |= b.mask;
        if (b.wait.kind == WaitKind::none) a.wait = {};
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(j));
        i = 0;
        j = 1;
      } else {
        ++j;
      }
    }
}

/// bar.warp.sync joins lanes at different places.
void pass_warp_barriers(Warp& w) {
  const auto waits = [](const Group& g) { return g.wait.kind == WaitKind::warp_barrier; };
  std::uint32_t arrived = 0;
  for (const Group& g : w.others)
    if (waits(g)) arrived |= g.mask;
  RaceTracker* const races = w.block->cluster->races.get();
  for (Group& g : w.others) {
    if (!waits(g) || (g.wait.id & w.live & ~arrived) != 0) continue;
    const std::uint32_t mask = g.wait.id;
    if (races != nullptr) races->synchronize_lanes(w, (mask | g.mask) & w.live);
    for (Group& same : w.others)
      if (waits(same) && same.wait.id == mask) {
        same.wait = {};
        same.resumed = true;
      }
  }
}

void merge_groups(Warp& w) {
  join_groups(w.others);
  // A converging group that has got its lanes, or lost the missing ones to exit, may go on.
  for (Group& g : w.others)
    if (g.wait.kind == WaitKind::converge && (g.wait.id & w.live & ~g.mask) == 0) g.wait = {};
  pass_warp_barriers(w);
}

/// Makes the group at `index` of the waiting ones the running one.
void enter_group(Warp& w, std::size_t index) {
  Group g = std::move(w.others[index]);
  w.others.erase(w.others.begin() + static_cast<std::ptrdiff_t>(index));
  w.pc = g.pc;
  w.active = g.mask;
  w.frame = std::move(g.frame);
  w.resumed = g.resumed || (g.wait.kind != WaitKind::none && g.wait.kind != WaitKind::converge);
  w.timed_out = g.timed_out;
  w.wait = {};
  w.stop_pc = 0xffffffffu;
  // A group blocked right here is no reason to stop: this one would be parked before its first instruction.
  for (const Group& o : w.others)
    if (o.frame == w.frame && o.pc > w.pc)
      w.stop_pc = std::min(w.stop_pc, o.pc);
    else if (o.frame == w.frame && o.pc < w.pc && o.wait.kind == WaitKind::converge)
      continue;
  // Groups behind that are free would have been chosen; blocked ones are looked at when this one stops.
  set_window(w);
}

}  // namespace

bool select_group(Warp& w) {
  park(w);
  if (w.others.empty()) return false;
  merge_groups(w);
  std::size_t best = w.others.size();
  const auto depth = [](const Group& g) { return g.frame ? g.frame->depth : 0; };
  for (std::size_t i = 0; i < w.others.size(); ++i) {
    Group& g = w.others[i];
    if (!satisfied(w, g)) continue;
    if (best == w.others.size() || depth(g) > depth(w.others[best]) ||
        (depth(g) == depth(w.others[best]) && g.pc < w.others[best].pc))
      best = i;
  }
  if (best == w.others.size()) return false;
  enter_group(w, best);
  return true;
}

void yield_group(Warp& w) {
  const std::uint32_t ran = w.pc;
  park(w);
  if (w.others.empty()) return;
  merge_groups(w);
  // The next higher place, then round to the lowest.
  const auto rank = [&](const Group& g) { return g.pc - ran - 1; };
  std::size_t best = w.others.size();
  for (std::size_t i = 0; i < w.others.size(); ++i)
    if (satisfied(w, w.others[i]) && (best == w.others.size() || rank(w.others[i]) < rank(w.others[best])))
      best = i;
  if (best != w.others.size()) enter_group(w, best);
}

std::uint32_t run_warp(Warp& w, std::uint32_t quantum) {
  const Program& program = *w.block->cluster->program;
  const Op* const ops = program.ops.data();
  w.stop = false;
  std::uint32_t n = 0;
  std::uint64_t lanes = 0;
  const bool resumed = w.resumed, findings = w.block->cluster->findings;
  TraceWork* const work = traced_work(w);
  while (n < quantum) {
    if (w.pc >= w.stop_pc && !(n == 0 && resumed)) {
      park(w);
      break;
    }
    const std::uint32_t at = w.pc;
    const Op& op = ops[at];
    std::uint32_t exec = w.active;
    if (op.predicate != kNoRef) {
      const std::uint32_t p = *w.in<std::uint32_t>(op.predicate);
      exec &= op.predicate_negated ? ~p : p;
    }
    ++w.pc;
    ++n;
    w.exec = exec;
    ++w.counts[static_cast<int>(op.kind)];
    lanes += exec == 0xffffffffu ? 32 : static_cast<std::uint32_t>(std::popcount(exec));
    if (findings && op.predicate != kNoRef) check_guard(w, op, program);
    if (exec == 0) continue;
    if (work != nullptr) work->add(work_of(w, op));
    if (findings && (op.stamps || (exec & ~w.clean[at]) != 0)) {
      track_registers(w, op, program);
      if (w.stop) break;
    }
    op.run(w, op);
    if (w.stop) break;
    w.resumed = false;
    w.timed_out = false;
  }
  w.lane_instructions += lanes;
  return n;
}

/// The block's shared memory ends with it: nothing may still read from there. PTX does not say that a block lasts until
/// its bulk stores have read; public kernels (CUTLASS's epilogues for sm_100) end so.
void check_stores_done(Warp& w, std::uint32_t mask) {
  const Cluster& c = *w.block->cluster;
  for (const UnitEpoch& u : w.unit_epochs) {
    if (u.unit != static_cast<std::uint32_t>(Unit::bulk_store) || (mask & u.lanes) == 0) continue;
    const int lane = std::countr_zero(mask & u.lanes);
    report(w, c.program->ops[w.pc - 1], lane, "async-memory",
           "the thread ends while its bulk store may still read shared memory: no "
           "cp.async.bulk.wait_group[.read] covers it",
           site_of(w, *u.op, lane), Severity::undefined);
    return;
  }
}

void exit_lanes(Warp& w, std::uint32_t mask) {
  Cluster& c = *w.block->cluster;
  if (c.findings && !w.unit_epochs.empty()) check_stores_done(w, mask);
  w.active &= ~mask;
  w.live &= ~mask;
  w.exited |= mask;
  w.exit = &c.program->ops[w.pc - 1];
  w.stop = true;
  ++c.progress;
  if (w.live != 0) {  // the others may have waited for these
    for (NamedBarrier& b : w.block->barriers) barrier_settle(*w.block, b);
    return;
  }
  trace(w, c.program->ops[w.pc - 1], TraceEvent::What::end, 0);
  tcgen05::warp_ended(w);
  --w.block->live_warps;
  if (w.block->live_warps == 0 && !c.aborted) tcgen05::block_ended(w);
  if (c.findings && c.launch->launch->programmatic && !w.block->waited_for_launches &&
      w.block->live_warps == 0 && !c.aborted)
    report(w, c.program->ops[w.pc - 1], -1, "early-access",
           "the block ends without griddepcontrol.wait: who waits for this launch need not find the one "
           "before it done");
  if (c.races && w.block->live_warps == 0 && !c.aborted)
    c.races->block_ended(w, c.program->ops[w.pc - 1], *w.block);
  for (NamedBarrier& b : w.block->barriers) barrier_settle(*w.block, b);
  if (c.barrier_arrived != 0 && c.barrier_arrived >= c.live_threads_warps()) {
    c.barrier_arrived = 0;
    ++c.barrier_generation;
    c.barrier_done = c.barrier_arriving;
  }
}

}  // namespace kiln::emulator
