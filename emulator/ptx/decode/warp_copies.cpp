#include "emulator/ptx/decode/warp_copies.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/ptx/decode/warp_access.hpp"
#include "emulator/tensor/multiversion.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

constexpr auto kCopyUnit = static_cast<std::uint32_t>(Unit::cp_async);

/// Each lane's value of a register of `size` bytes, and `add`.
template <class To>
void add_row(const Warp& w, Ref row, std::uint8_t size, u64 add, To* to) {
  if (size == 8) {
    const u64* const from = w.in<u64>(row);
    for (int l = 0; l < 32; ++l) to[l] = static_cast<To>(from[l] + add);
  } else {
    const std::uint32_t* const from = w.in<std::uint32_t>(row);
    for (int l = 0; l < 32; ++l) to[l] = static_cast<To>(from[l] + add);
  }
}

/// Source sizes, where the instruction has them: a number, or a predicate that leaves all out.
void gather_sizes(const Warp& w, const Op& op, WarpCopies& copies) {
  copies.whole = 0;
  for (std::uint32_t m = copies.lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const u64 n = w.value(op.c, op.csize, l);
    const u64 bytes = op.csize == 3 ? (n != 0 ? 0 : op.width) : std::min<u64>(n, op.width);
    copies.source_bytes[l] = static_cast<std::uint8_t>(bytes);
    if (bytes == op.width) copies.whole |= 1u << l;
  }
}

/// Finds lanes that write one place.
class Places {
 public:
  /// Of the destination of `lane`, where those of `before` have been told; false if one of them has the same.
  bool take(const std::uint32_t* shared, std::uint32_t width, int lane, std::uint32_t before) {
    const std::uint32_t place = shared[lane] / width % kBits;
    u64& word = taken_[place / 64];
    const u64 bit = u64{1} << place % 64;
    for (std::uint32_t m = (word & bit) != 0 ? before : 0; m != 0; m &= m - 1)
      if (shared[std::countr_zero(m)] / width == shared[lane] / width) return false;
    word |= bit;
    return true;
  }

 private:
  static constexpr std::uint32_t kBits = 512;
  std::array<u64, kBits / 64> taken_{};
};

bool plain_source(const Cluster& c, const WarpCopies& copies, std::uint32_t width, int lane) {
  const GlobalMemory::Impl& memory = *c.launch->memory;
  const u64 from = copies.global[lane];
  const std::uint32_t bytes = copies.source_bytes[lane];
  return bytes == 0 || ((from & (width - 1)) == 0 && memory.contains(from, bytes) &&
                        (!c.findings || all_written(memory.shadow_at(from), bytes)));
}

/// Lanes whose source is short, one after another, and what they bring.
void note_short(Warp& w, const Op& op, const WarpCopies& copies, std::uint32_t epoch,
                std::uint8_t (*padded)[16], const std::uint8_t** brings) {
  Cluster& c = *w.block->cluster;
  for (std::uint32_t m = copies.lanes & ~copies.whole; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint32_t bytes = copies.source_bytes[l];
    std::memset(padded[l], 0, sizeof padded[l]);
    brings[l] = padded[l];
    if (bytes == 0) continue;
    std::memcpy(padded[l], c.launch->memory->at(copies.global[l]), bytes);
    c.launch->globals->access(w, op, l, copies.global[l], bytes, false, kCopyUnit, epoch);
  }
}

/// Bytes that a copy may simply overwrite: its own block's, allocated and with no mbarrier.
template <std::size_t Width>
bool overwritable(const std::uint8_t* shadow) {
  std::uint8_t differ = 0;
  for (std::size_t i = 0; i < Width; ++i) differ |= (shadow[i] | kWrittenBit) ^ kWritten;
  return differ == 0;
}

