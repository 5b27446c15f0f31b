// DS instructions: LDS reads (plain, paired, transposing), writes, atomics, and the permutes that use its
// data path.
#include <algorithm>
#include <cstring>

#include "emulator/amdgcn/memory/atomics.hpp"
#include "emulator/amdgcn/memory/lds_op.hpp"
#include "emulator/amdgcn/memory/memory_access.hpp"
#include "emulator/amdgcn/ops/ops.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// ---- completion
// --------------------------------------------------------------------------------------------------------

/// One lane's bytes at `offset`; what lies outside of the LDS reads 0.
void fetch(Wave& w, Pending& op, int lane, u64 offset, std::size_t bytes, u32* out, bool& tainted,
           bool& reported) {
  Lds& lds = w.wg.lds;
  std::memset(out, 0, (bytes + 3) / 4 * 4);
  if (!lds.contains(offset, bytes)) return;
  std::memcpy(out, lds.data() + offset, bytes);
  if (!w.grid.launch.findings) return;
  const auto state = lds.state(static_cast<u32>(offset), bytes);
  if (state == Lds::State::never_written && !reported) {
    reported = true;
    w.report("uninitialized-lds", *op.inst, lane,
             "LDS byte " + std::to_string(offset) + " is read and was never written");
  }
  tainted |= state == Lds::State::undefined;
}

void define(Wave& w, int reg, u64 written, u64 tainted) {
  w.defined[reg] = (w.defined[reg] & ~written) | (written & ~tainted);
}

void complete_read(Wave& w, Pending& op) {
  const Inst& in = *op.inst;
  const bool pair = is_lds_pair(in);
  const int reg = op.dst.first - kScalarRegisters, dwords = op.dst.count;
  u64 tainted = 0;
  bool reported = false;
  for_lanes(op.exec, [&](int lane) {
    u32 value[4];
    bool bad = false;
    fetch(w, op, lane, op.address[lane], in.bytes, value, bad, reported);
    if (pair) fetch(w, op, lane, op.lds_address[lane], in.bytes, value + in.bytes / 4, bad, reported);
    if (bad) tainted |= u64{1} << lane;
    for (int d = 0; d < dwords; ++d) {
      u32& out = w.v[static_cast<std::size_t>(reg + d)].l[lane];
      out = in.bytes < 4 ? widen_loaded(value[0], in.bytes, in.sub, out) : value[d];
    }
  });
  for (int d = 0; d < dwords; ++d) define(w, reg + d, op.exec, tainted);
}

/// Within 16 lanes, lane i receives column i of the block that the lanes' pieces make up. A piece holds
/// `per_lane` elements of `bits` bits, so 16 / per_lane lanes hold one row of 16 columns.
void complete_transposed(Wave& w, Pending& op) {
  const Inst& in = *op.inst;
  const int bits = in.sub == static_cast<std::uint8_t>(LdsOp::tr_b16)  ? 16
                   : in.sub == static_cast<std::uint8_t>(LdsOp::tr_b8) ? 8
                   : in.sub == static_cast<std::uint8_t>(LdsOp::tr_b4) ? 4
                                                                       : 6;
  const int per_lane = in.bytes * 8 / bits, lanes_per_row = 16 / per_lane;
  const int reg = op.dst.first - kScalarRegisters, dwords = op.dst.count;
  u64 tainted = 0;
  bool reported = false;
  u32 in_value[kLanes][4] = {};
  for_lanes(op.exec, [&](int lane) {
    bool bad = false;
    fetch(w, op, lane, op.address[lane], in.bytes, in_value[lane], bad, reported);
    if (bad) tainted |= u64{0xffff} << (lane & ~15);
  });
  const auto element = [&](int lane, int e) {
    u32 v = 0;
    for (int b = 0; b < bits; ++b) v |= (in_value[lane][(e * bits + b) / 32] >> (e * bits + b) % 32 & 1) << b;
    return v;
  };
  for_lanes(op.exec, [&](int lane) {
    const int group = lane & ~15, i = lane & 15;
    u32 out[4] = {};
    for (int r = 0; r < per_lane; ++r) {
      const u32 v = element(group + lanes_per_row * r + i / per_lane, i % per_lane);
      for (int b = 0; b < bits; ++b) out[(r * bits + b) / 32] |= (v >> b & 1) << (r * bits + b) % 32;
    }
    for (int d = 0; d < dwords; ++d) w.v[static_cast<std::size_t>(reg + d)].l[lane] = out[d];
  });
  for (int d = 0; d < dwords; ++d) define(w, reg + d, op.exec, tainted);
}

