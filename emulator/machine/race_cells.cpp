// The race tracker's judgement of accesses to shared memory, 16 bytes (a cell) at a time.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/race_order.hpp"
#include "emulator/tensor/multiversion.hpp"
#include "emulator/tensor/wgmma.hpp"

namespace kiln::emulator {

/// Readers of the bytes that are written: those still under way are in conflict with the write, and none is noted
/// further. Reads of other bytes of the cell stay: their writer is yet to come.
[[gnu::always_inline]] inline void RaceTracker::overtake_reads(const Judged& a, Cells& cells,
                                                               std::size_t cell, std::uint16_t mask,
                                                               std::uint32_t at) {
  bool left = false;
  // An atomic leaves reductions to whoever follows: but one whose result is used has seen earlier atomics, and the order
  // of one word does for who follows it.
  const bool unread = (a.access.op.flags & kUnread) != 0;
  const auto overtake = [&](Slot & r) __attribute__((always_inline)) {
    const std::uint32_t unit = r.agent % kUnits;
    const bool stays = a.strong && is_reduction(unit) && (unread || unit != kStrongBefore);
    if (!stays && r.epoch != 0 && (r.mask & mask) != 0) {
      if (r.agent != a.self && !a.silent && !ordered(a, r)) report_conflict(a, r, at, false);
      r.mask &= static_cast<std::uint16_t>(~mask);
      if (r.mask == 0) r.epoch = 0;
    }
    left |= r.epoch != 0;
  };
  for (std::size_t i = 0; i < cells.heads[cell].readers; ++i) overtake(cells.reads[i][cell]);
  if (!left) cells.heads[cell].readers = 0;
  std::uint8_t& marks = cells.heads[cell].marks;
  if ((marks & Cells::kMore) != 0) {
    auto& more = cells.more[cell];
    for (Slot& r : more) overtake(r);
    std::erase_if(more, [](const Slot& r) { return r.epoch == 0; });
    if (more.empty()) marks = static_cast<std::uint8_t>(marks & ~Cells::kMore);
  }
  if (!left) marks = static_cast<std::uint8_t>(marks & ~(Cells::kTwice | Cells::kReduced));
}

void RaceTracker::reduce_cell(Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask,
                              std::uint32_t at) {
  meet_readers(a, cells, cell, mask, at);
  cells.heads[cell].marks |= Cells::kReduced;
  read_cell(a, cells, cell, mask);
}

[[gnu::always_inline]] inline void RaceTracker::write_cell(const Judged& a, Cells& cells, std::size_t cell,
                                                           std::uint16_t mask, std::uint32_t at) {
  overtake_reads(a, cells, cell, mask, at);
  if (const Slot& last = cells.write[cell]; a.strong && last.epoch != 0 && last.agent != a.self &&
                                            last.agent % kUnits == kStrongUnit && (last.mask & mask) != 0 &&
                                            (a.access.op.flags & kUnread) != 0 && !happened_before(a, last)) {
    Slot before = last;
    before.mask &= mask;
    before.agent = static_cast<std::uint16_t>(last.agent - kStrongUnit + kStrongBefore);
    note_reduction(cells, cell, before);
  }
  std::uint8_t& marks = cells.heads[cell].marks;
  Slot& write = cells.write[cell];
  const bool joins = write.agent == a.self && write.epoch == a.epoch;  // the latest write
  if ((!joins && (write.mask & ~mask) != 0) || (marks & Cells::kSplit) != 0)
    overwrite(cells, cell, mask, joins);
  const bool narrow = a.access.unit == kCopyUnit && a.bytes < 16;
  if ((marks & Cells::kAlike) != 0 && (!narrow || !joins)) {
    for (Slot& same : cells.same[cell]) same.epoch = 0;
    marks = static_cast<std::uint8_t>(marks & ~Cells::kAlike);
  }
  a.note(write, mask);
  if (!narrow) return;
  if (cells.same.empty()) cells.same.resize(cells.write.size());
  auto& same = cells.same[cell];
  const auto free = std::find_if(same.begin(), same.end(), [](const Slot& s) { return s.epoch == 0; });
  if (free == same.end()) return;
  a.note(*free, mask);
  marks |= Cells::kAlike;
}

/// Of an agent the latest read of a byte counts. An earlier one of other bytes keeps its place, and so does another
/// lane's until this lane knows of it.
[[gnu::always_inline]] inline bool RaceTracker::replaces(const Judged& a, const Slot& r, std::uint16_t mask) {
  if (r.epoch == 0 || r.agent != a.self) return false;
  if (r.epoch == a.epoch) return true;
  return (r.mask & ~mask) == 0 &&
         !(a.by_thread && a.lane >= 0 && !a.access.warp.lanes.knows(a.lane, r.lanes, r.epoch));
}

/// The slot for a read where the cell before had the same readers.
[[gnu::always_inline]] inline RaceTracker::Slot* RaceTracker::slot_as_before(const Judged& a, Cells& cells,
                                                                             std::size_t cell,
                                                                             std::uint16_t mask) {
  const std::size_t readers = cells.heads[cell].readers;
  if (readers != a.seen_count || mask != a.seen_mask) return nullptr;
  std::uint64_t differ = 0;
  for (std::size_t i = 0; i < readers; ++i) differ |= reader_key(cells.reads[i][cell]) ^ a.seen[i];
  if (differ != 0) return nullptr;
  Slot& slot = cells.reads[a.seen_choice][cell];
  if (a.seen_choice == readers) {
    ++cells.heads[cell].readers;
    slot.epoch = 0;
  }
  return &slot;
}

/// A slot that is empty, or whose reader is known to this one; null if there is none.
RaceTracker::Slot* RaceTracker::free_slot(Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask) {
  const std::size_t readers = cells.heads[cell].readers;
  bool others = true;
  std::size_t free = readers;
  for (std::size_t i = 0; i < readers; ++i) {
    const Slot& r = cells.reads[i][cell];
    const std::uint32_t unit = r.agent % kUnits;
    others &= a.unheard_of(r.agent - (is_strong(unit) ? unit : 0));
    if (r.epoch != 0 && r.agent == a.self) cells.heads[cell].marks |= Cells::kTwice;
    const bool keeps = r.epoch != 0 && (r.agent == a.self || (r.mask & ~mask) != 0 || is_reduction(unit));
    if (free == readers && !keeps && (r.epoch == 0 || ordered(a, r))) free = i;
  }
  if (free == Cells::kReads) return nullptr;
  for (std::size_t i = 0; others && i < readers; ++i) a.seen[i] = reader_key(cells.reads[i][cell]);
  a.seen_count = others ? readers : ~std::size_t{0};
  a.seen_mask = mask;
  a.hint = a.seen_choice = free;
  if (free == readers) {
    auto& reads = cells.reads[readers];
    if (reads.empty()) reads.resize(cells.write.size());
    ++cells.heads[cell].readers;
    reads[cell].epoch = 0;
  }
  return &cells.reads[free][cell];
}

[[gnu::always_inline]] inline void RaceTracker::read_cell(Judged& a, Cells& cells, std::size_t cell,
                                                          std::uint16_t mask) {
  const std::size_t readers = cells.heads[cell].readers;
  const bool once = (cells.heads[cell].marks & Cells::kTwice) == 0;
  if (once && a.hint < readers && replaces(a, cells.reads[a.hint][cell], mask))
    return a.note(cells.reads[a.hint][cell], mask);
  if (Slot* const slot = slot_as_before(a, cells, cell, mask)) return a.note(*slot, mask);
  for (std::size_t i = 0; i < readers; ++i) {
    Slot& r = cells.reads[i][cell];
    if (!replaces(a, r, mask)) continue;
    a.hint = i;
    return a.note(r, mask);
  }
  if (Slot* const slot = free_slot(a, cells, cell, mask)) return a.note(*slot, mask);
  // More readers than slots, none of them known to this one.
  if (cells.more.empty()) cells.more.resize(cells.write.size());
  auto& more = cells.more[cell];
  cells.heads[cell].marks |= Cells::kMore;
  const auto mine =
      std::find_if(more.begin(), more.end(), [&](const Slot& r) { return replaces(a, r, mask); });
  a.note(mine != more.end() ? *mine : more.emplace_back(), mask);
}

RaceTracker::Judged RaceTracker::judged(const SharedAccess& a) const {
  const bool strong = a.unit == kStrongUnit, by_thread = a.unit == 0 || strong;
  const std::uint32_t i = index(a.warp);
  return {
      .access = a,
      .actors = actors_.data(),
      .clock = clocks_[i].agents.data(),
      .fenced = proxy_fenced_[i].agents.data(),
      .lane = a.lane,
      .offset = a.offset,
      .bytes = a.bytes,
      .silent = a.silent,
      .warp = i,
      .self = i * kUnits + a.unit,
      .epoch = by_thread ? clocks_[i].agents[std::size_t{i} * kUnits] : a.epoch,
      .lanes = a.lane < 0 ? a.warp.live : 1u << a.lane,
      .op = static_cast<std::uint32_t>(&a.op - cluster_.program->ops.data()),
      .guarded = by_thread || a.lane < 0 ? ~0u : i * kUnits,
      .by_thread = by_thread,
      .strong = strong,
      .async_proxy = !by_thread && a.unit != kCopyUnit,
      .reduces = is_reduction(a.unit),
      .repeatable = strong && a.write && cluster_.blocks.size() == 1,
      .plain_write = a.write && !strong && !is_reduction(a.unit) && (a.unit != kCopyUnit || a.bytes == 16),
      .partial = pending_[i].empty() ? &clocks_[i].partial : nullptr,
      .seen = seen_.data()};
}

/// Nobody has to be told apart any more who used this cell.
void RaceTracker::forget(Cells& cells, std::size_t cell) {
  cells.heads[cell].age = cells.now;
  cells.write[cell] = {};
  cells.heads[cell].readers = 0;
  std::uint8_t& marks = cells.heads[cell].marks;
  if (marks == 0) return;
  if ((marks & Cells::kMore) != 0) cells.more[cell].clear();
  if ((marks & Cells::kSplit) != 0) cells.others[cell] = {};
  if ((marks & Cells::kAlike) != 0) cells.same[cell] = {};
  if ((marks & Cells::kBytes) != 0) cells.further[cell].clear();
  marks = 0;
}

/// Whether all writers of these bytes are settled, and no access of another kind is noted.
[[gnu::always_inline]] inline bool RaceTracker::all_settled(const Judged& a, const Cells& cells,
                                                            std::size_t cell, std::uint16_t mask) const {
  const std::uint8_t marks = cells.heads[cell].marks;
  const auto special = static_cast<std::uint8_t>(
      Cells::kBytes | Cells::kReduced | (a.access.write || (marks & Cells::kSplit) != 0 ? Cells::kAlike : 0));
  if ((marks & special) != 0) return false;
  const auto fine = [&](const Slot& s) __attribute__((always_inline)) {
    return s.epoch == 0 || (s.mask & mask) == 0 || settled(a, s);
  };
  if (!fine(cells.write[cell])) return false;
  if ((marks & Cells::kSplit) == 0) return true;
  const auto& others = cells.others[cell];
  return fine(others[0]) && fine(others[1]) && fine(others[2]) && fine(others[3]);
}

/// A plain write of all that is noted of a cell, where the warp knows of all of it: nothing is left but this write.
[[gnu::always_inline]] inline bool RaceTracker::replace_cell(const Judged& a, Cells& cells, std::size_t cell,
                                                             std::uint16_t mask) {
  Cells::Head& head = cells.heads[cell];
  Slot& write = cells.write[cell];
  if (!a.plain_write || (head.marks & ~Cells::kTwice) != 0 || (write.mask & ~mask) != 0 ||
      !known_at_once(a, write))
    return false;
  if (a.async_proxy && write.epoch > a.fenced[write.agent]) return false;
  for (std::size_t i = 0; i < head.readers; ++i) {
    const Slot& r = cells.reads[i][cell];
    if (r.epoch != 0 && ((r.mask & ~mask) != 0 || !known_at_once(a, r))) return false;
  }
  head.readers = head.marks = 0;
  a.note(write, mask);
  return true;
}

/// The same atomic again, whose result nobody looks at: where there are no readers but such, nothing is new.
[[gnu::always_inline]] inline bool RaceTracker::repeats(const Judged& a, Cells& cells, std::size_t cell,
                                                        std::uint16_t mask) {
  Cells::Head& head = cells.heads[cell];
  Slot& write = cells.write[cell];
  if (!a.joins(write) || (write.mask & mask) != mask || (head.marks & (Cells::kAlike | Cells::kMore)) != 0)
    return false;
  const bool unread = (a.access.op.flags & kUnread) != 0;
  for (std::size_t i = 0; i < head.readers; ++i) {
    const Slot& r = cells.reads[i][cell];
    if (r.epoch != 0 && (r.mask & mask) != 0 && !(unread && is_reduction(r.agent % kUnits))) return false;
  }
  a.note(write, mask);
  return true;
}

/// The part of an access that lies in one cell.
[[gnu::always_inline]] inline void RaceTracker::access_cell(Judged& a, Cells& cells, std::size_t cell,
                                                            std::uint16_t mask, std::uint32_t at) {
  if (cells.heads[cell].age != cells.now) forget(cells, cell);
  if (replace_cell(a, cells, cell, mask) || (a.repeatable && repeats(a, cells, cell, mask))) return;
  if (!all_settled(a, cells, cell, mask) && meet_writers(a, cells, cell, mask, at)) return;
  if (a.reduces)
    reduce_cell(a, cells, cell, mask, at);
  else if (a.access.write)
    write_cell(a, cells, cell, mask, at);
  else
    read_cell(a, cells, cell, mask);
}

[[gnu::always_inline]] inline void RaceTracker::access_cells(Judged& a) {
  Cells& cells = cells_[a.access.block.rank];
  const std::uint32_t end =
      std::min<std::uint32_t>(a.offset + a.bytes, static_cast<std::uint32_t>(a.access.block.smem.size()));
  for (std::uint32_t at = a.offset; at < end;) {
    const std::uint32_t base = at & ~15u, stop = std::min(end, base + 16);
    const auto mask = static_cast<std::uint16_t>(((1u << (stop - base)) - 1) & ~((1u << (at - base)) - 1));
    access_cell(a, cells, base / 16, mask, at);
    at = stop;
  }
}

void RaceTracker::access(const SharedAccess& a) {
  // Memory of cooperative groups, which orders what it keeps there by what the hardware does: lanes read after
  // a shuffle what one of them has acquired.
  if (a.offset < kSharedBase) return;
  Judged judged_access = judged(a);
  if (judged_access.by_thread && a.lane >= 0) a.block.lane_races->access(a, judged_access.strong);
  const bool by_load = judged_access.reduces || (a.unit >= static_cast<std::uint32_t>(Unit::bulk_load) &&
                                                 a.unit < static_cast<std::uint32_t>(Unit::bulk_write));
  if (by_load || &a.block != a.warp.block)
    visit(a.warp, a.op, a.lane, a.block, judged_access.strong ? 0 : a.unit, judged_access.epoch);
  access_cells(judged_access);
}

/// Lanes are judged one after another, while what is noted of the next ones is on the way.
[[gnu::always_inline]] inline void RaceTracker::prefetch(const Cells& cells, const LaneAccesses& all) {
  std::uint32_t last = ~0u;
  for (std::uint32_t m = all.lanes; m != 0; m &= m - 1) {
    const std::uint32_t cell = all.offsets[std::countr_zero(m)] / 16;
    if (cell == last) continue;
    last = cell;
    __builtin_prefetch(&cells.heads[cell], 1);
    __builtin_prefetch(&cells.write[cell], 1);
  }
}

KILN_MULTIVERSION void RaceTracker::access_lanes(const LaneAccesses& all) {
  SharedAccess a{all.warp, all.op, 0, all.block, 0, all.bytes, all.write, all.unit, all.epoch};
  Judged j = judged(a);
  if (j.by_thread)
    all.block.lane_races->access_lanes(
        all.warp, {all.offsets, all.bytes, all.lanes, all.silent, j.op, all.write, j.strong});
  Cells& cells = cells_[all.block.rank];
  // Lanes side by side in a cell are one access where all of them know the same.
  const bool together = j.by_thread && all.bytes < 16 && j.partial != nullptr && retired_[j.warp].empty() &&
                        all.warp.lanes.known == nullptr;
  if (together) j.offsets = all.offsets;
  prefetch(cells, all);
  const auto bytes_of = [&](int lane) { return ((1u << all.bytes) - 1) << (all.offsets[lane] & 15); };
  for (std::uint32_t m = all.lanes; m != 0;) {
    const int lane = std::countr_zero(m);
    m &= m - 1;
    a.lane = j.lane = lane;
    a.offset = j.offset = all.offsets[lane];
    if (a.offset < kSharedBase) continue;  // as above
    if (all.brings != nullptr) a.brings = all.brings[lane];
    a.silent = j.silent = (all.silent >> lane & 1) != 0;
    j.lanes = 1u << lane;
    if (all.bytes > 16 || bytes_of(lane) > 0xffff) {
      access_cells(j);
      continue;
    }
    const std::uint32_t cell = a.offset / 16;
    std::uint32_t mask = bytes_of(lane);
    for (; together && m != 0; m &= m - 1) {
      const int next = std::countr_zero(m);
      if (all.offsets[next] / 16 != cell || (all.silent >> next & 1) != (all.silent >> lane & 1) ||
          bytes_of(next) > 0xffff)
        break;
      mask |= bytes_of(next);
      j.lanes |= 1u << next;
    }
    access_cell(j, cells, cell, static_cast<std::uint16_t>(mask), a.offset);
  }
}

KILN_MULTIVERSION void RaceTracker::access_ranges(SharedAccess a, const std::vector<ByteRange>& ranges) {
  Judged j = judged(a);
  for (const ByteRange& r : ranges) {
    a.offset = j.offset = r.begin;
    a.bytes = j.bytes = r.end - r.begin;
    access_cells(j);
  }
}

/// False where a cell has more than one writer, or there are too many of them.
bool RaceTracker::tile_writers(const Cells& cells, const std::vector<ByteRange>& ranges,
                               TileWriters& writers) {
  std::uint64_t last = 0;
  for (const ByteRange& r : ranges)
    for (std::size_t cell = r.begin / 16; cell < r.end / 16; ++cell) {
      const Slot& by = cells.write[cell];
      if ((cells.heads[cell].marks & Cells::kSplit) != 0) return false;
      if (by.epoch == 0 || reader_key(by) == last) continue;
      last = reader_key(by);
      std::size_t i = 0;
      while (i < writers.count && writers.list[i].agent != by.agent) ++i;
      if (i == TileWriters::kMost) return false;
      if (i == writers.count) writers.list[writers.count++] = {by.agent, 0};
      writers.list[i].epoch = std::max(writers.list[i].epoch, by.epoch);
    }
  return true;
}

bool RaceTracker::may_read_tile(const Warp& w, const TileWriters& writers) const {
  const std::uint32_t i = index(w);
  const Epochs &clock = clocks_[i].agents, &fenced = proxy_fenced_[i].agents;
  return writers.all &&
         std::all_of(writers.list.begin(), writers.list.begin() + static_cast<std::ptrdiff_t>(writers.count),
                     [&](const TileWriters::Writer& by) {
                       const bool by_thread = by.agent % kUnits == 0 || by.agent % kUnits == kStrongUnit ||
                                              by.agent % kUnits == kCopyUnit;
                       return by.epoch <= clock[by.agent] && (!by_thread || by.epoch <= fenced[by.agent]);
                     });
}

KILN_MULTIVERSION bool RaceTracker::read_tile(const SharedAccess& a, const std::vector<ByteRange>& ranges,
                                              TileWriters& writers) {
  Cells& cells = cells_[a.block.rank];
  writers.all = tile_writers(cells, ranges, writers);
  if (!may_read_tile(a.warp, writers)) return writers.all = false;
  Judged j = judged(a);
  for (const ByteRange& r : ranges)
    for (std::size_t cell = r.begin / 16; cell < r.end / 16; ++cell) read_cell(j, cells, cell, 0xffff);
  return true;
}

}  // namespace kiln::emulator