template <std::size_t Width>
void copy_lanes(Warp& w, const Op& op, const WarpCopies& copies) {
  Cluster& c = *w.block->cluster;
  Block& b = *w.block;
  const GlobalMemory::Impl& memory = *c.launch->memory;
  for (std::uint32_t m = copies.lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint32_t to = copies.shared[l] & 0xffffffu;
    if ((copies.whole >> l & 1) == 0 || to % Width != 0 || (b.rank != 0 && (op.flags & 1) != 0) ||
        !overwritable<Width>(b.shadow.data() + to)) {
      const LaneCopy one = lane_copy(w, op, copies, l);
      complete_at_once(w, {&one, 1});
      continue;
    }
    std::memset(b.shadow.data() + to, kWritten, Width);
    std::memcpy(b.smem.data() + to, memory.at(copies.global[l]), Width);
    c.counters.async_bytes += Width;
    ++c.progress;
  }
}

}  // namespace

KILN_MULTIVERSION WarpCopies copies_of(const Warp& w, const Op& op) {
  WarpCopies copies;
  copies.lanes = copies.whole = w.exec;
  const bool generic = (op.flags & 1) != 0;
  add_row(w, op.a, op.asize, static_cast<u64>(op.imm) - (generic ? kSharedWindow : 0), copies.shared);
  add_row(w, op.b, op.bsize, static_cast<u64>(static_cast<std::int32_t>(op.target)), copies.global);
  std::memset(copies.source_bytes, op.width, sizeof copies.source_bytes);
  if (op.c != kNoRef) gather_sizes(w, op, copies);
  return copies;
}

void prefetch_sources(const Cluster& c, const WarpCopies& copies, std::uint64_t distance) {
  const GlobalMemory::Impl& memory = *c.launch->memory;
  u64 last = ~u64{0};
  for (std::uint32_t m = copies.lanes; m != 0; m &= m - 1) {
    const u64 from = copies.global[std::countr_zero(m)] + distance;
    if (from / 32 == last / 32 || !memory.contains(from, 16)) continue;
    if (c.findings) c.launch->globals->prefetch(from);
    if (from / 64 != last / 64) {
      __builtin_prefetch(memory.at(from));
      if (c.findings) __builtin_prefetch(memory.shadow_at(from));
    }
    last = from;
  }
}

bool note_plain_copies(Warp& w, const Op& op, const WarpCopies& copies, std::uint32_t epoch) {
  Cluster& c = *w.block->cluster;
  const GlobalMemory::Impl& memory = *c.launch->memory;
  if (c.findings && c.launch->launch->programmatic) return false;
  std::uint32_t offset[32];
  const std::uint8_t* brings[32];
  Places places;  // lanes that share one are judged one after another
  const std::uint32_t own = w.block->rank;
  const std::size_t size = w.block->smem.size();
  for (std::uint32_t m = copies.lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint32_t rank = copies.shared[l] >> 24;
    offset[l] = copies.shared[l] & 0xffffffu;
    if ((rank != 0 && rank != own) || offset[l] + op.width > size || !plain_source(c, copies, op.width, l) ||
        !places.take(copies.shared, op.width, l, copies.lanes & ~m))
      return false;
    brings[l] = memory.at(copies.global[l]);
  }
  if (!c.races) return true;
  std::uint8_t padded[32][16];
  if (copies.whole != copies.lanes) note_short(w, op, copies, epoch, padded, brings);
  c.launch->globals->access_lanes(w, op, {copies.global, op.width, copies.whole, 0, origin_of(w, op) - 1},
                                  kCopyUnit, epoch);
  c.races->access_lanes({w, op, *w.block, offset, op.width, copies.lanes, 0, true, kCopyUnit, epoch, brings});
  return true;
}

void complete_plain_copies(Warp& w, const Op& op, const WarpCopies& copies) {
  if (op.width == 16) return copy_lanes<16>(w, op, copies);
  if (op.width == 8) return copy_lanes<8>(w, op, copies);
  copy_lanes<4>(w, op, copies);
}

LaneCopy lane_copy(const Warp& w, const Op& op, const WarpCopies& copies, int lane) {
  LaneCopy copy;
  copy.lane = static_cast<std::uint8_t>(lane);
  copy.bytes = op.width;
  copy.source_bytes = copies.source_bytes[lane];
  copy.shared = copies.shared[lane];
  copy.global = copies.global[lane];
  copy.group = w.copies.committed[lane];
  copy.issued = w.block->cluster->issued;
  copy.op = &op;
  return copy;
}

}  // namespace kiln::emulator::ptx
