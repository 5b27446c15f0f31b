// See memory_access.hpp.
#include "emulator/amdgcn/memory/memory_access.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/amdgcn/memory/lds_op.hpp"

namespace kiln::emulator::amdgcn {

std::uint32_t widen_loaded(std::uint32_t value, int bytes, std::uint8_t narrow, std::uint32_t old) {
  if (bytes == 1)
    value = narrow & kSigned ? static_cast<std::uint32_t>(static_cast<std::int8_t>(value)) : value & 0xff;
  else if (bytes == 2)
    value = narrow & kSigned ? static_cast<std::uint32_t>(static_cast<std::int16_t>(value)) : value & 0xffff;
  if (narrow & kLow16) return (old & 0xffff0000U) | (value & 0xffff);
  if (narrow & kHigh16) return (old & 0xffff) | value << 16;
  return value;
}

void capture(Wave& w, Pending& op, int operand, int dwords, int at) {
  const Inst& in = *op.inst;
  for (int d = 0; d < dwords; ++d) {
    Lanes buffer;
    const View v = w.raw(in.ops[static_cast<std::size_t>(operand)], d, buffer);
    std::memcpy(op.data[at + d].l, v.l, sizeof op.data[0].l);
    op.defined[at + d] = v.defined;
  }
}

std::byte* scratch_at(Wave& w, int lane, std::uint32_t offset) {
  const std::size_t at =
      std::size_t{offset / 4} * (4 * kLanes) + static_cast<std::size_t>(lane) * 4 + offset % 4;
  return at < w.scratch.size() ? w.scratch.data() + at : nullptr;
}

namespace {

/// Whether the bytes that the instruction writes to LDS are in Pending::data.
bool has_values(const Inst& in) {
  return in.cls == Class::dma || in.cls == Class::lds_write || in.cls == Class::vmem_store;
}

void written_value(const Pending& op, int first, int lane, std::uint32_t (&value)[4]) {
  const Inst& in = *op.inst;
  for (int d = 0; d < std::max(1, in.bytes / 4); ++d) value[d] = op.data[first + d].l[lane];
  if (in.cls != Class::dma && in.sub == kHigh16) value[0] >>= 16;
}

}  // namespace

void stamp_lds(Wave& w, Pending& op) {
  if (!w.grid.launch.findings || !op.lds_lanes) return;
  Lds& lds = w.wg.lds;
  const Inst& in = *op.inst;
  const bool dma = in.cls == Class::dma;
  const bool flat = in.cls == Class::vmem_load || in.cls == Class::vmem_store || in.cls == Class::vmem_atomic;
  const auto access = in.cls == Class::lds_atomic || in.cls == Class::vmem_atomic ? Lds::Access::atomic
                      : op.lds_write                                              ? Lds::Access::write
                                                                                  : Lds::Access::read;
  const std::uint64_t retired = w.vm.empty() ? w.issued : w.vm.front()->sequence - 1;
  const bool pair = is_lds_pair(in);
  const std::size_t bytes = dma ? std::max<std::size_t>(4, in.bytes) : in.bytes;
  bool reported = false;
  const bool stores = has_values(in);
  const int dwords = std::max(1, in.bytes / 4);
  // `first`: the dword of op.data where a store's value begins.
  const auto touch = [&](int lane, std::uint64_t offset, int first = 0) {
    if (!lds.contains(offset, bytes)) return;
    std::uint32_t value[4] = {};
    if (stores) written_value(op, first, lane, value);
    const auto found = lds.touch(static_cast<std::uint32_t>(offset), bytes, access, w.index, w.barriers, &in,
                                 dma ? op.sequence : 0, std::min(retired, op.sequence - 1),
                                 stores ? reinterpret_cast<const std::byte*>(value) : nullptr);
    if (found.trouble == Lds::Trouble::none || reported) return;
    reported = true;
    const std::string where = "LDS byte " + std::to_string(found.byte);
    if (found.trouble == Lds::Trouble::dma_unwaited) {
      w.report("lds-dma-not-waited", in, lane,
               where + " is accessed before a wait for vmcnt covers the load to LDS that writes it",
               found.other, w.index);
    } else {
      w.report("lds-race", in, lane,
               where + " is also accessed by wave " + std::to_string(found.other_wave) +
                   ", with no barrier (and completed wait) between the two",
               found.other, found.other_wave);
    }
  };
  for_lanes(op.exec, [&](int lane) {
    if (dma) {
      touch(lane, op.lds_address[lane]);
    } else if (flat) {  // only the lanes whose address lies in the LDS aperture
      if ((op.address[lane] & kApertureMask) == kSharedAperture) touch(lane, op.address[lane] & 0xffffffffU);
    } else {
      touch(lane, op.address[lane]);
      if (pair) touch(lane, op.lds_address[lane], dwords);
    }
  });
}

}  // namespace kiln::emulator::amdgcn
