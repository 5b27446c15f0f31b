// Where an address leads, and whether one may go there.
#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {
namespace {

const char* verb(Access a) {
  return a == Access::read ? "read" : a == Access::write ? "write" : "atomic access";
}

std::string hex(std::uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

void fault(Warp& w, const Op& op, int lane, Access access, std::uint32_t bytes, const std::string& where) {
  report(w, op, lane, "out-of-bounds",
         std::string(verb(access)) + " of " + std::to_string(bytes) + " bytes " + where);
}

bool all_written(const std::uint8_t* shadow, std::uint32_t bytes) {
  std::uint8_t all = 0xff;
  for (std::uint32_t i = 0; i < bytes; ++i) all &= shadow[i];
  return (all & kWrittenBit) != 0;
}
/// Whether every element of a load has a byte that was written: the others are padding of a structure that is copied by
/// words.
bool padding_only(const Op& op, const std::uint8_t* shadow, std::uint32_t bytes) {
  if (op.use != Use::load || op.width < 2 || std::uint32_t{op.width} * op.count != bytes) return false;
  for (std::uint32_t at = 0; at < bytes; at += op.width)
    if (std::none_of(shadow + at, shadow + at + op.width,
                     [](std::uint8_t v) { return (v & kWrittenBit) != 0; }))
      return false;
  return true;
}
struct Address {
  std::uint64_t given, within;  ///< of the program, and within its space
};
void report_unwritten(Warp& w, const Op& op, int lane, ptx::Space space, const Address& at,
                      const std::uint8_t* shadow, std::uint32_t bytes) {
  using ptx::Space;
  if (space == Space::global && padding_only(op, shadow, bytes)) return;
  const std::string where =
      space == Space::shared ? "shared address " + hex(at.within)
      : space == Space::local
          ? "local address " + hex(at.within)
          : hex(at.given) + " (" + w.block->cluster->launch->memory->describe(at.within) + ")";
  report(w, op, lane, "uninitialized-read",
         std::to_string(bytes) + " bytes at " + where + " were never written");
}
bool any_mbarrier(const std::uint8_t* shadow, std::uint32_t bytes) {
  std::uint8_t any = 0;
  for (std::uint32_t i = 0; i < bytes; ++i) any |= shadow[i];
  return (any & kMbarrier) == kMbarrier;
}
bool none_unallocated(const std::uint8_t* shadow, std::uint32_t bytes) {
  std::uint8_t all = 0xff;
  for (std::uint32_t i = 0; i < bytes; ++i) all &= shadow[i];
  return (all & kAllocated) != 0;
}

}  // namespace

void check_early_access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                        Access access) {
  const Cluster& c = *w.block->cluster;
  const Launch& launch = *c.launch->launch;
  if (!c.findings || !launch.programmatic || launch.touches_early || ((w.launches_before >> lane) & 1) != 0)
    return;
  if (access == Access::read && op.kind != Kind::atomic)
    for (const auto& [begin, end] : launch.early_reads)
      if (address >= begin && address + bytes <= end) return;
  report(w, op, lane, "early-access",
         "global memory before griddepcontrol.wait: the launch before may still be running");
}

Block* shared_block(Warp& w, std::uint64_t address, bool any_rank) {
  const std::uint64_t rank = address >> 24;
  if (!any_rank) return rank == 0 || rank == w.block->rank ? w.block : nullptr;
  auto& blocks = w.block->cluster->blocks;
  return rank < blocks.size() ? blocks[rank].get() : nullptr;
}

namespace {

/// One lane's access on its way to its memory.
struct Step {
  Warp& w;
  const Op& op;
  std::uint64_t given, address;  ///< of the program, and within its space
  std::uint32_t bytes;
  int lane;
  Access access;
  bool any_rank;  ///< shared memory of any block of the cluster

