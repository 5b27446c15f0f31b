#include "emulator/ptx/decode/warp_access.hpp"
#include "emulator/tensor/multiversion.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

constexpr u64 kEach = 0x0101010101010101ull;

/// Whether every byte of a shadow has the bits of `all`, and none those of `none`.
template <class T>
bool bytes_are(const std::uint8_t* shadow, std::uint8_t all, std::uint8_t none) {
  T v;
  std::memcpy(&v, shadow, sizeof v);
  constexpr T each = static_cast<T>(kEach);
  const T wanted = static_cast<T>(each * all);
  return (v & static_cast<T>(wanted | static_cast<T>(each * none))) == wanted;
}
bool shadow_is(const std::uint8_t* shadow, std::uint32_t bytes, std::uint8_t all, std::uint8_t none) {
  switch (bytes) {
    case 1:
      return bytes_are<std::uint8_t>(shadow, all, none);
    case 2:
      return bytes_are<std::uint16_t>(shadow, all, none);
    case 4:
      return bytes_are<std::uint32_t>(shadow, all, none);
    default:
      for (std::uint32_t i = 0; i < bytes; i += 8)
        if (!bytes_are<u64>(shadow + i, all, none)) return false;
      return true;
  }
}
/// A read wants written bytes; a write allocated ones in which no mbarrier lies.
bool shadow_allows(const std::uint8_t* shadow, std::uint32_t bytes, bool write) {
  return write ? shadow_is(shadow, bytes, kAllocated, kMbarrier & ~kWritten)
               : shadow_is(shadow, bytes, kWrittenBit, 0);
}

/// shadow_allows of each of `lanes`, at its of `offsets`.
template <class T>
bool lanes_allow(const std::uint8_t* shadow, const std::uint32_t* offsets, std::uint32_t lanes, bool write) {
  constexpr T each = static_cast<T>(kEach);
  T all = static_cast<T>(~T{0}), any = 0;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    T v;
    std::memcpy(&v, shadow + offsets[std::countr_zero(m)], sizeof v);
    all &= v;
    any |= v;
  }
  const T wanted = static_cast<T>(each * (write ? kAllocated : kWrittenBit));
  const T unwanted = write ? static_cast<T>(each * (kMbarrier & ~kWritten)) : T{0};
  return (all & wanted) == wanted && (any & unwanted) == 0;
}
bool lanes_allow(const std::uint8_t* shadow, std::uint32_t bytes, const std::uint32_t* offsets,
                 std::uint32_t lanes, bool write) {
  if (bytes == 4) return lanes_allow<std::uint32_t>(shadow, offsets, lanes, write);
  if (bytes == 8) return lanes_allow<u64>(shadow, offsets, lanes, write);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1)
    if (!shadow_allows(shadow + offsets[std::countr_zero(m)], bytes, write)) return false;
  return true;
}

template <class T>
std::uint32_t lanes_same(const Warp& w, Ref row, std::uint32_t offset, std::uint32_t lanes,
                         std::uint8_t* const* data) {
  const T* const values = w.in<T>(row);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    T there;
    std::memcpy(&there, data[l] + offset, sizeof there);
    if (there != values[l]) lanes &= ~(1u << l);
  }
  return lanes;
}

/// Whether all lanes access what lies side by side, in their order.
bool in_a_row(const Warp& w, const u64* address, std::uint32_t bytes) {
  if (w.exec != 0xffffffffu) return false;
  u64 differ = 0;
  for (std::uint32_t l = 0; l < 32; ++l) differ |= address[l] ^ (address[0] + u64{l} * bytes);
  return differ == 0;
}

