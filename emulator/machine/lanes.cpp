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

void LaneTracker::access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset,
                         std::uint32_t bytes, bool write) {
  const auto warp = static_cast<std::uint16_t>(w.index);
  const std::uint32_t self = 1u << lane, last = offset + bytes;
  for (std::uint32_t at = offset; at < last;) {
    const std::uint32_t stop = std::min(last, (at & ~3u) + 4);
    const auto mask = static_cast<std::uint8_t>(((1u << (stop - at)) - 1) << (at & 3));
    auto& chunk = chunks_[at / kChunkBytes];
    if (chunk == nullptr) chunk = std::make_unique<Chunk>();
    Word& word = (*chunk)[at % kChunkBytes / 4];
    const auto check = [&](const Tag& tag, bool other_write) {
      if (tag.lanes == 0 || tag.warp != warp || tag.issue == w.lanes.issue || (tag.bytes & mask) == 0 ||
          tag.time < w.lanes.all || (tag.lanes & ~self) == 0 || w.block != &block)
        return;
      for (std::uint32_t m = tag.lanes & ~self; m != 0; m &= m - 1) {
        const int other = std::countr_zero(m);
        if (w.lanes.ordered(lane, other, tag.time)) continue;
        conflict(w, op, lane, other, at, tag, write, other_write);
        return;
      }
    };
    check(word.write, true);
    if (write) check(word.read, false);
    Tag& tag = write ? word.write : word.read;
    // Readers add up until the next write or synchronisation; writers of one instruction do.
    const bool joins = tag.warp == warp && tag.time == w.lanes.now && (!write || tag.issue == w.lanes.issue);
    tag.lanes = joins ? tag.lanes | self : self;
    tag.bytes = static_cast<std::uint8_t>(joins ? tag.bytes | mask : mask);
    tag.warp = warp;
    tag.time = w.lanes.now;
    tag.issue = w.lanes.issue;
    tag.op = static_cast<std::uint32_t>(&op - block.cluster->program->ops.data());
    if (write) word.read.lanes = 0;
    at = stop;
  }
}

void LaneTracker::conflict(Warp& w, const Op& op, int lane, int other, std::uint32_t address, const Tag& tag,
                           bool write, bool other_write) {
  Site party = site_of(w, w.block->cluster->program->ops[tag.op], other);
  report(w, op, lane, "warp-race",
         "lane " + std::to_string(lane) + (write ? " writes" : " reads") + " shared address " +
             std::to_string(address) + ", which lane " + std::to_string(other) + " of the same warp " +
             (other_write ? "wrote" : "read") + " with no bar.warp.sync between",
         party);
}

}  // namespace kiln::emulator
