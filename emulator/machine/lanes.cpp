#include "emulator/machine/lanes.hpp"

#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

void LaneClock::synchronize(std::uint32_t mask, std::uint32_t live) {
  ++now;
  if ((live & ~mask) == 0) {
    all = now;
    known.reset();
    return;
  }
  if (std::popcount(mask) < 2) return;
  if (known == nullptr) known = std::make_unique<std::array<std::array<std::uint32_t, 32>, 32>>();
  std::array<std::uint32_t, 32> sum{};
  for (std::uint32_t m = mask; m != 0; m &= m - 1) {
    const auto& row = (*known)[static_cast<std::size_t>(std::countr_zero(m))];
    for (std::size_t i = 0; i < 32; ++i) sum[i] = std::max(sum[i], row[i]);
  }
  for (std::uint32_t m = mask; m != 0; m &= m - 1) sum[static_cast<std::size_t>(std::countr_zero(m))] = now;
  for (std::uint32_t m = mask; m != 0; m &= m - 1)
    (*known)[static_cast<std::size_t>(std::countr_zero(m))] = sum;
}

void LaneClock::learn(std::uint32_t mask, std::uint32_t others, std::uint32_t time, std::uint32_t live) {
  if (time <= all) return;
  if ((live & ~(mask & others)) == 0) {
    all = time;
    return;
  }
  if (known == nullptr) known = std::make_unique<std::array<std::array<std::uint32_t, 32>, 32>>();
  for (std::uint32_t m = mask; m != 0; m &= m - 1) {
    auto& row = (*known)[static_cast<std::size_t>(std::countr_zero(m))];
    for (std::uint32_t o = others; o != 0; o &= o - 1) {
      std::uint32_t& bound = row[static_cast<std::size_t>(std::countr_zero(o))];
      bound = std::max(bound, time);
    }
  }
}

bool LaneClock::known_to(std::uint32_t mask, int other, std::uint32_t time) const {
  if ((mask >> other & 1) != 0 || time < all) return true;
  for (std::uint32_t m = known == nullptr ? 0 : mask; m != 0; m &= m - 1)
    if (ordered(std::countr_zero(m), other, time)) return true;
  return false;
}

bool LaneClock::knows(int lane, std::uint32_t others, std::uint32_t time) const {
  if (time < all) return true;
  for (std::uint32_t o = others & ~(1u << lane); o != 0; o &= o - 1)
    if (!ordered(lane, std::countr_zero(o), time)) return false;
  return true;
}

LaneWord::Conflict LaneWord::access(const Warp& w, int lane, std::uint32_t op, std::uint8_t mask,
                                    bool write) {
  const auto warp = static_cast<std::uint32_t>(w.index);
  const std::uint32_t self = 1u << lane;
  Conflict found;
  const auto check = [&](const Tag& tag, bool other_write) {
    if (tag.warp != warp || tag.issue == w.lanes.issue || tag.time < w.lanes.all || found.lane >= 0) return;
    std::uint32_t others = 0;
    for (std::size_t i = 0; i < 4; ++i) others |= (mask >> i & 1) != 0 ? tag.lanes[i] : 0;
    for (others &= ~self; others != 0; others &= others - 1)
      if (const int other = std::countr_zero(others); !w.lanes.ordered(lane, other, tag.time)) {
        found = {other, tag.op, other_write};
        return;
      }
  };
  check(write_, true);
  if (write) check(read_, false);
  Tag& tag = write ? write_ : read_;
  // Readers add up until the next write or synchronisation; writers of one instruction do.
  const bool joins = tag.warp == warp && tag.time == w.lanes.now && (!write || tag.issue == w.lanes.issue);
  for (std::size_t i = 0; i < 4; ++i)
    tag.lanes[i] = (joins ? tag.lanes[i] : 0) | ((mask >> i & 1) != 0 ? self : 0);
  tag.warp = warp;
  tag.time = w.lanes.now;
  tag.issue = w.lanes.issue;
  tag.op = op;
  if (write) read_.lanes = {};
  return found;
}

namespace {

void report_lanes(Warp& w, const Op& op, int lane, const LaneWord::Conflict& with, bool write,
                  const std::string& where) {
  report(w, op, lane, "warp-race",
         "lane " + std::to_string(lane) + (write ? " writes " : " reads ") + where + ", which lane " +
             std::to_string(with.lane) + " of the same warp " + (with.write ? "wrote" : "read") +
             " with no bar.warp.sync between",
         site_of(w, w.block->cluster->program->ops[with.op], with.lane));
}

std::uint32_t index_of(const Warp& w, const Op& op) {
  return static_cast<std::uint32_t>(&op - w.block->cluster->program->ops.data());
}

/// Calls f(address, mask) for every word of [begin, begin + bytes).
template <class Address, class F>
void each_word(Address begin, std::uint32_t bytes, F f) {
  for (Address at = begin, last = begin + bytes; at < last;) {
    const Address stop = std::min<Address>(last, (at & ~Address{3}) + 4);
    f(at, static_cast<std::uint8_t>(((1u << (stop - at)) - 1) << (at & 3)));
    at = stop;
  }
}

}  // namespace

void LaneTracker::access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset,
                         std::uint32_t bytes, bool write) {
  each_word(offset, bytes, [&](std::uint32_t at, std::uint8_t mask) {
    auto& chunk = chunks_[at / kChunkBytes];
    if (chunk == nullptr) chunk = std::make_unique<Chunk>();
    const auto with = (*chunk)[at % kChunkBytes / 4].access(w, lane, index_of(w, op), mask, write);
    if (with.lane >= 0 && w.block == &block)
      report_lanes(w, op, lane, with, write, "shared address " + std::to_string(at));
  });
}

void GlobalWords::access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                         bool write) {
  if (entries_.empty()) entries_.resize(kEntries);
  each_word(address, bytes, [&](std::uint64_t at, std::uint8_t mask) {
    Entry& e = entries_[at / 4 % kEntries];
    if (e.address != at / 4) e = {at / 4, {}};
    if (const auto with = e.word.access(w, lane, index_of(w, op), mask, write); with.lane >= 0)
      report_lanes(w, op, lane, with, write,
                   "global memory " + w.block->cluster->launch->memory->describe(at));
  });
}

}  // namespace kiln::emulator
