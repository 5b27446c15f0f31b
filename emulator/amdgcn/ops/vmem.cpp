// Vector memory: flat, global, scratch and buffer loads, stores and atomics, and loads whose destination is
// LDS.
#include <algorithm>
#include <cstring>

#include "emulator/amdgcn/memory/atomics.hpp"
#include "emulator/amdgcn/memory/memory_access.hpp"
#include "emulator/amdgcn/memory/vmem_address.hpp"
#include "emulator/amdgcn/ops/ops.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// ---- completion
// --------------------------------------------------------------------------------------------------------

/// Host bytes of one lane's location; null where there is none (reported when the instruction was issued).
std::byte* locate(Wave& w, Pending& op, int lane, u64 address, std::size_t bytes, bool write) {
  if (in_shared(address)) {
    const u64 offset = address & 0xffffffffU;
    if (!w.wg.lds.contains(offset, bytes)) return nullptr;
    if (write) w.wg.lds.mark(static_cast<u32>(offset), bytes, true);
    if (!write && w.grid.launch.findings &&
        w.wg.lds.state(static_cast<u32>(offset), bytes) == Lds::State::never_written) {
      w.report("uninitialized-lds", *op.inst, lane,
               "LDS byte " + std::to_string(offset) + " is read and was never written");
    }
    return w.wg.lds.data() + offset;
  }
  if (in_private(address)) return scratch_at(w, lane, static_cast<u32>(address));
  const auto ref = w.grid.memory.at(address, bytes, write);
  if (write) w.grid.memory.mark_written(ref, bytes);
  return reinterpret_cast<std::byte*>(ref.data);
}

/// One lane's `bytes` from memory, as dwords; what lies outside reads 0.
void fetch(Wave& w, Pending& op, int lane, u32 (&out)[4]) {
  const int bytes = op.inst->bytes;
  std::memset(out, 0, sizeof out);
  if (op.zero >> lane & 1) return;
  const u64 address = op.address[lane];
  const int in_range = std::min<int>(bytes, op.dwords_in_range[lane] * 4);
  if (in_private(address)) {  // dwords of a lane are 256 bytes apart
    for (int i = 0; i < in_range; ++i) {
      if (const std::byte* at = scratch_at(w, lane, static_cast<u32>(address) + static_cast<u32>(i))) {
        std::memcpy(reinterpret_cast<char*>(out) + i, at, 1);
      }
    }
    return;
  }
  if (const std::byte* at = locate(w, op, lane, address, static_cast<std::size_t>(in_range), false)) {
    std::memcpy(out, at, static_cast<std::size_t>(in_range));
  }
}

void complete_vector_load(Wave& w, Pending& op) {
  const Inst& in = *op.inst;
  const int dwords = op.dst.count, reg = op.dst.first - kScalarRegisters;
  for_lanes(op.exec, [&](int lane) {
    u32 value[4];
    fetch(w, op, lane, value);
    for (int d = 0; d < dwords; ++d) {
      u32& out = w.v[static_cast<std::size_t>(reg + d)].l[lane];
      out = in.bytes < 4 ? widen_loaded(value[0], in.bytes, in.sub, out) : value[d];
    }
  });
  for (int d = 0; d < dwords; ++d) w.defined[reg + d] |= op.exec;
}

/// What a DMA brings one lane.
void fetch_dma(Wave& w, Pending& op, int lane, u32 (&value)[4]) {
  const Inst& in = *op.inst;
  fetch(w, op, lane, value);
  if (in.bytes < 4) value[0] = widen_loaded(value[0], in.bytes, in.sub, 0);
}

void complete_dma(Wave& w, Pending& op) {
  Lds& lds = w.wg.lds;
  const std::size_t bytes = std::max<std::size_t>(4, op.inst->bytes);
  for_lanes(op.exec, [&](int lane) {
    if (!lds.contains(op.lds_address[lane], bytes)) return;
    u32 value[4];
    fetch_dma(w, op, lane, value);
    std::memcpy(lds.data() + op.lds_address[lane], value, bytes);
    lds.mark(op.lds_address[lane], bytes, true);
  });
}

void complete_store(Wave& w, Pending& op) {
  const int bytes = op.inst->bytes;
  for_lanes(op.exec & ~op.zero, [&](int lane) {
    u32 value[4];
    for (int d = 0; d < 4; ++d) value[d] = op.data[d].l[lane];
    if (op.inst->sub & kHigh16) value[0] >>= 16;
    const u64 address = op.address[lane];
    const int in_range = std::min<int>(bytes, op.dwords_in_range[lane] * 4);
    if (in_private(address)) {
      for (int i = 0; i < in_range; ++i) {
        if (std::byte* at = scratch_at(w, lane, static_cast<u32>(address) + static_cast<u32>(i))) {
          std::memcpy(at, reinterpret_cast<char*>(value) + i, 1);
        }
      }
    } else if (std::byte* at = locate(w, op, lane, address, static_cast<std::size_t>(in_range), true)) {
      std::memcpy(at, value, static_cast<std::size_t>(in_range));
    }
  });
}

