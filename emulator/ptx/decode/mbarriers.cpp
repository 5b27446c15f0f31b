// mbarrier: initialisation, arrivals, transaction counts, waits.
#include <algorithm>
#include <bit>
#include <span>
#include <string_view>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

enum class Mb : std::uint8_t { init, inval, arrive, drop, expect, complete };
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

void decode_pending_count(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 8);
  Op& op = d.emit(run_pending_count, Kind::mbarrier);
  op.d = r, op.a = a;
}

Mb mbarrier_step(Decoder& d) {
  struct Row {
    std::string_view name;
    Mb step;
  };
  static constexpr Row kSteps[] = {{"init", Mb::init},        {"inval", Mb::inval},
                                   {"arrive_drop", Mb::drop}, {"arrive", Mb::arrive},
                                   {"expect_tx", Mb::expect}, {"complete_tx", Mb::complete}};
  for (const Row& row : kSteps)
    if (d.has(row.name)) return row.step;
  d.unsupported();
}

}  // namespace

void decode_mbarrier(Decoder& d) {
  std::string_view name;
  const Space space = d.space_of(name);
  std::uint16_t flags = static_cast<std::uint16_t>((name == "shared::cluster" ? kCluster : 0) |
                                                   (space == Space::shared ? kSharedSpace : 0));
  if (d.has("pending_count")) return decode_pending_count(d);
  if (d.has("test_wait") || d.has("try_wait")) return decode_mbarrier_test(d, flags);
  const Mb what = mbarrier_step(d);
  if (d.has("expect_tx") && what != Mb::expect) flags |= kExpectTx;
  std::size_t i = 0;
  Ref r = kNoRef;
  if (d.operand(0).kind != Operand::Kind::address) {
    if (d.operand(0).kind != Operand::Kind::sink) r = d.dst(d.operand(0), 8);
    ++i;
  }
  const auto a = d.address(d.operand(i++), Space::shared);
  const Ref b = i < d.operands() ? d.src(d.operand(i), 4) : kNoRef;
  const bool counts =
      what == Mb::init || what == Mb::expect || what == Mb::complete || (flags & kExpectTx) != 0;
  if (b == kNoRef && counts) d.fail("too few operands of");
  Op& op = d.emit(run_mbarrier, Kind::mbarrier);
  op.d = r, op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset, op.b = b,
  op.flags = flags, op.count = static_cast<std::uint8_t>(what);
}

}  // namespace kiln::emulator::ptx
