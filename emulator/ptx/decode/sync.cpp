// Barriers, mbarriers, fences and the instructions that only wait.
#include <algorithm>
#include <bit>
#include <span>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

// --- named barriers ---
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
      std::to_string(lanes) + (lanes == 1 ? " lane" : " lanes") +
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

void run_bar(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  const int lane = std::countr_zero(w.exec);
  const auto id = static_cast<std::uint32_t>(w.value(op.a, 4, lane));
  if (const std::uint64_t threads = w.block->warps.size() * 32;
      c.findings && op.b != kNoRef && w.value(op.b, 4, lane) > threads)
    report(w, op, lane, "barrier-count",
           "barrier " + std::to_string(id) + " waits for " + std::to_string(w.value(op.b, 4, lane)) +
               " threads of a block of " + std::to_string(threads));
  if (id > 15) {
    report(w, op, lane, "barrier-count", "barrier " + std::to_string(id) + " does not exist (0 to 15)");
    abort_cluster(c);
    return;
  }
  NamedBarrier& b = w.block->barriers[id];
  if (w.resumed) {
    trace(w, op, TraceEvent::What::bar_wait, id, b.generation - 1);
    if (c.races) c.races->acquire(w, b.done, w.exec);
    if ((op.flags & kRed) != 0) finish_reduction(w, op, b);
    return;
  }
  if ((op.flags & kAligned) != 0) {
    if (!converge(w, op, 0xffffffffu)) return;
    check_exited(w, op);
  }
  const std::uint32_t count = op.b == kNoRef ? 0 : static_cast<std::uint32_t>(w.value(op.b, 4, lane));
  if (op.b != kNoRef && (count == 0 || count % 32 != 0)) {
    report(w, op, lane, "barrier-count",
           "thread count " + std::to_string(count) + " is no positive multiple of 32");
    abort_cluster(c);
    return;
  }
  note_count(w, op, id, count);
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
  if ((op.flags & kRed) != 0) {
    std::uint32_t p = *w.in<std::uint32_t>(op.c);
    if (op.imm != 0) p = ~p;
    p &= w.exec;
    b.and_ &= p == w.exec;
    b.or_ |= p != 0;
    b.popc += static_cast<std::uint32_t>(std::popcount(p));
  }
  const u64 generation = b.generation;
  trace(w, op, TraceEvent::What::bar_arrive, id, generation);
  barrier_settle(*w.block, b);
  if ((op.flags & kArrive) != 0) return;
  if (b.generation != generation) {
    trace(w, op, TraceEvent::What::bar_wait, id, generation);
    if (c.races) c.races->acquire(w, b.done, w.exec);
    if ((op.flags & kRed) != 0) finish_reduction(w, op, b);
    return;
  }
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

void decode_bar(Decoder& d) {
  if (d.has("warp")) return decode_warp_barrier(d);
  if (d.has("cluster")) {
    Op& op = d.emit(run_cluster_barrier, Kind::barrier);
    if (!d.has("arrive") && !d.has("wait")) d.unsupported();
    op.flags =
        static_cast<std::uint16_t>((d.has("arrive") ? kArrive : 0) | (d.has("aligned") ? kAligned : 0) |
                                   (d.has("relaxed") ? kRelaxed : 0));
    return;
  }
  std::uint16_t flags = 0;
  if (d.has("arrive")) flags |= kArrive;
  if (d.in->opcode == "bar" || d.has("aligned")) flags |= kAligned;
  if (d.has("red"))
    flags |= static_cast<std::uint16_t>(kRed | (d.has("popc") ? kPopc : d.has("and") ? kAnd : kOr));
  else if (!d.has("sync") && !d.has("arrive"))
    d.unsupported();
  std::size_t i = 0;
  const Ref out = (flags & kRed) != 0 ? d.dst(d.operand(i++), d.has("popc") ? 4 : 3) : kNoRef;
  const Ref a = d.src(d.operand(i++), 4);
  Ref b = kNoRef, p = kNoRef;
  bool negated = false;
  const std::size_t rest = d.operands() - i;
  if (rest == ((flags & kRed) != 0 ? 2u : 1u)) b = d.src(d.operand(i++), 4);
  if ((flags & kRed) != 0) {
    Operand o = d.operand(i);
    negated = o.negated;
    o.negated = false;
    p = d.src(o, 3);
  }
  if ((flags & kArrive) != 0 && b == kNoRef) d.fail("a thread count is needed in");
  Op& op = d.emit(run_bar, Kind::barrier);
  op.a = a, op.b = b, op.c = p, op.d = out, op.flags = flags, op.imm = negated;
}

// --- mbarriers ---
enum class Mb : std::uint8_t { init, inval, arrive, drop, expect, complete, test, pending };
enum MbFlag : std::uint16_t {
  kCluster = 1,
  kExpectTx = 2,
  kParity = 4,
  kNoComplete = 8,
  kSharedSpace = 16,
  kMayBlock = 32
};

struct Target {
  Block* block = nullptr;
  std::uint32_t offset = 0;
};
Target target_of(Warp& w, const Op& op, int lane) {
  u64 a = w.value(op.a, op.asize, lane) + static_cast<u64>(op.imm);
  bool any = (op.flags & kCluster) != 0;
  if ((op.flags & kSharedSpace) == 0) {
    a -= kSharedWindow;
    any = true;
  }
  Target t{a <= 0xffffffffu ? shared_block(w, a, any) : nullptr, static_cast<std::uint32_t>(a) & 0xffffffu};
  if (t.block == nullptr || t.offset + 8 > t.block->smem.size() || t.offset < kSharedBase ||
      (t.offset & 7) != 0) {
    report(w, op, lane, "invalid-mbarrier",
           "address " + std::to_string(a) + " is no aligned shared address of the cluster");
    t.block = nullptr;
  }
  return t;
}

/// Of the lanes from `first` on those whose arrivals the phase still wants; the others count to the next one.
std::uint32_t arrivals_of_phase(std::uint32_t lanes, int first, std::uint32_t wanted) {
  lanes &= ~((1u << first) - 1);
  if (static_cast<std::uint32_t>(std::popcount(lanes)) <= wanted) return lanes;
  std::uint32_t taken = 0;
  for (std::uint32_t m = lanes; m != 0 && wanted != 0; m &= m - 1, --wanted) taken |= m & (0 - m);
  return taken != 0 ? taken : lanes;
}

void initialise(Warp& w, const Op& op, int l, const Target& t) {
  Cluster& c = *w.block->cluster;
  const auto n = static_cast<std::uint32_t>(w.value(op.b, 4, l));
  if (n == 0 || n >= (1u << 20))
    report(w, op, l, "invalid-mbarrier", "arrival count " + std::to_string(n) + " is not in 1 .. 2^20-1");
  MBarrier& m = t.block->mbarriers[t.offset];
  if (c.findings && m.init != nullptr)
    report(w, op, l, "invalid-mbarrier",
           "initialises the mbarrier at shared address " + std::to_string(t.offset) +
               " again, with no mbarrier.inval since" +
               (m.pending != m.count || m.tx != 0 ? ", while a phase is under way" : ""),
           site_of(t.block->warps[static_cast<std::size_t>(m.init_warp)], *m.init, -1));
  m = MBarrier{};
  m.count = m.pending = n;
  m.init = &op;
  m.init_warp = w.index;
  m.init_epoch = c.races ? c.races->epoch(w) : 0;
  std::memset(t.block->shadow.data() + t.offset, kMbarrier, 8);
  ++c.progress;
}

void note_arrival(Warp& w, const Op& op, int lane, std::uint32_t offset, const MBarrier& m,
                  std::uint32_t count) {
  if (count > m.pending) report_overrun(w, op, lane, offset, m);
  trace(w, op, TraceEvent::What::arrive, offset - kSharedBase, m.phase);
}

void run_mbarrier(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  const auto what = static_cast<Mb>(op.count);
  // The first lane's release publishes what all lanes do here.
  const std::uint32_t before = c.races ? c.races->epoch(w) : 0;
  const MBarrier* published = nullptr;
  u64 phase = 0;
  each_lane(w, [&](int l) {
    const Target t = target_of(w, op, l);
    if (t.block == nullptr) return;
    if (what == Mb::init) return initialise(w, op, l, t);
    MBarrier* m = find_mbarrier(w, op, l, *t.block, t.offset);
    if (m == nullptr) return;
    if (c.races && t.block != w.block) c.races->visit(w, op, l, *t.block, 0, before);
    const std::uint64_t state = m->phase << 40 | u64{m->pending} << 20;
    switch (what) {
      case Mb::inval:
        std::memset(t.block->shadow.data() + t.offset, kWritten, 8);
        t.block->mbarriers.erase(t.offset);
        break;
      case Mb::expect:
        m->tx += static_cast<std::int64_t>(w.value(op.b, 4, l));
        m->last_expect = &op;
        mbarrier_settle(c, *m);
        break;
      case Mb::complete:
        mbarrier_complete_tx(c, *m, static_cast<std::int64_t>(w.value(op.b, 4, l)));
        break;
      case Mb::arrive:
      case Mb::drop: {
        std::uint32_t n = 1;
        if ((op.flags & kExpectTx) != 0) {
          m->tx += static_cast<std::int64_t>(w.value(op.b, 4, l));
          m->last_expect = &op;
          if (m->tx >= (1 << 20))
            report(w, op, l, "transaction-count", std::to_string(m->tx) + " bytes outstanding exceed 2^20-1");
        } else if (op.b != kNoRef) {
          n = static_cast<std::uint32_t>(w.value(op.b, 4, l));
        }
        note_arrival(w, op, l, t.offset, *m, n);
        // Lanes that arrive together publish together, once for each mbarrier and phase.
        if (c.races && (m != published || m->phase != phase))
          c.races->release(w, m->arriving, arrivals_of_phase(w.exec, l, m->pending / std::max(n, 1u)));
        published = m;
        phase = m->phase;
        if (what == Mb::drop) m->count -= std::min(n, m->count);
        mbarrier_arrive(c, *m, n);
        if (op.d != kNoRef) w.set(op.d, 8, l, state);
        break;
      }
      default:
        break;
    }
  });
}

/// Whether lanes whose phase is not, or not known to be, complete are told so at once: the hardware may, so
/// a program must not rely on the first answer. The same question again waits. (Eager runs wait at once.)
bool answers_early(Warp& w, const Op& op, std::uint32_t lanes) {
  Cluster& c = *w.block->cluster;
  if (c.policy == Policy::eager) return false;
  std::uint32_t before = 0;
  for (const FailedTry& f : w.failed_tries)
    if (f.op == &op) before |= f.lanes;
  if ((lanes & ~before) == 0) {
    for (FailedTry& f : w.failed_tries)
      if (f.op == &op) f.lanes &= ~lanes;
    std::erase_if(w.failed_tries, [](const FailedTry& f) { return f.lanes == 0; });
    return false;
  }
  if (c.policy == Policy::random && (c.random() & 1) != 0) return false;
  w.failed_tries.push_back({&op, lanes});
  return true;
}

/// Lanes that found a phase of an mbarrier complete.
struct Passed {
  MBarrier* mbarrier;
  std::uint32_t lanes;
};

/// They learn what its arrivals published. A test_wait may only look; a try_wait has to come in time.
void take_passed(Warp& w, const Op& op, std::span<const Passed> all, std::uint32_t done) {
  RaceTracker* const races = w.block->cluster->races.get();
  if (races == nullptr) return;
  for (const Passed& p : all) {
    races->acquire(w, p.mbarrier->done, done);
    if ((op.flags & kMayBlock) != 0) note_passed(w, op, *p.mbarrier, p.lanes & done);
  }
}

void run_mbarrier_test(Warp& w, const Op& op) {
  std::uint32_t done = 0, news = 0;
  MBarrier* acquired = nullptr;
  Passed all_passed[32];
  std::size_t count = 0;
  std::uint32_t passed = 0;  // the mbarrier, for a trace
  Wait t;
  each_lane(w, [&](int l) {
    const Target at = target_of(w, op, l);
    MBarrier* m = at.block == nullptr ? nullptr : find_mbarrier(w, op, l, *at.block, at.offset);
    if (m == nullptr) {
      done |= 1u << l;
      return;
    }
    const u64 v = w.value(op.b, op.bsize, l);
    const u64 parity = (op.flags & kParity) != 0 ? v & 1 : (v >> 40) & 1;
    if ((m->phase & 1) != parity) {
      done |= 1u << l;
      if (const RaceTracker* r = w.block->cluster->races.get(); r != nullptr && !r->follows(w, l, m->done))
        news |= 1u << l;
      if (m != acquired) all_passed[count++] = {m, 0};
      all_passed[count - 1].lanes |= 1u << l;
      acquired = m;
      passed = at.offset;
    } else if (t.kind == WaitKind::none) {
      t.kind = WaitKind::mbarrier;
      t.block = at.block;
      t.id = at.offset;
      t.value = parity;
    }
  });
  if (w.block->cluster->aborted) return;
  // Completed, but nothing the lane knows says so: the answer could have come before.
  const std::uint32_t open = (w.exec & ~done) | news;
  if (open != 0 && !w.resumed && !w.timed_out && answers_early(w, op, open)) {
    done &= ~open;
    w.timed_out = true;
  }
  take_passed(w, op, std::span(all_passed, count), done);
  if (done == 0 && !w.timed_out) return w.block_on(t);
  // In phase 0 nobody was waited for: it was free from the start.
  if (done != 0 && acquired != nullptr && acquired->phase > 0)
    trace(w, op, TraceEvent::What::wait, passed - kSharedBase, acquired->phase - 1);
  std::uint32_t& d = *w.out<std::uint32_t>(op.d);
  d = (d & ~w.exec) | (done & w.exec);
}
void run_pending_count(Warp& w, const Op& op) {
  each_lane(w, [&](int l) { w.set(op.d, 4, l, w.value(op.a, 8, l) >> 20 & 0xfffff); });
}

void decode_mbarrier_test(Decoder& d, std::uint16_t flags) {
  if (d.has("parity")) flags |= kParity;
  if (d.has("try_wait")) flags |= kMayBlock;
  const Ref r = d.dst(d.operand(0), 3);
  const auto a = d.address(d.operand(1), Space::shared);
  const int bs = d.has("parity") ? 4 : 8;
  const Ref b = d.src(d.operand(2), bs);
  Op& op = d.emit(run_mbarrier_test, Kind::mbarrier);
  op.d = r, op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset, op.b = b,
  op.bsize = static_cast<std::uint8_t>(bs), op.flags = flags;
}

void decode_mbarrier(Decoder& d) {
  std::string_view name;
  const Space space = d.space_of(name);
  std::uint16_t flags = static_cast<std::uint16_t>((name == "shared::cluster" ? kCluster : 0) |
                                                   (space == Space::shared ? kSharedSpace : 0));
  if (d.has("pending_count")) {
    const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 8);
    Op& op = d.emit(run_pending_count, Kind::mbarrier);
    op.d = r, op.a = a;
    return;
  }
  if (d.has("test_wait") || d.has("try_wait")) return decode_mbarrier_test(d, flags);
  const Mb what = d.has("init")          ? Mb::init
                  : d.has("inval")       ? Mb::inval
                  : d.has("arrive_drop") ? Mb::drop
                  : d.has("arrive")      ? Mb::arrive
                  : d.has("expect_tx")   ? Mb::expect
                  : d.has("complete_tx") ? Mb::complete
                                         : Mb::pending;
  if (what == Mb::pending) d.unsupported();
  if (d.has("expect_tx") && what != Mb::expect) flags |= kExpectTx;
  std::size_t i = 0;
  Ref r = kNoRef;
  if (d.operand(0).kind != Operand::Kind::address) {
    if (d.operand(0).kind != Operand::Kind::sink) r = d.dst(d.operand(0), 8);
    ++i;
  }
  const auto a = d.address(d.operand(i++), Space::shared);
  const Ref b = i < d.operands() ? d.src(d.operand(i), 4) : kNoRef;
  if (b == kNoRef &&
      (what == Mb::init || what == Mb::expect || what == Mb::complete || (flags & kExpectTx) != 0))
    d.fail("too few operands of");
  Op& op = d.emit(run_mbarrier, Kind::mbarrier);
  op.d = r, op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset, op.b = b,
  op.flags = flags, op.count = static_cast<std::uint8_t>(what);
}