void complete_vector_atomic(Wave& w, Pending& op) {
  const Inst& in = *op.inst;
  const auto kind = static_cast<Atomic>(in.sub);
  const int bytes = in.bytes, reg = op.dst.first - kScalarRegisters;
  const bool compares = kind == Atomic::cmpswap || kind == Atomic::fcmpswap;
  for_lanes(op.exec, [&](int lane) {
    u64 old = 0;
    if (!(op.zero >> lane & 1) && op.dwords_in_range[lane] * 4 >= bytes) {
      const u64 address = op.address[lane];
      const std::scoped_lock lock(w.grid.memory.lock_of(address));
      if (std::byte* at = locate(w, op, lane, address, static_cast<std::size_t>(bytes), true)) {
        std::memcpy(&old, at, static_cast<std::size_t>(bytes));
        const auto value = [&](int d) {
          return bytes == 4 ? op.data[d].l[lane]
                            : op.data[2 * d].l[lane] | u64{op.data[2 * d + 1].l[lane]} << 32;
        };
        // Registers hold (new value, compare value).
        const u64 next =
            compares ? apply(kind, bytes, old, value(1), value(0)) : apply(kind, bytes, old, value(0), 0);
        std::memcpy(at, &next, static_cast<std::size_t>(bytes));
        if (w.grid.launch.findings) w.grid.races.exchange(w, address);
      }
    }
    for (int d = 0; d < op.dst.count; ++d) {
      w.v[static_cast<std::size_t>(reg + d)].l[lane] = static_cast<u32>(old >> 32 * d);
    }
  });
  for (int d = 0; d < op.dst.count; ++d) w.defined[reg + d] |= op.exec;
}

template <Space S>
void load(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  const bool dma = in.mod.to_lds || in.cls == Class::dma;
  const int at = dma ? 0 : 1;
  if constexpr (S == Space::buffer)
    buffer_addresses(w, in, op, at);
  else
    flat_addresses(w, in, op, S, at, S == Space::flat ? -1 : at + 1);
  check_access(w, in, op, false);
  if (dma) {
    op.vm = true;
    op.lgkm = false;
    aim_at_lds(w, in, op);
    for_lanes(w.grid.launch.findings ? op.exec : 0, [&](int lane) {  // equal values may meet
      u32 value[4];
      fetch_dma(w, op, lane, value);
      for (int d = 0; d < 4; ++d) op.data[d].l[lane] = value[d];
    });
  } else {
    op.dst = {static_cast<std::uint16_t>(in.ops[0].reg + kScalarRegisters),
              static_cast<std::uint16_t>(std::max(1, in.bytes / 4))};
  }
  stamp_lds(w, op);
  w.enqueue(op);
}

template <Space S>
void store(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  const int data = S == Space::buffer ? 0 : 1;
  if constexpr (S == Space::buffer)
    buffer_addresses(w, in, op, 1);
  else
    flat_addresses(w, in, op, S, 0, S == Space::flat ? -1 : 2);
  const int dwords = std::max(1, in.bytes / 4);
  capture(w, op, data, dwords);
  check_access(w, in, op, true);
  op.lds_write = op.lds_lanes;
  u64 defined = ~u64{0};
  for (int d = 0; d < dwords; ++d) defined &= op.defined[d];
  u64 memory_lanes = op.exec & ~op.zero;
  for_lanes(memory_lanes, [&](int lane) {
    if (in_private(op.address[lane]))
      memory_lanes &= ~(u64{1} << lane);  // spills of undefined registers are common
  });
  if ((defined & memory_lanes) != memory_lanes && w.grid.launch.findings) {
    w.report("uninitialized-register", in, std::countr_zero(memory_lanes & ~defined),
             "the stored value depends on a register or memory that was never written");
  }
  stamp_lds(w, op);
  w.enqueue(op);
}

template <Space S>
void atomic(Wave& w, const Inst& in) {
  Pending& op = w.issue(in);
  const auto kind = static_cast<Atomic>(in.sub);
  const int dwords = in.bytes / 4 * (kind == Atomic::cmpswap || kind == Atomic::fcmpswap ? 2 : 1);
  const int first = S != Space::buffer && in.mod.returns ? 1 : 0;
  if constexpr (S == Space::buffer) {
    buffer_addresses(w, in, op, 1);
    capture(w, op, 0, dwords);
  } else {
    flat_addresses(w, in, op, S, first, S == Space::flat ? -1 : first + 2);
    capture(w, op, first + 1, dwords);
  }
  check_access(w, in, op, true);
  op.lds_write = op.lds_lanes;
  if (in.mod.returns) {
    op.dst = {static_cast<std::uint16_t>(in.ops[0].reg + kScalarRegisters),
              static_cast<std::uint16_t>(in.bytes / 4)};
  }
  stamp_lds(w, op);
  w.enqueue(op);
}

