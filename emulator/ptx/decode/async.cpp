// cp.async and its groups.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/decode/warp_access.hpp"

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
LaneCopy copy_of(const Warp& w, const Op& op, int l) {
  LaneCopy copy;
  copy.lane = static_cast<std::uint8_t>(l);
  copy.bytes = op.width;
  copy.source_bytes = op.width;
  if (op.c != kNoRef) {
    const u64 n = w.value(op.c, op.csize, l);
    if (op.csize == 3)
      copy.source_bytes = n != 0 ? 0 : op.width;  // ignore-src
    else
      copy.source_bytes = static_cast<std::uint8_t>(std::min<u64>(n, op.width));
  }
  copy.shared = static_cast<std::uint32_t>(shared_address(w, op.a, op.asize, op.imm, (op.flags & 1) != 0, l));
  copy.global = w.value(op.b, op.bsize, l) + static_cast<u64>(static_cast<std::int32_t>(op.target));
  copy.group = w.copies.committed[l];
  copy.issued = w.block->cluster->issued;
  copy.op = &op;
  return copy;
}

/// Sources are mostly read for the first time: what is known of them and their bytes are on the way while lanes are
/// looked at one after another.
void prefetch(const Cluster& c, u64 global, std::uint32_t bytes) {
  const GlobalMemory::Impl& memory = *c.launch->memory;
  if (!memory.contains(global, bytes)) return;
  __builtin_prefetch(memory.at(global));
  if (!c.findings) return;
  __builtin_prefetch(memory.shadow_at(global));
  c.launch->globals->prefetch(global);
}

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

/// The same of all lanes, if none of them needs a closer look; else false, with nothing done.
bool note_plain_copies(Warp& w, const Op& op, std::span<const LaneCopy> copies, std::uint32_t epoch) {
  Cluster& c = *w.block->cluster;
  const GlobalMemory::Impl& memory = *c.launch->memory;
  const auto unit = static_cast<std::uint32_t>(Unit::cp_async);
  if (c.findings && c.launch->launch->programmatic) return false;
  std::uint32_t offset[32];
  std::uint8_t padded[32][16];
  const std::uint8_t* brings[32];
  std::uint64_t taken[16] = {};  // lanes that share a destination are judged one after another
  for (const LaneCopy& copy : copies) {
    if (shared_block(w, copy.shared, false) == nullptr) return false;
    offset[copy.lane] = copy.shared & 0xffffffu;
    const std::uint32_t place = copy.shared / op.width * 0x9e3779b1u >> 22;
    const auto alike = [&](const LaneCopy& other) {
      return other.shared / op.width == copy.shared / op.width;
    };
    if ((taken[place / 64] >> place % 64 & 1) != 0 && std::any_of(copies.data(), &copy, alike)) return false;
    taken[place / 64] |= std::uint64_t{1} << place % 64;
    if (offset[copy.lane] + op.width > w.block->smem.size()) return false;
    if (copy.source_bytes != 0 &&
        ((copy.global & (op.width - 1u)) != 0 || !memory.contains(copy.global, copy.source_bytes) ||
         (c.findings && !all_written(memory.shadow_at(copy.global), copy.source_bytes))))
      return false;
    brings[copy.lane] = memory.at(copy.global);
    if (copy.source_bytes == op.width) continue;
    std::memset(padded[copy.lane], 0, sizeof padded[copy.lane]);
    if (copy.source_bytes != 0) std::memcpy(padded[copy.lane], memory.at(copy.global), copy.source_bytes);
    brings[copy.lane] = padded[copy.lane];
  }
  if (!c.races) return true;
  std::uint64_t from[32];
  std::uint32_t whole = 0;
  const std::uint32_t op_index = origin_of(w, op) - 1;
  for (const LaneCopy& copy : copies) {
    from[copy.lane] = copy.global;
    if (copy.source_bytes == op.width)
      whole |= 1u << copy.lane;
    else if (copy.source_bytes != 0)
      c.launch->globals->access(w, op, copy.lane, copy.global, copy.source_bytes, false, unit, epoch);
  }
  c.launch->globals->access_lanes(w, op, {from, op.width, whole, 0, op_index}, unit, epoch);
  c.races->access_lanes({w, op, *w.block, offset, op.width, w.exec, 0, true, unit, epoch, brings});
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
  LaneCopy copies[32];
  std::size_t n = 0;
  each_lane(w, [&](int l) {
    copies[n] = copy_of(w, op, l);
    prefetch(c, copies[n].global, copies[n].bytes);
    ++n;
  });
  // The copies of a tile follow each other at one distance.
  const u64 step = copies[0].global - w.copies.latest;
  w.copies.latest = copies[0].global;
  for (std::size_t i = 0; i < n; ++i) prefetch(c, copies[i].global + 2 * step, copies[i].bytes);
  if (note_plain_copies(w, op, {copies, n}, epoch)) {
    if (c.policy == Policy::eager && w.copies.pending.empty()) return complete_at_once(w, {copies, n});
    w.copies.pending.insert(w.copies.pending.end(), copies, copies + n);
  } else {
    for (std::size_t i = 0; i < n; ++i)
      if (note_copy(w, op, copies[i], epoch)) w.copies.pending.push_back(copies[i]);
  }
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