/// Lanes whose stores change nothing, or that store what the lane before stores in the same place.
std::uint32_t silent_lanes(const Warp& w, const Op& op, const u64* address, std::uint8_t* const* data) {
  const Program& p = *w.block->cluster->program;
  std::uint32_t same = w.exec;
  for (std::uint32_t i = 0; i < op.count && same != 0; ++i) {
    const Ref row = p.lists[op.target + i];
    const std::uint32_t offset = i * op.width;
    if (op.width != op.dsize)
      for (std::uint32_t m = same; m != 0; m &= m - 1) {
        const int l = std::countr_zero(m);
        const u64 v = w.value(row, op.dsize, l);
        if (std::memcmp(data[l] + offset, &v, op.width) != 0) same &= ~(1u << l);
      }
    else if (op.width == 4)
      same = lanes_same<std::uint32_t>(w, row, offset, same, data);
    else if (op.width == 8)
      same = lanes_same<u64>(w, row, offset, same, data);
    else if (op.width == 2)
      same = lanes_same<std::uint16_t>(w, row, offset, same, data);
    else
      same = lanes_same<std::uint8_t>(w, row, offset, same, data);
  }
  u64 last = ~u64{0};
  int before = 0;
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (last == address[l] && stores_alike(w, op, before, l)) same |= 1u << l;
    last = address[l];
    before = l;
  }
  return same;
}

/// Offsets of lanes in the block's own shared memory; false when one lies elsewhere.
bool own_offsets(const Warp& w, bool generic, bool any_rank, std::uint32_t bytes, std::uint32_t lanes,
                 const u64* address, std::uint32_t* offset) {
  const Block& b = *w.block;
  const u64 base = generic ? kSharedWindow : 0;
  const u64 own = u64{b.rank} << 24, size = b.smem.size();
  bool inside = true;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const u64 at = address[l] - base, rank = at & ~u64{0xffffff}, within = at & 0xffffff;
    inside &= (rank == own || (rank == 0 && !any_rank)) & (within + bytes <= size) &
              ((address[l] & (bytes - 1)) == 0);
    offset[l] = static_cast<std::uint32_t>(within);
  }
  return inside;
}

/// `row`: those of all lanes lie side by side.
void mark_written(std::uint32_t lanes, bool row, std::uint32_t bytes, std::uint8_t* const* shadow) {
  if (row) {
    std::memset(shadow[0], kWritten, std::size_t{32} * bytes);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) std::memset(shadow[std::countr_zero(lanes)], kWritten, bytes);
}

KILN_MULTIVERSION bool plain_shared(Warp& w, const Op& op, bool generic, std::uint32_t bytes, bool write,
                                    const u64* address, std::uint8_t** data, std::uint8_t** shadow) {
  Block& b = *w.block;
  Cluster& c = *b.cluster;
  std::uint32_t offset[32] = {};
  if (!own_offsets(w, generic, generic || (op.flags & 1) != 0, bytes, w.exec, address, offset)) return false;
  const bool row = in_a_row(w, address, bytes);
  if (c.findings && !(row ? shadow_allows(b.shadow.data() + offset[0], 32 * bytes, write)
                          : lanes_allow(b.shadow.data(), bytes, offset, w.exec, write)))
    return false;
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    data[l] = b.smem.data() + offset[l];
    shadow[l] = b.shadow.data() + offset[l];
  }
  if (write) mark_written(w.exec, row, bytes, shadow);
  if (!c.findings) return true;
  const std::uint32_t silent = write ? silent_lanes(w, op, address, data) : 0;
  c.races->access_lanes({w, op, b, offset, bytes, w.exec, silent, write});
  count_shared(c, address, w.exec, bytes);
  return true;
}

KILN_MULTIVERSION bool plain_global(Warp& w, const Op& op, std::uint32_t bytes, bool write,
                                    const u64* address, std::uint8_t** data, std::uint8_t** shadow) {
  Cluster& c = *w.block->cluster;
  if (c.findings && c.launch->launch->programmatic) return false;
  const GlobalMemory::Impl& memory = *c.launch->memory;
  const bool row = in_a_row(w, address, bytes);
  if (row && (!memory.contains(address[0], u64{32} * bytes) || (address[0] & (bytes - 1)) != 0)) return false;
  if (c.findings && row && !shadow_allows(memory.shadow_at(address[0]), 32 * bytes, write)) return false;
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (!row) {
      if (!memory.contains(address[l], bytes) || (address[l] & (bytes - 1)) != 0) return false;
      if (c.findings && !shadow_allows(memory.shadow_at(address[l]), bytes, write)) return false;
    }
    data[l] = memory.at(address[l]);
    shadow[l] = memory.shadow_at(address[l]);
  }
  if (write) mark_written(w.exec, row, bytes, shadow);
  if (!c.findings) return true;
  const std::uint32_t silent = write ? silent_lanes(w, op, address, data) : 0;
  c.launch->globals->access_lanes(w, op, {address, bytes, w.exec, silent, origin_of(w, op) - 1, write});
  count_global(c, address, w.exec, bytes, write);
  return true;
}

}  // namespace