void complete_write(Wave& w, Pending& op) {
  const Inst& in = *op.inst;
  Lds& lds = w.wg.lds;
  const bool pair = is_lds_pair(in);
  const int dwords = std::max(1, in.bytes / 4);
  const auto put = [&](int lane, u64 offset, int first) {
    if (!lds.contains(offset, in.bytes)) return;
    u32 value[4] = {};
    bool ok = true;
    for (int d = 0; d < dwords; ++d) {
      value[d] = op.data[first + d].l[lane];
      ok &= op.defined[first + d] >> lane & 1;
    }
    if (in.sub == kHigh16) value[0] >>= 16;
    std::memcpy(lds.data() + offset, value, in.bytes);
    lds.mark(static_cast<u32>(offset), in.bytes, ok);
  };
  for_lanes(op.exec, [&](int lane) {
    put(lane, op.address[lane], 0);
    if (pair) put(lane, op.lds_address[lane], dwords);
  });
}

void complete_local_atomic(Wave& w, Pending& op) {
  const Inst& in = *op.inst;
  Lds& lds = w.wg.lds;
  const int bytes = in.bytes, reg = op.dst.first - kScalarRegisters;
  bool reported = false;
  for_lanes(op.exec, [&](int lane) {
    u64 old = 0;
    const u64 offset = op.address[lane];
    if (lds.contains(offset, static_cast<std::size_t>(bytes))) {
      u32 raw[2] = {};
      bool tainted = false;
      fetch(w, op, lane, offset, static_cast<std::size_t>(bytes), raw, tainted, reported);
      old = raw[0] | u64{raw[1]} << 32;
      const auto value = [&](int d) {
        return bytes == 4 ? op.data[d].l[lane]
                          : op.data[2 * d].l[lane] | u64{op.data[2 * d + 1].l[lane]} << 32;
      };
      const u64 next = apply(static_cast<Atomic>(in.sub), bytes, old, value(0), value(1));
      std::memcpy(lds.data() + offset, &next, static_cast<std::size_t>(bytes));
      lds.mark(static_cast<u32>(offset), static_cast<std::size_t>(bytes), true);
    }
    for (int d = 0; d < op.dst.count; ++d)
      w.v[static_cast<std::size_t>(reg + d)].l[lane] = static_cast<u32>(old >> 32 * d);
  });
  for (int d = 0; d < op.dst.count; ++d) w.defined[reg + d] |= op.exec;
}

/// Permutes: the result was formed when the instruction was issued.
void complete_permute(Wave& w, Pending& op) {
  const int reg = op.dst.first - kScalarRegisters;
  for_lanes(op.exec, [&](int lane) { w.v[static_cast<std::size_t>(reg)].l[lane] = op.data[0].l[lane]; });
  define(w, reg, op.exec, ~op.defined[0]);
}

// ---- issue
// -------------------------------------------------------------------------------------------------------------

