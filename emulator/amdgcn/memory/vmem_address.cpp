// See vmem_address.hpp.
#include "emulator/amdgcn/memory/vmem_address.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include "emulator/amdgcn/memory/memory_access.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// Whether the address operands are defined; reports once.
void check_defined(Wave& w, const Inst& in, u64 defined, const char* what) {
  const u64 exec = w.exec();
  if ((defined & exec) == exec || !w.grid.launch.findings) return;
  w.report("uninitialized-register", in, std::countr_zero(exec & ~defined),
           std::string(what) + " depends on a register or memory that was never written");
}

}  // namespace

void flat_addresses(Wave& w, const Inst& in, Pending& op, Space space, int at, int base_at) {
  const Operand& a = in.ops[static_cast<std::size_t>(at)];
  const bool has_base = base_at >= 0 && base_at < in.operands;
  const Operand* base = has_base && in.ops[static_cast<std::size_t>(base_at)].kind == Operand::Kind::sgpr
                            ? &in.ops[static_cast<std::size_t>(base_at)]
                            : nullptr;
  u64 defined = base == nullptr || w.scalar_defined(*base) ? ~u64{0} : 0;
  Lanes bl, bh;
  const bool has_vector = a.kind == Operand::Kind::vgpr;
  const View low = w.raw(a, 0, bl), high = w.raw(a, 1, bh);
  if (has_vector) defined &= low.defined & (a.dwords > 1 ? high.defined : ~u64{0});
  const u64 scalar = base == nullptr ? 0 : space == Space::scratch ? w.s[base->reg] : w.s64(base->reg);
  const auto imm = static_cast<u64>(static_cast<std::int64_t>(in.mod.offset));
  for (int lane = 0; lane < kLanes; ++lane) {
    u64 address = scalar + imm;
    if (space == Space::scratch) {
      address = kPrivateAperture | static_cast<u32>(address + (has_vector ? low.l[lane] : 0));
    } else if (has_vector) {
      address += base != nullptr ? low.l[lane] : low.l[lane] | u64{high.l[lane]} << 32;
    }
    op.address[lane] = address;
    op.dwords_in_range[lane] = 4;
  }
  check_defined(w, in, defined, "the address");
}

void buffer_addresses(Wave& w, const Inst& in, Pending& op, int at) {
  // Operands: vaddr (one register, or index and offset), the descriptor, soffset.
  const Operand& a = in.ops[static_cast<std::size_t>(at)];
  const int descriptor = in.ops[static_cast<std::size_t>(at) + 1].reg;
  const Operand& so = in.ops[static_cast<std::size_t>(at) + 2];
  const u64 base = w.s64(descriptor) & 0xffff'ffff'ffffU;
  const u64 records = w.s[descriptor + 2], soffset = w.scalar32(so);
  const u64 stride = w.s[descriptor + 1] >> 16 & 0x3fff;
  const bool scratch = base == kScratchBase;
  u64 defined =
      w.scalar_defined(in.ops[static_cast<std::size_t>(at) + 1]) && w.scalar_defined(so) ? ~u64{0} : 0;
  Lanes bi, bo, none;
  for (u32& x : none.l) x = 0;
  View index{none.l, ~u64{0}}, offset = index;
  if (in.mod.idxen) index = w.raw(a, 0, bi);
  if (in.mod.offen) offset = w.raw(a, in.mod.idxen ? 1 : 0, bo);
  defined &= index.defined & offset.defined;
  check_defined(w, in, defined, "the address or descriptor");
  bool ambiguous = false;
  const int dwords = std::max(1, in.bytes / 4);
  const u64 unit = std::min<u64>(in.bytes, 4);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 within = u64{offset.l[lane]} + static_cast<u64>(in.mod.offset);
    op.dwords_in_range[lane] = static_cast<std::uint8_t>(dwords);
    if (scratch) {  // soffset counts the bytes of all 64 lanes
      op.address[lane] = kPrivateAperture | static_cast<u32>(within + soffset / kLanes);
      continue;
    }
    op.address[lane] = base + soffset + within + index.l[lane] * stride;
    if (stride != 0 && in.mod.idxen) {
      if (index.l[lane] >= records) op.zero |= u64{1} << lane;
      continue;
    }
    // Every dword is checked on its own. The manual counts soffset in, LLVM's documents do not.
    int inside = 0, inside_without = 0;
    for (int d = 0; d < dwords; ++d) {
      const u64 end = within + static_cast<u64>(d) * 4 + unit;
      inside += end + soffset <= records;
      inside_without += end <= records;
    }
    ambiguous |= inside != inside_without && (op.exec >> lane & 1);
    op.dwords_in_range[lane] = static_cast<std::uint8_t>(inside);
    if (inside == 0) op.zero |= u64{1} << lane;
  }
  if (ambiguous) {
    w.report("ambiguous-bounds", in, -1,
             "whether the access is inside its buffer depends on soffset, which targets treat differently: "
             "put what is to be checked into the vector offset");
  }
}

namespace {

/// One access of a wave, lane by lane; each kind of mistake is reported for the first lane alone.
struct AccessCheck {
  Wave& w;
  const Inst& in;
  Pending& op;
  bool write;
  /// Past caches that are not shared, as what waits for another block's flag reads.
  bool strong = in.text.find(" glc") != std::string::npos || in.text.find(" sc") != std::string::npos;
  bool out = false, unwritten = false;

  bool atomic() const { return in.cls == Class::vmem_atomic; }

  void report_outside(int lane, const std::string& what) {
    if (!out) w.report("out-of-bounds", in, lane, what);
    out = true;
  }