void nothing(Warp&, const Op&) {}
/// Mbarriers that this warp initialised are there for copies from now on.
void run_mbarrier_fence(Warp& w, const Op&) {
  for (auto& [offset, m] : w.block->mbarriers) m.fenced |= m.init_warp == w.index;
}
void run_proxy_fence(Warp& w, const Op& op) {
  run_mbarrier_fence(w, op);
  if (RaceTracker* r = w.block->cluster->races.get())
    r->proxy_fence(w, w.exec, (op.flags & 2) != 0, (op.flags & 4) != 0);
}
void run_fence(Warp& w, const Op& op) {
  RaceTracker* r = w.block->cluster->races.get();
  if (r == nullptr) return;
  r->fence_lanes(w, w.exec);
  if ((op.flags & 1) == 0) return;
  r->fence(w);
  w.block->cluster->launch->globals->fence(w);
}
/// fence.proxy.tensormap::generic.acquire [map], 128
void run_map_acquire(Warp& w, const Op& op) {
  if (w.block->cluster->races == nullptr) return;
  GlobalRaces& globals = *w.block->cluster->launch->globals;
  each_lane(w, [&](int l) {
    globals.acquire_map(w, op, w.value(op.a, op.asize, l) + static_cast<std::uint64_t>(op.imm));
  });
}
void decode_map_acquire(Decoder& d) {
  const auto a = d.address(d.operand(0), Space::generic);
  Op& op = d.emit(run_map_acquire, Kind::fence);
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset;
}
void decode_fence(Decoder& d) {
  if (d.has("tensormap::generic") && d.has("acquire")) return decode_map_acquire(d);
  const bool proxy = d.has("proxy");
  Op& op = d.emit(proxy && (d.has("async") || d.has("async::generic") || d.has("async.shared::cta"))
                      ? run_proxy_fence
                  : d.has("mbarrier_init") ? run_mbarrier_fence
                  : proxy                  ? nothing
                                           : run_fence,
                  Kind::fence);
  const bool shared = d.has("shared::cta") || d.has("shared::cluster"), global = d.has("global");
  op.flags =
      static_cast<std::uint16_t>((d.has("gpu") || d.has("sys") || d.has("gl") ? 1 : 0) |  // other blocks
                                 (global ? 0 : 2) | (shared ? 0 : 4));
}
void decode_hint(Decoder& d) {
  d.emit(nothing, Kind::other);
}