/// Addresses from operand `at` plus the instruction's offset(s); checks bounds and counts conflicts.
void aim(Wave& w, const Inst& in, Pending& op, int at, bool write) {
  Lanes buffer;
  const View a = w.raw(in.ops[static_cast<std::size_t>(at)], 0, buffer);
  const u64 exec = op.exec;
  const bool findings = w.grid.launch.findings;
  if (findings && (a.defined & exec) != exec) {
    w.report("uninitialized-register", in, std::countr_zero(exec & ~a.defined),
             "the LDS address depends on a register or memory that was never written");
  }
  const bool pair = is_lds_pair(in);
  const u32 unit = in.bytes * (in.sub == static_cast<std::uint8_t>(LdsOp::pair64) ? 64U : 1U);
  u32 offsets[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    offsets[lane] = a.l[lane] + (pair ? in.mod.offset0 * unit : static_cast<u32>(in.mod.offset));
    op.address[lane] = offsets[lane];
    if (pair) op.lds_address[lane] = a.l[lane] + in.mod.offset1 * unit;
  }
  Tally& count = tally();
  static constexpr const char* kNames[] = {"gfx90a", "gfx942", "gfx950"};
  const char* target = kNames[static_cast<int>(w.grid.target)];
  ++count.lds_accesses;
  count.lds_conflicts +=
      static_cast<u64>(lds_conflicts(target, offsets, in.bytes, write, is_transposed(in), exec));
  if (pair) {
    ++count.lds_accesses;
    count.lds_conflicts +=
        static_cast<u64>(lds_conflicts(target, op.lds_address, in.bytes, write, false, exec));
  }
  op.lgkm = op.lds_lanes = true;
  op.lds_write = write;
  if (!findings) return;
  bool out = false, misaligned = false;
  const u32 align = is_transposed(in)             ? (in.bytes == 12 ? 4 : 8)
                    : in.cls == Class::lds_atomic ? in.bytes
                                                  : 1U;
  for_lanes(exec, [&](int lane) {
    for (int p = 0; p < (pair ? 2 : 1); ++p) {
      const u64 offset = p == 0 ? op.address[lane] : op.lds_address[lane];
      if (!out && !w.wg.lds.contains(offset, in.bytes)) {
        out = true;
        w.report("out-of-bounds", in, lane,
                 "LDS is accessed at offset " + std::to_string(offset) + ", beyond its " +
                     std::to_string(w.wg.lds.size()) + " bytes");
      }
      if (!misaligned && offset % align != 0) {
        misaligned = true;
        w.report("misaligned", in, lane,
                 "LDS offset " + std::to_string(offset) + " is not a multiple of " + std::to_string(align));
      }
    }
  });
}

void set_destination(const Inst& in, Pending& op, int dwords) {
  op.dst = {static_cast<std::uint16_t>(in.ops[0].reg + kScalarRegisters), static_cast<std::uint16_t>(dwords)};
}

void read(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  aim(w, in, op, 1, false);
  if (is_transposed(in) && op.exec != ~u64{0}) {
    w.report("partial-exec", in, -1, "a transposing LDS read needs all 64 lanes active");
  }
  set_destination(in, op, std::max(1, in.bytes / 4) * (is_lds_pair(in) ? 2 : 1));
  stamp_lds(w, op);
  w.enqueue(op);
}
void write(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  const int dwords = std::max(1, in.bytes / 4);
  capture(w, op, 1, dwords);
  if (is_lds_pair(in)) capture(w, op, 2, dwords, dwords);
  aim(w, in, op, 0, true);
  stamp_lds(w, op);
  w.enqueue(op);
}
template <bool Returns>
void atomic(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  const int first = Returns ? 1 : 0, dwords = in.bytes / 4;
  capture(w, op, first + 1, dwords);
  if (in.operands > first + 2) capture(w, op, first + 2, dwords, dwords);
  aim(w, in, op, first, true);
  if (Returns) set_destination(in, op, dwords);
  stamp_lds(w, op);
  w.enqueue(op);
}

