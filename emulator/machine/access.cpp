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

Place locate(Warp& w, const Op& op, ptx::Space space, std::uint64_t address, std::uint32_t bytes, int lane,
             Access access) {
  using ptx::Space;
  Cluster& c = *w.block->cluster;
  Place p;
  const std::uint64_t original = address;
  bool any_rank = (op.flags & 1) != 0;  // .shared::cluster
  if (space == Space::generic) {
    const std::uint64_t window = address & ~kWindowBytes;
    if (window == (kSharedWindow & ~kWindowBytes) && address - kSharedWindow <= 0xffffffffu) {
      space = Space::shared;
      address -= kSharedWindow;
      any_rank = true;
    } else if (address - kLocalWindow <= 0xffffffffu) {
      space = Space::local;
      address -= kLocalWindow;
    } else if (address - kParamWindow <= 0xffffffffu) {
      space = Space::param;
      address -= kParamWindow;
    } else {
      space = Space::global;
    }
  }
  p.space = space;
  if ((address & (bytes - 1)) != 0 && (bytes & (bytes - 1)) == 0) {
    report(w, op, lane, "misaligned",
           std::string(verb(access)) + " of " + std::to_string(bytes) + " bytes at " + hex(original));
    return p;
  }
  switch (space) {
    case Space::global:
    case Space::constant: {
      GlobalMemory::Impl& m = *c.launch->memory;
      if (space == Space::global) check_early_access(w, op, lane, address, bytes, access);
      if (!m.contains(address, bytes)) {
        fault(w, op, lane, access, bytes, "at " + hex(original) + ", outside device memory");
        return p;
      }
      p.data = m.at(address);
      p.shadow = m.shadow_at(address);
      break;
    }
    case Space::shared: {
      Block* b = shared_block(w, address, any_rank);
      const std::uint32_t offset = static_cast<std::uint32_t>(address) & 0xffffffu;
      if (b == nullptr || address > 0xffffffffu || offset + bytes > b->smem.size()) {
        fault(w, op, lane, access, bytes,
              "at shared address " + hex(address) + ", outside the block's shared memory");
        return p;
      }
      p.block = b;
      p.offset = offset;
      p.data = b->smem.data() + offset;
      p.shadow = b->shadow.data() + offset;
      break;
    }
    case Space::local: {
      if (address + bytes > w.local_bytes || address > w.local_bytes) {
        fault(w, op, lane, access, bytes,
              "at local address " + hex(address) + " of " + std::to_string(w.local_bytes) + " bytes");
        return p;
      }
      const std::size_t at = static_cast<std::size_t>(lane) * w.local_bytes + address;
      p.data = w.local.data() + at;
      p.shadow = w.local_shadow.data() + at;
      break;
    }
    default: {
      auto& params = c.launch->params;
      if (access != Access::read || address > params.size() || address + bytes > params.size()) {
        fault(w, op, lane, access, bytes, "at parameter address " + hex(address));
        return p;
      }
      p.data = params.data() + address;
      return p;
    }
  }
  if (!c.findings) {
    if (access != Access::read) std::memset(p.shadow, kWritten, bytes);
    return p;
  }
  if (access == Access::read ? !all_written(p.shadow, bytes) : !none_unallocated(p.shadow, bytes)) {
    if (!none_unallocated(p.shadow, bytes)) {
      if (space == Space::shared)
        fault(w, op, lane, access, bytes,
              "at shared address " + hex(address) + ", outside the block's " +
                  std::to_string(p.block->smem.size() - 64 - kSharedBase) + " bytes that start at " +
                  std::to_string(kSharedBase));
      else
        fault(w, op, lane, access, bytes, "at " + hex(original) + ": " + c.launch->memory->describe(address));
      p.data = nullptr;
      return p;
    }
    // Global memory is reported at the read, as others do; of the block's own memory the value decides.
    if (op.use == Use::load && (space == Space::shared || space == Space::local)) {
      p.unwritten = true;
      return p;
    }
    report_unwritten(w, op, lane, space, {original, address}, p.shadow, bytes);
  }
  if (access != Access::read) {
    if (p.block != nullptr && any_mbarrier(p.shadow, bytes))
      check_mbarriers_kept(w, op, lane, *p.block, p.offset, bytes);
    std::memset(p.shadow, kWritten, bytes);
  }
  return p;
}

}  // namespace kiln::emulator