void run_wait_for_launches(Warp& w, const Op&) {
  w.launches_before |= w.exec;
  w.block->waited_for_launches = true;
}
// What the next launch is promised of this one says nothing of those before it: they have ended by then.
void run_launch_dependents(Warp& w, const Op& op) {
  const Cluster& c = *w.block->cluster;
  c.launch->released_dependents.store(true, std::memory_order_relaxed);
  const Launch& launch = *c.launch->launch;
  const std::uint32_t early = w.exec & ~w.launches_before;
  if (!c.findings || !launch.programmatic || launch.touches_early || early == 0) return;
  report(w, op, std::countr_zero(early), "early-access",
         "the next launch may begin before griddepcontrol.wait: the launch before may still be running");
}
void decode_griddepcontrol(Decoder& d) {
  d.emit(d.has("wait") ? run_wait_for_launches : run_launch_dependents, Kind::other);
}

void run_sleep(Warp& w, const Op&) {
  if (w.resumed) return;
  Wait t;
  t.kind = WaitKind::sleep;
  w.block->cluster->slept = true;
  w.block_on(t);
}
void decode_nanosleep(Decoder& d) {
  d.emit(run_sleep, Kind::other);
}

void run_setmaxnreg(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  w.register_budget = static_cast<std::uint32_t>(op.imm);
  // The block's registers: those of every warp that has set its number, 32 lanes each.
  u64 sum = 0;
  for (const Warp& o : w.block->warps) sum += u64{o.register_budget} * 32;
  if (sum > 65536)
    report(w, op, -1, "register-budget",
           "the warps of the block now ask for " + std::to_string(sum) + " registers of 65536");
}
void decode_setmaxnreg(Decoder& d) {
  const std::int64_t n = d.operand(0).value;
  if (d.operand(0).kind != Operand::Kind::integer || n < 24 || n > 256 || n % 8 != 0)
    d.fail("the count must be a multiple of 8 from 24 to 256 in");
  d.emit(run_setmaxnreg, Kind::other).imm = n;
}

}  // namespace

std::vector<DecodeEntry> sync_table() {
  return {
      {"bar", decode_bar},      {"barrier", decode_bar},         {"mbarrier", decode_mbarrier},
      {"fence", decode_fence},  {"membar", decode_fence},        {"griddepcontrol", decode_griddepcontrol},
      {"pmevent", decode_hint}, {"nanosleep", decode_nanosleep}, {"setmaxnreg", decode_setmaxnreg}};
}

}  // namespace kiln::emulator::ptx