void start_permute(Wave& w, const Inst& in, Pending& op) {
  op.lgkm = true;
  set_destination(in, op, 1);
  w.enqueue(op);
}
void bpermute(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  Lanes ba, bd;
  const View a = w.raw(in.ops[1], 0, ba), d = w.raw(in.ops[2], 0, bd);
  op.defined[0] = a.defined;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 from = (a.l[lane] + static_cast<u32>(in.mod.offset)) / 4 & 63;
    const bool active = op.exec >> from & 1;
    op.data[0].l[lane] = active ? d.l[from] : 0;
    if (active && !(d.defined >> from & 1)) op.defined[0] &= ~(u64{1} << lane);
  }
  start_permute(w, in, op);
}
void permute(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  Lanes ba, bd;
  const View a = w.raw(in.ops[1], 0, ba), d = w.raw(in.ops[2], 0, bd);
  std::memset(op.data[0].l, 0, sizeof op.data[0].l);
  op.defined[0] = ~u64{0};
  for_lanes(op.exec, [&](int lane) {
    const u32 to = (a.l[lane] + static_cast<u32>(in.mod.offset)) / 4 & 63;
    op.data[0].l[to] = d.l[lane];
    const bool ok = (a.defined & d.defined) >> lane & 1;
    op.defined[0] = (op.defined[0] & ~(u64{1} << to)) | u64{ok} << to;
  });
  start_permute(w, in, op);
}
void swizzle(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  Lanes bd;
  const View d = w.raw(in.ops[1], 0, bd);
  const int o = in.mod.offset;
  op.defined[0] = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    int from;
    if (o & 0x8000)
      from = (lane & ~3) | (o >> 2 * (lane & 3) & 3);
    else
      from = (lane & 32) | (((lane & o) | (o >> 5)) ^ (o >> 10)) % 32;
    const bool active = op.exec >> from & 1;
    op.data[0].l[lane] = active ? d.l[from] : 0;
    if (!active || (d.defined >> from & 1)) op.defined[0] |= u64{1} << lane;
  }
  start_permute(w, in, op);
}

}  // namespace