bool all_written(const std::uint8_t* shadow, std::uint32_t bytes) {
  std::uint32_t at = 0;
  while (at + 8 <= bytes && bytes_are<u64>(shadow + at, kWrittenBit, 0)) at += 8;
  while (at < bytes && (shadow[at] & kWrittenBit) != 0) ++at;
  return at == bytes;
}

KILN_MULTIVERSION void lane_addresses(const Warp& w, const Op& op, u64* address) {
  const u64 add = static_cast<u64>(op.imm) + ((op.flags & 2) != 0 ? w.frame->local : 0);
  if (op.asize == 8) {
    const u64* const row = w.in<u64>(op.a);
    for (int l = 0; l < 32; ++l) address[l] = row[l] + add;
  } else {
    for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
      const int l = std::countr_zero(m);
      address[l] = w.value(op.a, op.asize, l) + add;
    }
  }
}

bool plain_places(Warp& w, const Op& op, std::uint32_t bytes, bool write, const u64* address,
                  std::uint8_t** data, std::uint8_t** shadow) {
  constexpr std::uint16_t kStrong = 0x100;
  if ((op.flags & kStrong) != 0 || w.exec == 0) return false;
  Space space = static_cast<Space>(op.c);
  const bool generic = space == Space::generic;
  if (generic) {  // all lanes where the first one is, or it is no plain access
    const u64 first = address[std::countr_zero(w.exec)];
    space = first - kSharedWindow <= 0xffffffffu ? Space::shared
            : first >= kGlobalBase               ? Space::global
                                                 : Space::local;
  }
  if (space == Space::shared) return plain_shared(w, op, generic, bytes, write, address, data, shadow);
  if (space == Space::global) return plain_global(w, op, bytes, write, address, data, shadow);
  return false;
}

bool plain_atomics(Warp& w, const Op& op, std::uint32_t bytes, const u64* address, std::uint8_t** data) {
  Block& b = *w.block;
  Cluster& c = *b.cluster;
  if (static_cast<Space>(op.c) != Space::shared || static_cast<Order>(op.flags >> 9 & 3) != Order::relaxed)
    return false;
  std::uint32_t offset[32];
  if (!own_offsets(w, false, (op.flags & 1) != 0, bytes, w.exec, address, offset)) return false;
  if (bytes == 4 && !(lanes_allow<std::uint32_t>(b.shadow.data(), offset, w.exec, true) &&
                      lanes_allow<std::uint32_t>(b.shadow.data(), offset, w.exec, false)))
    return false;
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (bytes != 4 && !shadow_is(b.shadow.data() + offset[l], bytes, kWritten, kMbarrier & ~kWritten))
      return false;
    data[l] = b.smem.data() + offset[l];
  }
  if (!c.findings) return true;
  RaceTracker& races = *c.races;
  races.access_lanes({w, op, b, offset, bytes, w.exec, 0, true, static_cast<std::uint32_t>(Unit::strong)});
  for (std::uint32_t m = races.strong_matters(w) ? w.exec : 0; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const u64 variable = u64{b.rank} << 32 | offset[l];
    races.strong_read(w, variable, l, Order::relaxed);
    races.strong_write(w, variable, l, Order::relaxed);
  }
  return true;
}

bool plain_rows(Warp& w, const Op& op, int rows, const u64* address, const std::uint8_t** data) {
  Block& b = *w.block;
  Cluster& c = *b.cluster;
  const bool generic = static_cast<Space>(op.c) == Space::generic;
  if (!generic && static_cast<Space>(op.c) != Space::shared) return false;
  const std::uint32_t lanes = rows == 32 ? ~0u : (1u << rows) - 1;
  std::uint32_t offset[32];
  if (!own_offsets(w, generic, generic || (op.flags & 1) != 0, 16, lanes, address, offset)) return false;
  for (int l = 0; l < rows; ++l) {
    if (c.findings && !shadow_is(b.shadow.data() + offset[l], 16, kWrittenBit, 0)) return false;
    data[l] = b.smem.data() + offset[l];
  }
  if (c.findings) c.races->access_lanes({w, op, b, offset, 16, lanes, 0, false});
  return true;
}

