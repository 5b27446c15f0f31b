// Cells of the race tracker with more than one writer, or with reductions among their readers.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/race_order.hpp"
#include "emulator/tensor/multiversion.hpp"

namespace kiln::emulator {

/// An earlier writer of bytes that no other has.
void RaceTracker::displace(Cells& cells, std::size_t cell, Slot writer) {
  if (cells.others.empty()) cells.others.resize(cells.write.size());
  cells.heads[cell].marks |= Cells::kSplit;
  for (Slot& s : cells.others[cell])
    if (s.epoch == 0) {
      s = writer;
      return;
    }
  if (cells.further.empty()) cells.further.resize(cells.write.size());
  cells.heads[cell].marks |= Cells::kBytes;
  cells.further[cell].push_back(writer);
}

void RaceTracker::overwrite(Cells& cells, std::size_t cell, std::uint16_t mask, bool forget) {
  const Slot& write = cells.write[cell];
  std::uint8_t& marks = cells.heads[cell].marks;
  const auto rest = static_cast<std::uint16_t>(write.mask & ~mask);
  // Of bytes that several wrote alike (`same`) nobody is noted beyond the cell's latest write.
  const bool displaced = !forget && write.epoch != 0 && rest != 0 && (marks & Cells::kAlike) == 0;
  Slot writer = write;
  writer.mask = rest;
  if ((marks & Cells::kSplit) != 0) {
    Slot* free = nullptr;
    std::uint16_t left = 0;
    for (Slot& s : cells.others[cell]) {
      s.mask &= static_cast<std::uint16_t>(~mask);
      left |= s.mask;
      if (s.mask != 0) continue;
      s.epoch = 0;
      if (free == nullptr) free = &s;
    }
    if ((marks & Cells::kBytes) != 0) {
      auto& further = cells.further[cell];
      for (Slot& s : further) left |= s.mask &= static_cast<std::uint16_t>(~mask);
      std::erase_if(further, [](const Slot& s) { return s.mask == 0; });
      if (further.empty()) marks = static_cast<std::uint8_t>(marks & ~Cells::kBytes);
    }
    if (displaced && free != nullptr) {
      *free = writer;
      return;
    }
    if (left == 0) marks = static_cast<std::uint8_t>(marks & ~Cells::kSplit);
  }
  if (displaced) displace(cells, cell, writer);
}

/// Of lanes that are judged together the first one that meets `s` is named.
void RaceTracker::report_conflict(const Judged& a, const Slot& s, std::uint32_t at, bool other_write) {
  SharedAccess one = a.access;
  for (std::uint32_t m = a.offsets == nullptr ? 0 : a.lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if ((s.mask & (((1u << a.bytes) - 1) << (a.offsets[lane] & 15))) == 0) continue;
    one.lane = lane;
    one.offset = at = a.offsets[lane];
    break;
  }
  conflict(one, at, s, other_write);
}

[[gnu::always_inline]] inline void RaceTracker::judge(const Judged& a, const Slot& s, std::uint32_t at) {
  if (!ordered(a, s)) return report_conflict(a, s, at, true);
  if (lacks_proxy_fence(a, s)) missing_fence(a.access, at, s);
}

/// Of copies that brought the same as the cell's latest write, some may still be under way.
inline void RaceTracker::judge_equal_copies(const Judged& a, const Cells& cells, std::size_t cell,
                                            std::uint16_t mask, std::uint32_t at) {
  if ((cells.heads[cell].marks & Cells::kAlike) == 0 || !a.access.write) return;
  for (const Slot& s : cells.same[cell])
    if (s.epoch != 0 && (s.mask & mask) != 0 && s.agent != cells.write[cell].agent && s.agent != a.self &&
        s.agent % kUnits == kCopyUnit)
      judge(a, s, at);
}

/// One of several writers of the same.
inline void RaceTracker::note_equal(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask) {
  if (cells.same.empty()) cells.same.resize(cells.write.size());
  auto& same = cells.same[cell];
  Slot* free = &same[0];
  for (Slot& s : same)
    if (s.epoch == 0 || s.agent == a.self) free = &s;
  a.note(*free, mask);
  cells.heads[cell].marks |= Cells::kAlike;
}

/// Whether this writes what is there, or what an earlier copy under way will leave there.
inline bool RaceTracker::meets_equal(const Judged& a, const Slot& s, std::uint16_t mask,
                                     std::uint32_t at) const {
  if ((!a.silent && a.access.brings == nullptr) || (s.mask & mask) != mask || ordered(a, s)) return false;
  return a.silent || brings_equal(a.access, s, static_cast<std::uint32_t>(std::popcount(mask)), at);
}

KILN_MULTIVERSION bool RaceTracker::meet_writers(const Judged& a, Cells& cells, std::size_t cell,
                                                 std::uint16_t mask, std::uint32_t at) {
  const Slot* last = &cells.write[cell];
  const std::uint8_t marks = cells.heads[cell].marks;
  if ((marks & Cells::kReduced) != 0 && !a.reduces) meet_readers(a, cells, cell, mask, at);
  const bool overlaps = last->epoch != 0 && (last->mask & mask) != 0;
  const bool equal = overlaps && meets_equal(a, *last, mask, at);
  if (equal && !a.joins(*last)) {
    note_equal(a, cells, cell, mask);
    return true;
  }
  if (overlaps && !equal) {
    judge_equal_copies(a, cells, cell, mask, at);
    // Who follows any writer of what is there may read; of cp.async each lane's words are its own.
    if ((marks & Cells::kAlike) != 0 && !ordered(a, *last))
      for (const Slot& s : cells.same[cell])
        if (s.epoch != 0 && (s.mask & mask) == mask && (!a.access.write || s.agent == last->agent) &&
            ordered(a, s))
          last = &s;
    judge(a, *last, at);
  }
  const bool unordered = a.silent && cells.any_other(cell, [&](const Slot& s) {
    return (s.mask & mask) != 0 && !ordered(a, s);
  });
  if (unordered) {  // it disturbs nobody, and who follows either writer may read
    overwrite(cells, cell, mask, true);
    return true;
  }
  cells.any_other(cell, [&](const Slot& s) {
    if ((s.mask & mask) != 0) judge(a, s, at);
    return false;
  });
  return false;
}

/// A reduction and what reads the bytes. Reductions are noted as readers: whatever comes later, reading or writing, has
/// to follow all of them, while they need not follow each other.
void RaceTracker::meet_readers(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask,
                               std::uint32_t at) {
  const auto meet = [&](const Slot& r) __attribute__((always_inline)) {
    const bool reduction = is_reduction(r.agent % kUnits);
    if (r.epoch != 0 && (r.mask & mask) != 0 && (a.reduces || reduction) && !ordered(a, r))
      report_conflict(a, r, at, reduction);
  };
  for (std::size_t i = 0; i < cells.heads[cell].readers; ++i) meet(cells.reads[i][cell]);
  if ((cells.heads[cell].marks & Cells::kMore) != 0)
    std::for_each(cells.more[cell].begin(), cells.more[cell].end(), meet);
}

/// An earlier atomic of another warp, which a later one does not follow: who reads has to follow both.
void RaceTracker::note_reduction(Cells& cells, std::size_t cell, const Slot& by) {
  cells.heads[cell].marks |= Cells::kReduced;
  const auto replaced = [&](const Slot& r) {
    return r.epoch == 0 || (r.agent == by.agent && (r.mask & ~by.mask) == 0);
  };
  const std::size_t readers = cells.heads[cell].readers;
  for (std::size_t i = 0; i < readers; ++i)
    if (replaced(cells.reads[i][cell])) {
      cells.reads[i][cell] = by;
      return;
    }
  if (readers < Cells::kReads) {
    if (cells.reads[readers].empty()) cells.reads[readers].resize(cells.write.size());
    cells.reads[readers][cell] = by;
    ++cells.heads[cell].readers;
    return;
  }
  if (cells.more.empty()) cells.more.resize(cells.write.size());
  cells.heads[cell].marks |= Cells::kMore;
  auto& more = cells.more[cell];
  const auto mine = std::find_if(more.begin(), more.end(), replaced);
  (mine != more.end() ? *mine : more.emplace_back()) = by;
}

}  // namespace kiln::emulator