void add_lds_ops(OpTable& t) {
  const auto add_read = [&](const std::string& name, std::uint8_t bytes, std::uint8_t sub = kPlain,
                            Complete complete = complete_read) {
    t["ds_read_" + name] = {.exec = read,
                            .cls = Class::lds_read,
                            .reads_dst = sub < 0x80 && (sub & (kLow16 | kHigh16)) != 0,
                            .bytes = bytes,
                            .complete = complete,
                            .sub = sub};
  };
  const auto add_write = [&](const std::string& name, std::uint8_t bytes, std::uint8_t sub = kPlain) {
    t["ds_write_" + name] = {.exec = write,
                             .cls = Class::lds_write,
                             .dsts = 0,
                             .bytes = bytes,
                             .complete = complete_write,
                             .sub = sub};
  };
  add_read("u8", 1);
  add_read("i8", 1, kSigned);
  add_read("u16", 2);
  add_read("i16", 2, kSigned);
  add_read("u8_d16", 1, kLow16);
  add_read("u8_d16_hi", 1, kHigh16);
  add_read("i8_d16", 1, kSigned | kLow16);
  add_read("i8_d16_hi", 1, kSigned | kHigh16);
  add_read("u16_d16", 2, kLow16);
  add_read("u16_d16_hi", 2, kHigh16);
  for (const auto& [name, bytes] : {std::pair{"b32", 4}, {"b64", 8}, {"b96", 12}, {"b128", 16}}) {
    add_read(name, static_cast<std::uint8_t>(bytes));
    add_write(name, static_cast<std::uint8_t>(bytes));
  }
  add_write("b8", 1);
  add_write("b16", 2);
  add_write("b8_d16_hi", 1, kHigh16);
  add_write("b16_d16_hi", 2, kHigh16);
  const auto sub = [](LdsOp op) { return static_cast<std::uint8_t>(op); };
  add_read("b64_tr_b16", 8, sub(LdsOp::tr_b16), complete_transposed);
  add_read("b64_tr_b8", 8, sub(LdsOp::tr_b8), complete_transposed);
  add_read("b64_tr_b4", 8, sub(LdsOp::tr_b4), complete_transposed);
  add_read("b96_tr_b6", 12, sub(LdsOp::tr_b6), complete_transposed);
  for (const auto& [suffix, bytes] : {std::pair{"_b32", 4}, {"_b64", 8}}) {
    for (const auto& [kind, op] : {std::pair{"2", LdsOp::pair}, {"2st64", LdsOp::pair64}}) {
      const auto b = static_cast<std::uint8_t>(bytes);
      t[std::string("ds_read") + kind + suffix] = {
          .exec = read, .cls = Class::lds_read, .bytes = b, .complete = complete_read, .sub = sub(op)};
      t[std::string("ds_write") + kind + suffix] = {.exec = write,
                                                    .cls = Class::lds_write,
                                                    .dsts = 0,
                                                    .bytes = b,
                                                    .complete = complete_write,
                                                    .sub = sub(op)};
    }
  }
  const auto add_atomic = [&](const std::string& name, const std::string& type, Atomic op) {
    const auto bytes = static_cast<std::uint8_t>(type.ends_with("64") ? 8 : 4);
    t["ds_" + name + "_" + type] = {.exec = atomic<false>,
                                    .cls = Class::lds_atomic,
                                    .dsts = 0,
                                    .bytes = bytes,
                                    .complete = complete_local_atomic,
                                    .sub = static_cast<std::uint8_t>(op)};
    t["ds_" + name + "_rtn_" + type] = {.exec = atomic<true>,
                                        .cls = Class::lds_atomic,
                                        .bytes = bytes,
                                        .complete = complete_local_atomic,
                                        .sub = static_cast<std::uint8_t>(op)};
  };
  for (const std::string bits : {"32", "64"}) {
    for (const auto& [name, op] : {std::pair{"add", Atomic::add},
                                   {"sub", Atomic::sub},
                                   {"rsub", Atomic::rsub},
                                   {"inc", Atomic::inc},
                                   {"dec", Atomic::dec},
                                   {"min", Atomic::umin},
                                   {"max", Atomic::umax}}) {
      add_atomic(name, "u" + bits, op);
    }
    add_atomic("min", "i" + bits, Atomic::smin);
    add_atomic("max", "i" + bits, Atomic::smax);
    for (const auto& [name, op] : {std::pair{"and", Atomic::and_},
                                   {"or", Atomic::or_},
                                   {"xor", Atomic::xor_},
                                   {"cmpst", Atomic::cmpswap},
                                   {"mskor", Atomic::mskor},
                                   {"wrxchg", Atomic::swap}}) {
      add_atomic(name, "b" + bits, op);
    }
    for (const auto& [name, op] : {std::pair{"add", Atomic::fadd},
                                   {"min", Atomic::fmin},
                                   {"max", Atomic::fmax},
                                   {"cmpst", Atomic::fcmpswap}}) {
      add_atomic(name, "f" + bits, op);
    }
  }
  add_atomic("wrap", "b32", Atomic::wrap);
  add_atomic("pk_add", "f16", Atomic::pk_add_f16);
  add_atomic("pk_add", "bf16", Atomic::pk_add_bf16);
  t["ds_bpermute_b32"] = {.exec = bpermute, .cls = Class::lds_permute, .complete = complete_permute};
  t["ds_permute_b32"] = {.exec = permute, .cls = Class::lds_permute, .complete = complete_permute};
  t["ds_swizzle_b32"] = {.exec = swizzle, .cls = Class::lds_permute, .complete = complete_permute};
  t["ds_nop"] = {.exec = [](Wave&, const Inst&) {}, .cls = Class::message, .dsts = 0};
}

}  // namespace kiln::emulator::amdgcn