  void fault(const std::string& where) const { emulator::fault(w, op, lane, access, bytes, where); }
};

/// The space of a generic address, which becomes one of that space.
ptx::Space resolve_generic(Step& s) {
  using ptx::Space;
  const std::uint64_t address = s.address;
  if ((address & ~kWindowBytes) == (kSharedWindow & ~kWindowBytes) &&
      address - kSharedWindow <= 0xffffffffu) {
    s.address -= kSharedWindow;
    s.any_rank = true;
    return Space::shared;
  }
  if (address - kLocalWindow <= 0xffffffffu) {
    s.address -= kLocalWindow;
    return Space::local;
  }
  if (address - kParamWindow <= 0xffffffffu) {
    s.address -= kParamWindow;
    return Space::param;
  }
  return Space::global;
}

bool place_global(const Step& s, Place& p) {
  GlobalMemory::Impl& m = *s.w.block->cluster->launch->memory;
  if (p.space == ptx::Space::global) check_early_access(s.w, s.op, s.lane, s.address, s.bytes, s.access);
  if (!m.contains(s.address, s.bytes)) {
    s.fault("at " + hex(s.given) + ", outside device memory");
    return false;
  }
  p.data = m.at(s.address);
  p.shadow = m.shadow_at(s.address);
  return true;
}
bool place_shared(const Step& s, Place& p) {
  Block* b = shared_block(s.w, s.address, s.any_rank);
  const std::uint32_t offset = static_cast<std::uint32_t>(s.address) & 0xffffffu;
  if (b == nullptr || s.address > 0xffffffffu || offset + s.bytes > b->smem.size()) {
    s.fault("at shared address " + hex(s.address) + ", outside the block's shared memory");
    return false;
  }
  p.block = b;
  p.offset = offset;
  p.data = b->smem.data() + offset;
  p.shadow = b->shadow.data() + offset;
  return true;
}
bool place_local(const Step& s, Place& p) {
  Warp& w = s.w;
  if (s.address + s.bytes > w.local_bytes || s.address > w.local_bytes) {
    s.fault("at local address " + hex(s.address) + " of " + std::to_string(w.local_bytes) + " bytes");
    return false;
  }
  const std::size_t at = static_cast<std::size_t>(s.lane) * w.local_bytes + s.address;
  p.data = w.local.data() + at;
  p.shadow = w.local_shadow.data() + at;
  return true;
}
/// Parameters have no shadow: they are written before the launch, and nobody writes them again.
void place_param(const Step& s, Place& p) {
  auto& params = s.w.block->cluster->launch->params;
  if (s.access != Access::read || s.address > params.size() || s.address + s.bytes > params.size())
    return s.fault("at parameter address " + hex(s.address));
  p.data = params.data() + s.address;
}
bool place(const Step& s, Place& p) {
  using ptx::Space;
  switch (p.space) {
    case Space::global:
    case Space::constant:
      return place_global(s, p);
    case Space::shared:
      return place_shared(s, p);
    case Space::local:
      return place_local(s, p);
    default:
      place_param(s, p);
      return false;
  }
}

void fault_unallocated(const Step& s, const Place& p) {
  if (p.space == ptx::Space::shared)
    s.fault("at shared address " + hex(s.address) + ", outside the block's " +
            std::to_string(p.block->smem.size() - 64 - kSharedBase) + " bytes that start at " +
            std::to_string(kSharedBase));
  else
    s.fault("at " + hex(s.given) + ": " + s.w.block->cluster->launch->memory->describe(s.address));
}

/// The bytes are not what the access needs: allocated, for a read written. False: there is nothing to write.
bool check_shadow(const Step& s, Place& p) {
  if (!none_unallocated(p.shadow, s.bytes)) {
    fault_unallocated(s, p);
    p.data = nullptr;
    return false;
  }
  // Global memory is reported at the read, as others do; of the block's own memory the value decides.
  if (s.op.use == Use::load && (p.space == ptx::Space::shared || p.space == ptx::Space::local)) {
    p.unwritten = true;
    return false;
  }
  report_unwritten(s.w, s.op, s.lane, p.space, {s.given, s.address}, p.shadow, s.bytes);
  return true;
}

}  // namespace

Place locate(Warp& w, const Op& op, ptx::Space space, std::uint64_t address, std::uint32_t bytes, int lane,
             Access access) {
  Place p;
  Step s{w, op, address, address, bytes, lane, access, (op.flags & 1) != 0};  // .shared::cluster
  p.space = space == ptx::Space::generic ? resolve_generic(s) : space;
  if ((s.address & (bytes - 1)) != 0 && (bytes & (bytes - 1)) == 0) {
    report(w, op, lane, "misaligned",
           std::string(verb(access)) + " of " + std::to_string(bytes) + " bytes at " + hex(address));
    return p;
  }
  if (!place(s, p)) return p;
  const bool write = access != Access::read;
  if (!w.block->cluster->findings) {
    if (write) std::memset(p.shadow, kWritten, bytes);
    return p;
  }
  const bool fit = write ? none_unallocated(p.shadow, bytes) : all_written(p.shadow, bytes);
  if (!fit && !check_shadow(s, p)) return p;
  if (write) {
    if (p.block != nullptr && any_mbarrier(p.shadow, bytes))
      check_mbarriers_kept(w, op, lane, *p.block, p.offset, bytes);
    std::memset(p.shadow, kWritten, bytes);
  }
  return p;
}

}  // namespace kiln::emulator