  void in_private_memory(int lane, u64 address, int bytes) {
    const auto offset = static_cast<u32>(address);
    if (out || scratch_at(w, lane, offset + static_cast<u32>(bytes) - 1) != nullptr) return;
    report_outside(lane, "private memory is accessed at offset " + std::to_string(offset) + ", beyond its " +
                             std::to_string(w.scratch.size() / kLanes) + " bytes per lane");
  }

  void in_lds(int lane, u64 address, int bytes) {
    const u64 offset = address & 0xffffffffU;
    if (out || w.wg.lds.contains(offset, static_cast<std::size_t>(bytes))) return;
    report_outside(lane, "LDS is accessed at offset " + std::to_string(offset) + ", beyond its " +
                             std::to_string(w.wg.lds.size()) + " bytes");
  }

  void in_global_memory(int lane, u64 address, int bytes) {
    const auto ref = w.grid.memory.at(address, static_cast<std::size_t>(bytes), write);
    if (ref.data == nullptr) {
      return report_outside(lane, std::string(write ? "store" : "load") + " of " + std::to_string(bytes) +
                                      " bytes at " + w.grid.memory.describe(address));
    }
    if (atomic()) {
      if (address % in.bytes != 0) {
        w.report("misaligned", in, lane,
                 "atomic of " + std::to_string(bytes) + " bytes at " + w.grid.memory.describe(address));
      }
    } else if (write) {
      op.global_write = true, op.epoch = w.clock.epoch;
      u32 value[4];
      for (int d = 0; d < 4; ++d) value[d] = op.data[d].l[lane];
      if (in.sub & kHigh16) value[0] >>= 16;
      w.grid.races.write(w, in, lane, address,
                         std::as_bytes(std::span(value)).first(static_cast<std::size_t>(bytes)),
                         std::has_single_bit(op.exec & ~op.zero), strong);
    } else {
      w.grid.races.read(w, in, lane, address, bytes, strong);
    }
    if ((!write || atomic()) && !unwritten &&
        !w.grid.memory.initialized(ref, static_cast<std::size_t>(bytes))) {
      unwritten = true;
      w.report("uninitialized-read", in, lane,
               "load of memory that was never written, at " + w.grid.memory.describe(address));
    }
  }
};

}  // namespace

void check_access(Wave& w, const Inst& in, Pending& op, bool write) {
  Tally& count = tally();
  ++count.global_accesses;
  u64 sectors[kLanes * 2];
  int sector_count = 0;
  bool shared = false, other = false;
  AccessCheck check{w, in, op, write};
  if (write && !check.atomic()) GlobalRaces::begin_write(w);
  for_lanes(op.exec & ~op.zero, [&](int lane) {
    const u64 address = op.address[lane];
    const int bytes = std::min<int>(in.bytes, op.dwords_in_range[lane] * 4);
    if (in_shared(address)) {
      shared = true;
      return check.in_lds(lane, address, bytes);
    }
    other = true;
    if (in_private(address)) return check.in_private_memory(lane, address, bytes);
    const u64 first = address / 32, last = (address + static_cast<u64>(bytes) - 1) / 32;
    sectors[sector_count++] = first;
    if (last != first) sectors[sector_count++] = last;
    (write ? count.bytes_written : count.bytes_read) += static_cast<u64>(bytes);
    if (w.grid.launch.findings) check.in_global_memory(lane, address, bytes);
  });
  std::sort(sectors, sectors + sector_count);
  count.global_sectors += static_cast<u64>(std::unique(sectors, sectors + sector_count) - sectors);
  op.lds_lanes |= shared;
  op.vm = other || !shared;
  op.lgkm = shared;
}

void aim_at_lds(Wave& w, const Inst& in, Pending& op) {
  const u32 m0 = w.s[kM0] & (w.grid.target == Target::gfx950 ? 0x3ffffU : 0xffffU);
  const u32 step = in.bytes > 4 ? 16 : 4;
  bool out = false;
  for (int lane = 0; lane < kLanes; ++lane) {
    op.lds_address[lane] = m0 + static_cast<u32>(in.mod.offset) + static_cast<u32>(lane) * step;
    if (!out && (op.exec >> lane & 1) &&
        !w.wg.lds.contains(op.lds_address[lane], std::max<std::size_t>(4, in.bytes))) {
      out = true;
      w.report("out-of-bounds", in, lane,
               "a load to LDS writes offset " + std::to_string(op.lds_address[lane]) + ", beyond its " +
                   std::to_string(w.wg.lds.size()) + " bytes");
    }
  }
  op.lds_lanes = op.lds_write = true;
  tally().dma_bytes += static_cast<u64>(std::popcount(op.exec)) * in.bytes;
  // Reads of the own wave that are still under way would see the new bytes.
  if (!w.grid.launch.findings) return;
  for (const Pending* read : w.lgkm) {
    if (!read->lds_lanes || read->lds_write || read->vm) continue;
    const std::size_t bytes = read->inst->bytes;
    bool hit = false;
    for_lanes(op.exec, [&](int lane) {
      const u64 at = op.lds_address[lane], end = at + std::max<u64>(4, in.bytes);
      for_lanes(hit ? 0 : read->exec,
                [&](int other) { hit |= read->address[other] < end && at < read->address[other] + bytes; });
    });
    if (hit) {
      w.report(
          "lds-overwritten", in, -1,
          "the load writes LDS bytes that an earlier read of the same wave, not yet waited for, still needs",
          read->inst, w.index);
      break;
    }
  }
}

}  // namespace kiln::emulator::amdgcn