bool stores_the_same(const Warp& w, const Op& op, int lane, const std::uint8_t* data) {
  const Program& p = *w.block->cluster->program;
  for (std::uint32_t i = 0; i < op.count; ++i) {
    const u64 v = w.value(p.lists[op.target + i], op.dsize, lane);
    if (std::memcmp(data + std::size_t{i} * op.width, &v, op.width) != 0) return false;
  }
  return true;
}

bool stores_alike(const Warp& w, const Op& op, int a, int b) {
  const Program& p = *w.block->cluster->program;
  for (std::uint32_t i = 0; i < op.count; ++i)
    if (w.value(p.lists[op.target + i], op.dsize, a) != w.value(p.lists[op.target + i], op.dsize, b))
      return false;
  return true;
}

void count_shared(Cluster& c, const u64* address, std::uint32_t mask, std::uint32_t bytes) {
  ++c.counters.shared_accesses;
  // A pass serves one 4-byte word of each of 32 banks; wide accesses go in halves or quarters of the warp.
  const int lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  const std::uint32_t words = std::max(1u, bytes / 4);
  for (int first = 0; first < 32; first += lanes) {
    // Words one after another have banks of their own.
    bool run = mask == 0xffffffffu && words <= 4;
    for (int l = first + 1; run && l < first + lanes; ++l) run = address[l] - address[l - 1] == 4 * words;
    if (run) continue;
    std::uint32_t seen[32][4];
    std::uint8_t n[32] = {};
    std::uint32_t most = 1;
    for (int l = first; l < first + lanes; ++l) {
      if ((mask >> l & 1) == 0) continue;
      for (std::uint32_t i = 0; i < words; ++i) {
        const auto word = static_cast<std::uint32_t>(address[l] >> 2) + i;
        const std::uint32_t bank = word & 31;
        bool known = false;
        for (int k = 0; k < std::min<int>(n[bank], 4); ++k) known |= seen[bank][k] == word;
        if (known) continue;
        if (n[bank] < 4) seen[bank][n[bank]] = word;
        most = std::max<std::uint32_t>(most, ++n[bank]);
      }
    }
    c.counters.shared_bank_conflicts += most - 1;
  }
}

void count_rows(Cluster& c, const u64* address, int matrices) {
  c.counters.shared_accesses += static_cast<unsigned>(matrices);
  for (int m = 0; m < matrices; ++m) {
    u64 row[8];
    std::uint32_t banks = 0;
    for (int r = 0; r < 8; ++r) {
      row[r] = address[8 * m + r] >> 4;
      banks |= 1u << (row[r] & 7);
    }
    if (banks == 0xff) continue;  // each its own
    int used[8] = {}, most = 1;
    for (int r = 0; r < 8; ++r)
      if (std::find(row, row + r, row[r]) == row + r) most = std::max(most, ++used[row[r] & 7]);
    c.counters.shared_bank_conflicts += static_cast<unsigned>(most - 1);
  }
}

void count_global(Cluster& c, const u64* address, std::uint32_t mask, std::uint32_t bytes, bool store) {
  ++c.counters.global_accesses;
  u64 sectors[64];
  int n = 0;
  bool sorted = true;
  for (std::uint32_t m = mask; m != 0; m &= m - 1) {
    const u64 s = address[std::countr_zero(m)] >> 5;
    if (n != 0 && sectors[n - 1] == s) continue;
    sorted &= n == 0 || sectors[n - 1] < s;
    sectors[n++] = s;
  }
  if (!sorted) std::sort(sectors, sectors + n);
  c.counters.global_sectors += static_cast<u64>(std::unique(sectors, sectors + n) - sectors);
  (store ? c.counters.global_bytes_written : c.counters.global_bytes_read) +=
      u64{bytes} * static_cast<unsigned>(std::popcount(mask));
}

}  // namespace kiln::emulator::ptx