struct Width {
  const char* suffix;
  std::uint8_t bytes, narrow;
};
constexpr Width kLoads[] = {
    {"ubyte", 1, kPlain},
    {"sbyte", 1, kSigned},
    {"ushort", 2, kPlain},
    {"sshort", 2, kSigned},
    {"dword", 4, kPlain},
    {"dwordx2", 8, kPlain},
    {"dwordx3", 12, kPlain},
    {"dwordx4", 16, kPlain},
    {"ubyte_d16", 1, kLow16},
    {"ubyte_d16_hi", 1, kHigh16},
    {"sbyte_d16", 1, kSigned | kLow16},
    {"sbyte_d16_hi", 1, kSigned | kHigh16},
    {"short_d16", 2, kLow16},
    {"short_d16_hi", 2, kHigh16},
};
constexpr Width kStores[] = {
    {"byte", 1, kPlain},         {"short", 2, kPlain},         {"dword", 4, kPlain},
    {"dwordx2", 8, kPlain},      {"dwordx3", 12, kPlain},      {"dwordx4", 16, kPlain},
    {"byte_d16_hi", 1, kHigh16}, {"short_d16_hi", 2, kHigh16},
};
constexpr struct {
  const char* name;
  Atomic op;
} kAtomics[] = {{"swap", Atomic::swap}, {"cmpswap", Atomic::cmpswap}, {"add", Atomic::add},
                {"sub", Atomic::sub},   {"smin", Atomic::smin},       {"umin", Atomic::umin},
                {"smax", Atomic::smax}, {"umax", Atomic::umax},       {"and", Atomic::and_},
                {"or", Atomic::or_},    {"xor", Atomic::xor_},        {"inc", Atomic::inc},
                {"dec", Atomic::dec}};

template <Space S>
void add_space(OpTable& t, const std::string& prefix) {
  for (const Width& l : kLoads) {
    t[prefix + "load_" + l.suffix] = {.exec = load<S>,
                                      .cls = Class::vmem_load,
                                      .reads_dst = (l.narrow & (kLow16 | kHigh16)) != 0,
                                      .bytes = l.bytes,
                                      .complete = complete_vector_load,
                                      .sub = l.narrow};
    if (S == Space::global) {
      t[prefix + "load_lds_" + l.suffix] = {.exec = load<S>,
                                            .cls = Class::dma,
                                            .dsts = 0,
                                            .bytes = l.bytes,
                                            .complete = complete_dma,
                                            .sub = l.narrow};
    }
  }
  for (const Width& s : kStores) {
    t[prefix + "store_" + s.suffix] = {.exec = store<S>,
                                       .cls = Class::vmem_store,
                                       .dsts = 0,
                                       .bytes = s.bytes,
                                       .complete = complete_store,
                                       .sub = s.narrow};
  }
  if (S == Space::scratch) return;
  const auto add_atomic = [&](const std::string& name, std::uint8_t bytes, Atomic op) {
    t[prefix + "atomic_" + name] = {.exec = atomic<S>,
                                    .cls = Class::vmem_atomic,
                                    .bytes = bytes,
                                    .complete = complete_vector_atomic,
                                    .sub = static_cast<std::uint8_t>(op)};
  };
  for (const auto& a : kAtomics) {
    add_atomic(a.name, 4, a.op);
    add_atomic(std::string(a.name) + "_x2", 8, a.op);
  }
  add_atomic("add_f32", 4, Atomic::fadd);
  add_atomic("add_f64", 8, Atomic::fadd);
  add_atomic("min_f64", 8, Atomic::fmin);
  add_atomic("max_f64", 8, Atomic::fmax);
  add_atomic("pk_add_f16", 4, Atomic::pk_add_f16);
  add_atomic("pk_add_bf16", 4, Atomic::pk_add_bf16);
}

/// `buffer_load ... lds` shares its mnemonic with the load to registers: the flag decides at completion.
void complete_buffer_load(Wave& w, Pending& op) {
  if (op.inst->mod.to_lds)
    complete_dma(w, op);
  else
    complete_vector_load(w, op);
}

}  // namespace

void add_vector_memory_ops(OpTable& t) {
  add_space<Space::flat>(t, "flat_");
  add_space<Space::global>(t, "global_");
  add_space<Space::scratch>(t, "scratch_");
  add_space<Space::buffer>(t, "buffer_");
  for (const Width& l : kLoads) {
    t[std::string("buffer_load_") + l.suffix].complete = complete_buffer_load;
    t[std::string("global_load_") + l.suffix].complete =
        complete_buffer_load;  // gfx90a: global_load_dword ... lds
  }
}

}  // namespace kiln::emulator::amdgcn
