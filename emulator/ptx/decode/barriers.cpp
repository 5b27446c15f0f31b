// Barriers of blocks and clusters: bar, barrier, barrier.cluster.
#include <algorithm>
#include <bit>
#include <optional>

#include "base/plural.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

enum BarFlag : std::uint16_t {
  kArrive = 1,
  kAligned = 2,
  kRed = 4,
  kAnd = 8,
  kOr = 16,
  kPopc = 32,
  kRelaxed = 64
};

void finish_reduction(Warp& w, const Op& op, const NamedBarrier& b) {
  if ((op.flags & kPopc) != 0) {
    each_lane(w, [&](int l) { w.out<std::uint32_t>(op.d)[l] = b.last_popc; });
    return;
  }
  const bool r = (op.flags & kAnd) != 0 ? b.last_and != 0 : b.last_or != 0;
  std::uint32_t& d = *w.out<std::uint32_t>(op.d);
  d = (d & ~w.exec) | (r ? w.exec : 0);
}

/// Whole warps may return early. An aligned barrier is for all lanes of a warp.
void check_exited(Warp& w, const Op& op) {
  if (w.exited == 0 || !w.block->cluster->findings) return;
  const int lanes = std::popcount(w.exited);
  Finding f;
  f.kind = "divergent-barrier";
  f.severity = Severity::undefined;
  f.message =
      number_of(lanes, "lane") +
      " of the warp exited before this aligned barrier, at which the others wait; undefined in PTX, the "
      "hardware counts those as arrived";
  f.site = site_of(w, op, std::countr_zero(w.exec));
  f.other = site_of(w, *w.exit, std::countr_zero(w.exited));
  f.has_other = true;
  report(*w.block->cluster, std::move(f));
}

/// The first at a barrier says for how many it waits.
void note_count(Warp& w, const Op& op, std::uint32_t id, std::uint32_t count) {
  NamedBarrier& b = w.block->barriers[id];
  if (b.arrived == 0) {
    b.expected = count;
    b.all = op.b == kNoRef;
    b.first = &op;
    b.first_warp = w.index;
  } else if (b.expected != count) {
    report(w, op, std::countr_zero(w.exec), "barrier-count",
           "barrier " + std::to_string(id) + " entered with " +
               (op.b == kNoRef ? "all" : std::to_string(count)) + " threads while it waits for " +
               (b.all ? "all" : std::to_string(b.expected)),
           site_of(w.block->warps[static_cast<std::size_t>(b.first_warp)], *b.first, -1));
  }
}

/// Whether the hardware has such a barrier; what it has not ends the run.
bool check_barrier(Warp& w, const Op& op, std::uint32_t id) {
  const int lane = std::countr_zero(w.exec);
  if (const std::uint64_t threads = w.block->warps.size() * 32;
      w.block->cluster->findings && op.b != kNoRef && w.value(op.b, 4, lane) > threads)
    report(w, op, lane, "barrier-count",
           "barrier " + std::to_string(id) + " waits for " + std::to_string(w.value(op.b, 4, lane)) +
               " threads of a block of " + std::to_string(threads));
  if (id <= 15) return true;
  report(w, op, lane, "barrier-count", "barrier " + std::to_string(id) + " does not exist (0 to 15)");
  abort_cluster(*w.block->cluster);
  return false;
}

/// Threads that the barrier waits for; 0: those of the whole block. None (reported): a count that cannot be.
std::optional<std::uint32_t> thread_count(Warp& w, const Op& op) {
  if (op.b == kNoRef) return 0;
  const int lane = std::countr_zero(w.exec);
  const auto count = static_cast<std::uint32_t>(w.value(op.b, 4, lane));
  if (count != 0 && count % 32 == 0) return count;
  report(w, op, lane, "barrier-count",
         "thread count " + std::to_string(count) + " is no positive multiple of 32");
  abort_cluster(*w.block->cluster);
  return std::nullopt;
}

void contribute(Warp& w, const Op& op, NamedBarrier& b) {
  std::uint32_t p = *w.in<std::uint32_t>(op.c);
  if (op.imm != 0) p = ~p;
  p &= w.exec;
  b.and_ &= p == w.exec;
  b.or_ |= p != 0;
  b.popc += static_cast<std::uint32_t>(std::popcount(p));
}

/// Counts the lanes at barrier `id`.
void arrive(Warp& w, const Op& op, std::uint32_t id) {
  Cluster& c = *w.block->cluster;
  NamedBarrier& b = w.block->barriers[id];
  const int lane = std::countr_zero(w.exec);
  // Where threads are counted, a warp counts whole once all its live lanes are here.
  const std::uint32_t arriving =
      w.exec == w.live && !b.all ? 32u : static_cast<std::uint32_t>(std::popcount(w.exec));
  // Filling in for another warp once is a known trick (arrive, then sync); arriving twice loses count of the
  // phases.
  const std::uint32_t self = arriving == 32 && (op.flags & kArrive) != 0 ? 1u << w.index : 0;
  if (c.findings && (b.warps & self) != 0)
    report(w, op, lane, "barrier-count",
           "the warp arrives at barrier " + std::to_string(id) +
               " again before the phase it arrived at before is complete");
  b.warps |= self;
  b.only_arrived |= (op.flags & kArrive) != 0;
  b.arrived += arriving;
  if (c.races) c.races->release(w, b.arriving, w.exec);
  ++c.progress;
  if (!b.all && b.arrived > b.expected)
    report(w, op, lane, "barrier-count",
           std::to_string(b.arrived) + " threads entered barrier " + std::to_string(id) +
               ", which waits for " + std::to_string(b.expected));
  if ((op.flags & kRed) != 0) contribute(w, op, b);
}

