// cp.async and its groups.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/decode/warp_copies.hpp"

namespace kiln::emulator::ptx {

void retire_groups(Warp& w, std::uint32_t unit, std::int64_t keep, const std::uint32_t* committed) {
  RaceTracker* r = w.block->cluster->races.get();
  if (r == nullptr) return;
  // What the same lanes have waited for, up to the latest of it.
  std::vector<UnitEpoch> done;
  std::uint32_t floor = r->last_begun(w, unit);
  std::erase_if(w.unit_epochs, [&](UnitEpoch& u) {
    if (u.unit != unit) return false;
    std::uint32_t lanes = 0;
    for (std::uint32_t m = w.exec & u.lanes; m != 0; m &= m - 1)
      if (const int l = std::countr_zero(m); keep < 0 || u.group + keep < committed[l]) lanes |= 1u << l;
    u.lanes &= ~lanes;
    if (u.lanes != 0) floor = std::min(floor, u.epoch - 1);
    if (lanes == 0) return false;
    const auto same =
        std::find_if(done.begin(), done.end(), [&](const UnitEpoch& d) { return d.lanes == lanes; });
    if (same != done.end())
      same->epoch = std::max(same->epoch, u.epoch);
    else
      done.push_back({unit, u.epoch, 0, lanes, u.op});
    return u.lanes == 0;
  });
  for (const UnitEpoch& d : done) r->retire_own(w, unit, d.epoch, floor, d.lanes);
}
namespace {

using u64 = std::uint64_t;

u64 shared_address(const Warp& w, Ref ref, int size, std::int64_t offset, bool generic, int lane) {
  const u64 a = w.value(ref, static_cast<std::uint8_t>(size), lane) + static_cast<u64>(offset);
  return generic ? a - kSharedWindow : a;
}

// --- cp.async ---
/// Checks a lane's copy and tells the race trackers; false if there will be none.
bool note_copy(Warp& w, const Op& op, LaneCopy& copy, std::uint32_t epoch) {
  Cluster& c = *w.block->cluster;
  const auto unit = static_cast<std::uint32_t>(Unit::cp_async);
  const int l = copy.lane;
  if (copy.source_bytes != 0) {
    if ((copy.global & (op.width - 1u)) != 0) {
      report(w, op, l, "misaligned",
             "source of cp.async is not aligned to " + std::to_string(op.width) + " bytes");
      return false;
    }
    const Place p = locate(w, op, Space::global, copy.global, copy.source_bytes, l, Access::read);
    if (p.data == nullptr) copy.source_bytes = 0;
    if (p.data != nullptr && c.races)
      c.launch->globals->access(w, op, l, copy.global, copy.source_bytes, false, unit, epoch);
  }
  if (!c.races) return true;
  Block* b = shared_block(w, copy.shared, false);
  const std::uint32_t offset = copy.shared & 0xffffffu;
  std::uint8_t brings[16] = {};
  if (copy.source_bytes != 0) std::memcpy(brings, c.launch->memory->at(copy.global), copy.source_bytes);
  if (b != nullptr && offset + op.width <= b->smem.size())
    c.races->access({w, op, l, *b, offset, op.width, true, unit, epoch, false, brings});
  return true;
}

void run_cp_async(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  const auto unit = static_cast<std::uint32_t>(Unit::cp_async);
  const std::uint32_t epoch = c.races ? c.races->begin(w, unit) : 0;
  ++c.issued;
  // Lanes that have committed equally often share an entry.
  for (std::uint32_t left = c.races ? w.exec : 0; left != 0;) {
    const std::uint32_t group = w.copies.committed[std::countr_zero(left)];
    std::uint32_t lanes = 0;
    for (std::uint32_t m = left; m != 0; m &= m - 1)
      if (w.copies.committed[std::countr_zero(m)] == group) lanes |= m & (0 - m);
    w.unit_epochs.push_back({unit, epoch, group, lanes, &op});
    left &= ~lanes;
  }
  const WarpCopies copies = copies_of(w, op);
  prefetch_sources(c, copies, 0);
  // The copies of a tile follow each other at one distance.
  const u64 first = copies.global[std::countr_zero(w.exec)];
  prefetch_sources(c, copies, 2 * (first - w.copies.latest));
  w.copies.latest = first;
  const bool noted = note_plain_copies(w, op, copies, epoch);
  if (noted && c.policy == Policy::eager && w.copies.pending.empty())
    return complete_plain_copies(w, op, copies);
  each_lane(w, [&](int l) {
    LaneCopy copy = lane_copy(w, op, copies, l);
    if (noted || note_copy(w, op, copy, epoch)) w.copies.pending.push_back(std::move(copy));
  });
  if (c.policy == Policy::eager) complete_copies(w, w.exec, -1);
}
void run_commit(Warp& w, const Op& op) {
  trace(w, op, TraceEvent::What::commit, 0);
  each_lane(w, [&](int l) { ++w.copies.committed[l]; });
}
void run_wait_group(Warp& w, const Op& op) {
  trace(w, op, TraceEvent::What::commit_wait, 0, 0, op.imm < 0 ? 0 : static_cast<std::uint64_t>(op.imm));
  retire_groups(w, static_cast<std::uint32_t>(Unit::cp_async), op.imm, w.copies.committed);
  complete_copies(w, w.exec, static_cast<int>(op.imm));
}
void run_mbarrier_arrive(Warp& w, const Op& op) {
  const std::uint64_t issued = ++w.block->cluster->issued;
  each_lane(w, [&](int l) {
    LaneCopy copy;
    copy.lane = static_cast<std::uint8_t>(l);
    copy.arrive = true;
    copy.shared =
        static_cast<std::uint32_t>(shared_address(w, op.a, op.asize, op.imm, (op.flags & 1) != 0, l)) &
        0xffffffu;
    copy.group = w.copies.committed[l];
    copy.issued = issued;
    copy.op = &op;
    if (RaceTracker* r = w.block->cluster->races.get()) {
      const auto unit = static_cast<std::uint32_t>(Unit::cp_async);
      copy.published = std::make_shared<const Clock>(r->published(w, l, unit, r->last_begun(w, unit)));
    }
    if ((op.flags & 2) == 0)
      if (MBarrier* m = find_mbarrier(w, op, l, *w.block, copy.shared)) ++m->pending;
    w.copies.pending.push_back(copy);
  });
  if (w.block->cluster->policy == Policy::eager) complete_copies(w, w.exec, -1);
}

void decode_cp(Decoder& d) {
  if (d.has("bulk")) return decode_bulk(d);
  if (!d.has("async")) d.unsupported();
  if (d.has("commit_group")) {
    d.emit(run_commit, Kind::async_copy);
  } else if (d.has("wait_group")) {
    d.emit(run_wait_group, Kind::async_copy).imm = d.operand(0).value;
  } else if (d.has("wait_all")) {
    d.emit(run_wait_group, Kind::async_copy).imm = -1;
  } else if (d.has("mbarrier") || d.has("arrive")) {
    d.unsupported();
  } else {
    const bool generic = !d.has("shared") && !d.has("shared::cta");
    const auto a = d.address(d.operand(0), Space::shared);
    const auto b = d.address(d.operand(1), Space::global);
    const std::int64_t n = d.operand(2).value;
    if (n != 4 && n != 8 && n != 16) d.fail("size must be 4, 8 or 16 in");
    Ref c = kNoRef;
    int cs = 0;
    if (d.operands() > 3) {
      cs = d.size_of_register(d.operand(3), 4);
      // A cache policy is 64 bits wide; a source size 32, ignore-src a predicate.
      if (cs == 8)
        cs = 0;
      else
        c = d.src(d.operand(3), cs);
    }
    Op& op = d.emit(run_cp_async, Kind::async_copy);
    op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset;
    op.b = b.ref, op.bsize = static_cast<std::uint8_t>(b.size),
    op.target = static_cast<std::uint32_t>(static_cast<std::int32_t>(b.offset));
    op.c = c, op.csize = static_cast<std::uint8_t>(cs), op.width = static_cast<std::uint8_t>(n),
    op.flags = generic;
  }
}

void decode_cp_any(Decoder& d) {
  // cp.async.mbarrier.arrive[.noinc][.shared].b64 [mbar]
  if (!d.has("bulk") && d.has("mbarrier") && d.has("arrive")) {
    const bool generic = !d.has("shared") && !d.has("shared::cta");
    const auto a = d.address(d.operand(0), Space::shared);
    Op& op = d.emit(run_mbarrier_arrive, Kind::async_copy);
    op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset;
    op.flags = static_cast<std::uint16_t>((generic ? 1 : 0) | (d.has("noinc") ? 2 : 0));
    return;
  }
  decode_cp(d);
}

}  // namespace

std::vector<DecodeEntry> async_table() {
  return {{"cp", decode_cp_any}};
}

}  // namespace kiln::emulator::ptx
