// Scalar memory: s_load, s_buffer_load, s_memtime.
#include <algorithm>
#include <cstring>

#include "emulator/amdgcn/ops/ops.hpp"

namespace kiln::emulator::amdgcn {
namespace {

void complete_scalar_load(Wave& w, Pending& op) {
  const int dwords = op.inst->bytes / 4;
  const int first = op.dst.first;
  for (int i = 0; i < dwords; ++i) {
    const std::uint64_t address = op.address[0] + 4 * static_cast<std::uint64_t>(i);
    std::uint32_t value = 0;
    if (i < op.dwords_in_range[0]) {
      const auto ref = w.grid.memory.at(address, 4, false);
      if (ref.data != nullptr) {
        std::memcpy(&value, ref.data, 4);
        // Scalar loads are widened to powers of two: what is loaded is not always what is used, so unwritten
        // bytes make the register undefined, and only a use of it is a finding.
        if (!w.grid.memory.initialized(ref, 4)) {
          w.s[first + i] = value;
          w.s_defined[(first + i) >> 6] &= ~(std::uint64_t{1} << ((first + i) & 63));
          continue;
        }
      }
    }
    w.set_s(first + i, value);
  }
}

std::uint64_t offset_of(Wave& w, const Inst& in) {
  // "s[0:1], 0x10", "s[0:1], s4", "s[0:1], s4 offset:0x10"
  const Operand& o = in.ops[2];
  const auto base =
      o.kind == Operand::Kind::literal ? static_cast<std::int64_t>(o.literal) : std::int64_t{w.scalar32(o)};
  return static_cast<std::uint64_t>(base + in.mod.offset);
}

void start(Wave& w, const Inst& in, std::uint64_t address, int dwords_in_range) {
  const int dwords = in.bytes / 4;
  Pending& op = w.issue(in);
  op.lgkm = true;
  op.address[0] = address & ~std::uint64_t{3};
  op.dwords_in_range[0] = static_cast<std::uint8_t>(dwords_in_range);
  op.dst = {in.ops[0].reg, static_cast<std::uint16_t>(dwords)};
  if (dwords_in_range > 0 &&
      w.grid.memory.at(op.address[0], 4 * static_cast<std::size_t>(dwords_in_range), false).data == nullptr) {
    // The tail of a widened load may lie past an allocation; its start may not.
    if (w.grid.memory.at(op.address[0], 4, false).data == nullptr) {
      w.report("out-of-bounds", in, -1,
               "scalar load of " + std::to_string(in.bytes) + " bytes at " +
                   w.grid.memory.describe(op.address[0]));
    }
  }
  w.enqueue(op);
}

void load(Wave& w, const Inst& in) {
  if (!w.scalar_defined(in.ops[1]) || !w.scalar_defined(in.ops[2])) {
    w.report("uninitialized-register", in, -1,
             "the address of a scalar load depends on a register or memory that was never written");
  }
  start(w, in, w.scalar64(in.ops[1]) + offset_of(w, in), in.bytes / 4);
}

void buffer_load(Wave& w, const Inst& in) {
  const int v = in.ops[1].reg;
  const std::uint64_t base = w.s64(v) & 0xffff'ffff'ffffU, records = w.s[v + 2],
                      stride = w.s[v + 1] >> 16 & 0x3fff;
  const std::uint64_t offset = offset_of(w, in) & ~std::uint64_t{3};
  const std::uint64_t bytes = stride == 0 ? records : records * stride;
  const std::uint64_t left = offset >= bytes ? 0 : (bytes - offset) / 4;
  start(w, in, base + offset, static_cast<int>(std::min<std::uint64_t>(left, in.bytes / 4)));
}

void complete_time(Wave& w, Pending& op) {
  w.set_s(op.dst.first, static_cast<std::uint32_t>(w.executed * 4));
  w.set_s(op.dst.first + 1, static_cast<std::uint32_t>(w.executed * 4 >> 32));
}
void time(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  op.lgkm = true;
  op.dst = {in.ops[0].reg, 2};
  w.enqueue(op);
}

}  // namespace

void add_scalar_memory_ops(OpTable& t) {
  static constexpr struct {
    const char* suffix;
    std::uint8_t bytes;
  } widths[] = {{"dword", 4}, {"dwordx2", 8}, {"dwordx4", 16}, {"dwordx8", 32}, {"dwordx16", 64}};
  for (const auto& width : widths) {
    t[std::string("s_load_") + width.suffix] = {.exec = load,
                                                .cls = Class::smem,
                                                .num = Num::b64,
                                                .bytes = width.bytes,
                                                .complete = complete_scalar_load};
    t[std::string("s_buffer_load_") + width.suffix] = {.exec = buffer_load,
                                                       .cls = Class::smem,
                                                       .num = Num::b64,
                                                       .bytes = width.bytes,
                                                       .complete = complete_scalar_load};
  }
  t["s_memtime"] =
      t["s_memrealtime"] = {.exec = time, .cls = Class::smem, .num = Num::b64, .complete = complete_time};
}

}  // namespace kiln::emulator::amdgcn