/// Phase `generation` of the barrier is complete: the lanes go on.
void pass_barrier(Warp& w, const Op& op, std::uint32_t id, u64 generation) {
  NamedBarrier& b = w.block->barriers[id];
  trace(w, op, TraceEvent::What::bar_wait, id, generation);
  if (RaceTracker* r = w.block->cluster->races.get()) r->acquire(w, b.done, w.exec);
  if ((op.flags & kRed) != 0) finish_reduction(w, op, b);
}

void run_bar(Warp& w, const Op& op) {
  const auto id = static_cast<std::uint32_t>(w.value(op.a, 4, std::countr_zero(w.exec)));
  if (!check_barrier(w, op, id)) return;
  NamedBarrier& b = w.block->barriers[id];
  if (w.resumed) return pass_barrier(w, op, id, b.generation - 1);
  if ((op.flags & kAligned) != 0) {
    if (!converge(w, op, 0xffffffffu)) return;
    check_exited(w, op);
  }
  const std::optional<std::uint32_t> count = thread_count(w, op);
  if (!count) return;
  note_count(w, op, id, *count);
  arrive(w, op, id);
  const u64 generation = b.generation;
  trace(w, op, TraceEvent::What::bar_arrive, id, generation);
  barrier_settle(*w.block, b);
  if ((op.flags & kArrive) != 0) return;
  if (b.generation != generation) return pass_barrier(w, op, id, generation);
  Wait t;
  t.kind = WaitKind::barrier;
  t.id = id;
  t.value = generation;
  w.block_on(t);
}

/// Publishes what was fenced: by fence.acq_rel everything, by fence.mbarrier_init the warp's mbarriers.
void arrive_relaxed(Warp& w, Clock& into) {
  w.block->cluster->races->release_fenced(w, into, w.exec);
  for (auto& [offset, m] : w.block->mbarriers)
    if (m.init_warp == w.index && m.fenced) m.init_epoch = 0;
}

void run_cluster_barrier(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  if ((op.flags & kAligned) != 0 && !w.resumed && !converge(w, op, 0xffffffffu)) return;
  if ((op.flags & kArrive) != 0) {
    w.cluster_phase = c.barrier_generation;
    if (c.races && (op.flags & kRelaxed) == 0)
      c.races->release(w, c.barrier_arriving, w.exec);
    else if (c.races)
      arrive_relaxed(w, c.barrier_arriving);
    ++c.progress;
    if (++c.barrier_arrived >= c.live_threads_warps()) {
      c.barrier_arrived = 0;
      ++c.barrier_generation;
      c.barrier_done = c.barrier_arriving;
    }
    return;
  }
  if (w.resumed || c.barrier_generation != w.cluster_phase) {
    if (c.races) c.races->acquire(w, c.barrier_done, w.exec);
    return;
  }
  Wait t;
  t.kind = WaitKind::cluster_barrier;
  t.value = w.cluster_phase;
  w.block_on(t);
}

void decode_cluster_barrier(Decoder& d) {
  if (!d.has("arrive") && !d.has("wait")) d.unsupported();
  d.emit(run_cluster_barrier, Kind::barrier).flags =
      static_cast<std::uint16_t>((d.has("arrive") ? kArrive : 0) | (d.has("aligned") ? kAligned : 0) |
                                 (d.has("relaxed") ? kRelaxed : 0));
}

std::uint16_t bar_flags(Decoder& d) {
  unsigned flags = 0;
  if (d.has("arrive")) flags |= kArrive;
  if (d.in->opcode == "bar" || d.has("aligned")) flags |= kAligned;
  if (d.has("red"))
    flags |= kRed | (d.has("popc") ? kPopc : d.has("and") ? kAnd : kOr);
  else if (!d.has("sync") && !d.has("arrive"))
    d.unsupported();
  return static_cast<std::uint16_t>(flags);
}

}  // namespace

/// [result,] barrier [, threads] [, predicate]
void decode_bar(Decoder& d) {
  if (d.has("warp")) return decode_warp_barrier(d);
  if (d.has("cluster")) return decode_cluster_barrier(d);
  const std::uint16_t flags = bar_flags(d);
  const bool reduces = (flags & kRed) != 0;
  std::size_t i = 0;
  const Ref out = reduces ? d.dst(d.operand(i++), d.has("popc") ? 4 : 3) : kNoRef;
  const Ref a = d.src(d.operand(i++), 4);
  const bool counted = d.operands() - i == (reduces ? 2u : 1u);
  const Ref b = counted ? d.src(d.operand(i++), 4) : kNoRef;
  Ref p = kNoRef;
  bool negated = false;
  if (reduces) {
    Operand o = d.operand(i);
    negated = o.negated;
    o.negated = false;
    p = d.src(o, 3);
  }
  if ((flags & kArrive) != 0 && !counted) d.fail("a thread count is needed in");
  Op& op = d.emit(run_bar, Kind::barrier);
  op.a = a, op.b = b, op.c = p, op.d = out, op.flags = flags, op.imm = negated;
}

}  // namespace kiln::emulator::ptx
