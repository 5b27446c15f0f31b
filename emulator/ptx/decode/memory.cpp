// Loads, stores, address conversion.
#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <span>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/memory.hpp"
#include "emulator/ptx/decode/warp_access.hpp"

namespace kiln::emulator::ptx {

using u64 = std::uint64_t;

std::uint64_t lane_address(const Warp& w, const Op& op, int lane) {
  std::uint64_t a = w.value(op.a, op.asize, lane) + static_cast<std::uint64_t>(op.imm);
  if ((op.flags & 2) != 0) a += w.frame->local;
  return a;
}

namespace {

Order order_of(const Op& op) {
  return static_cast<Order>(op.flags >> 9 & 3);
}

}  // namespace

std::size_t element_count(const Decoder& d) {
  if (d.has("v8")) return 8;
  if (d.has("v4")) return 4;
  return d.has("v2") || d.last_type() == Type::b128 ? 2 : 1;
}

std::uint16_t order_flags(Decoder& d) {
  const Order o = d.has("acq_rel")   ? Order::acq_rel
                  : d.has("acquire") ? Order::acquire
                  : d.has("release") ? Order::release
                                     : Order::relaxed;
  const unsigned scope = d.has("cta") ? kCtaScope : d.has("cluster") ? kClusterScope : 0;
  d.program.uses_narrow_scopes |= scope != 0;
  return static_cast<std::uint16_t>(static_cast<unsigned>(o) << 9 | scope);
}
void publish_global(Warp& w, const Op& op, int lane, std::uint64_t address, bool continues,
                    const std::uint8_t* old, std::uint32_t bytes) {
  Cluster& c = *w.block->cluster;
  c.races->strong_write(w, address, lane, order_of(op));
  c.launch->globals->publish(w, op, lane, address, order_of(op), continues, {old, bytes});
}
void observe_global(Warp& w, const Op& op, std::uint32_t lanes, std::uint64_t address) {
  Cluster& c = *w.block->cluster;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1)
    c.races->strong_read(w, address, std::countr_zero(m), order_of(op));
  c.launch->globals->observe(w, op, lanes, address, order_of(op));
}
void strong_shared(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset, std::uint32_t bytes,
                   bool reads, bool writes) {
  RaceTracker& r = *w.block->cluster->races;
  const u64 address = u64{block.rank} << 32 | offset;
  r.access({w, op, lane, block, offset, bytes, writes, static_cast<std::uint32_t>(Unit::strong)});
  if (reads) r.strong_read(w, address, lane, order_of(op));
  if (writes) r.strong_write(w, address, lane, order_of(op));
}

namespace {

/// A register on its way between functions: the memory that it travels in is nobody's.
constexpr std::uint16_t kFrameValue = 0x10;

/// Finds the memory of all lanes; lanes without any lose their bit in the returned mask.
/// What is needed of the shadow of `unwritten` lanes is in `shadow`.
struct Unwritten {
  std::uint32_t lanes = 0;
  std::uint32_t strong = 0;  ///< lanes of a strong access of global memory
  std::uint8_t* shadow[32];
};
std::uint32_t places(Warp& w, const Op& op, std::uint32_t bytes, Access access, std::uint8_t** data,
                     Unwritten& unwritten) {
  const auto space = static_cast<Space>(op.c);
  ++w.lanes.issue;
  const bool findings = w.block->cluster->findings;
  std::uint32_t strong = 0;
  u64 address[32] = {};
  lane_addresses(w, op, address);
  if (plain_places(w, op, bytes, access == Access::write, address, data, unwritten.shadow)) [[likely]] {
    unwritten.strong = 0;
    return w.exec;
  }
  std::uint32_t ok = 0, shared = 0, global = 0;
  int last = -1;  // lane
  const auto silent = [&](int l, const Place& p) {
    if (access != Access::write) return false;
    const bool again = last >= 0 && address[last] == address[l] && stores_alike(w, op, last, l);
    last = l;
    return again || stores_the_same(w, op, l, p.data);
  };
  each_lane(w, [&](int l) {
    const Place p = locate(w, op, space, address[l], bytes, l, access);
    data[l] = p.data;
    if (p.data == nullptr) return;
    ok |= 1u << l;
    unwritten.shadow[l] = p.shadow;
    if (p.unwritten) unwritten.lanes |= 1u << l;
    if (p.space == Space::shared) {
      shared |= 1u << l;
      if (RaceTracker* r = w.block->cluster->races.get()) {
        if ((op.flags & 0x100) != 0)
          strong_shared(w, op, l, *p.block, p.offset, bytes, access == Access::read, access == Access::write);
        else
          r->access({w, op, l, *p.block, p.offset, bytes, access == Access::write, 0, 0, silent(l, p)});
      }
    } else if (p.space == Space::global && findings) {
      if ((op.flags & 0x100) != 0) {
        strong |= 1u << l;
        w.block->cluster->launch->globals->strong_access(w, op, l, address[l], bytes,
                                                         access == Access::write);
        w.global_words.access(w, op, l, address[l], bytes, {access == Access::write, true, false});
      } else
        w.block->cluster->launch->globals->access(w, op, l, address[l], bytes, access == Access::write, 0, 0,
                                                  silent(l, p));
    }
    if (p.space == Space::global) global |= 1u << l;
  });
  if (strong != 0 && access == Access::write)
    for (std::uint32_t m = strong; m != 0; m &= m - 1) {
      const int l = std::countr_zero(m);
      publish_global(w, op, l, address[l], false, data[l], bytes);
    }
  unwritten.strong = strong;
  Cluster& c = *w.block->cluster;
  if (c.findings) {
    if (shared != 0) count_shared(c, address, shared, bytes);
    if (global != 0) count_global(c, address, global, bytes, access != Access::read);
  }
  return ok;
}

template <class T>
void load_rows(Warp& w, const Op& op, std::uint8_t* const* data, std::uint32_t ok) {
  const Program& p = *w.block->cluster->program;
  for (std::uint32_t i = 0; i < op.count; ++i) {
    const Ref r = p.lists[op.target + i];
    if (sizeof(T) == op.dsize && (ok & w.exec) == 0xffffffffu) {
      T* const row = w.out<T>(r);
      for (int l = 0; l < 32; ++l) std::memcpy(row + l, data[l] + i * sizeof(T), sizeof(T));
      continue;
    }
    for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
      const int l = std::countr_zero(m);
      T v{};
      if (ok >> l & 1) std::memcpy(&v, data[l] + i * sizeof(T), sizeof(T));
      if (sizeof(T) == op.dsize) {
        w.out<T>(r)[l] = v;
      } else {
        w.set(r, op.dsize, l,
              (op.flags & 4) != 0 ? static_cast<u64>(sign_extend(v, sizeof(T))) : static_cast<u64>(v));
      }
    }
  }
}
/// Registers that got bytes nobody wrote are unknown from here on.
void note_unwritten(Warp& w, const Op& op, const Unwritten& unwritten) {
  const Program& p = *w.block->cluster->program;
  for (std::uint32_t i = 0; i < op.count; ++i) {
    std::uint32_t lanes = 0;
    for (std::uint32_t m = unwritten.lanes; m != 0; m &= m - 1) {
      const int l = std::countr_zero(m);
      const std::uint8_t* s = unwritten.shadow[l] + std::size_t{i} * op.width;
      if (!std::all_of(s, s + op.width, [](std::uint8_t v) { return (v & kWrittenBit) != 0; }))
        lanes |= 1u << l;
    }
    const std::uint32_t origin = (op.flags & kFrameValue) != 0 ? 0 : origin_of(w, op);
    if (lanes != 0) mark_unknown(w, origin, p.lists[op.target + i], lanes);
  }
}
/// Lanes of a strong load that read what a store of another block has not changed yet.
void keep_back(Warp& w, const Op& op, std::uint32_t bytes, std::uint8_t** data, std::uint8_t (*before)[16],
               std::uint32_t& strong) {
  GlobalRaces& globals = *w.block->cluster->launch->globals;
  u64 last = 0;
  std::uint8_t* kept = nullptr;
  for (std::uint32_t m = strong; m != 0 && bytes <= sizeof *before; m &= m - 1) {
    const int l = std::countr_zero(m);
    const u64 address = lane_address(w, op, l);
    // Lanes that load one word together get one value.
    if (address != last) {
      const std::uint8_t* const old = globals.not_visible_yet(w, op, l, address, bytes);
      kept = old == nullptr ? nullptr : before[l];
      if (kept != nullptr) std::memcpy(kept, old, bytes);
    }
    last = address;
    if (kept == nullptr) continue;
    data[l] = kept;
    strong &= ~(1u << l);
  }
}
/// Lanes that read one word together learn together.
void observe_lanes(Warp& w, const Op& op, std::uint32_t lanes) {
  while (lanes != 0) {
    const u64 address = lane_address(w, op, std::countr_zero(lanes));
    std::uint32_t same = 0;
    for (std::uint32_t m = lanes; m != 0; m &= m - 1)
      if (lane_address(w, op, std::countr_zero(m)) == address) same |= m & (0 - m);
    observe_global(w, op, same, address);
    lanes &= ~same;
  }
}
void run_load(Warp& w, const Op& op) {
  std::uint8_t* data[32];
  Unwritten unwritten;
  const std::uint32_t bytes = std::uint32_t{op.width} * op.count;
  const std::uint32_t ok = places(w, op, bytes, Access::read, data, unwritten);
  std::uint8_t before[32][16];
  if (unwritten.strong != 0) keep_back(w, op, bytes, data, before, unwritten.strong);
  switch (op.width) {
    case 1:
      load_rows<std::uint8_t>(w, op, data, ok);
      break;
    case 2:
      load_rows<std::uint16_t>(w, op, data, ok);
      break;
    case 4:
      load_rows<std::uint32_t>(w, op, data, ok);
      break;
    default:
      load_rows<std::uint64_t>(w, op, data, ok);
      break;
  }
  if (unwritten.strong != 0) observe_lanes(w, op, unwritten.strong);
  if (unwritten.lanes != 0) [[unlikely]]
    note_unwritten(w, op, unwritten);
}
template <class T>
void store_row(const Warp& w, Ref r, std::uint32_t offset, std::uint8_t* const* data, std::uint32_t lanes) {
  const T* const row = w.in<T>(r);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    std::memcpy(data[l] + offset, row + l, sizeof(T));
  }
}
/// One register of each lane to memory.
void store_register(const Warp& w, const Op& op, std::uint32_t i, std::uint8_t* const* data,
                    std::uint32_t lanes) {
  const Ref r = w.block->cluster->program->lists[op.target + i];
  const std::uint32_t offset = i * op.width;
  if (op.width == op.dsize && op.width == 4) return store_row<std::uint32_t>(w, r, offset, data, lanes);
  if (op.width == op.dsize && op.width == 8) return store_row<u64>(w, r, offset, data, lanes);
  if (op.width == op.dsize && op.width == 2) return store_row<std::uint16_t>(w, r, offset, data, lanes);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const u64 v = w.value(r, op.dsize, l);
    std::memcpy(data[l] + offset, &v, op.width);
  }
}
void run_store(Warp& w, const Op& op) {
  std::uint8_t* data[32];
  Unwritten to;
  const std::uint32_t ok = places(w, op, std::uint32_t{op.width} * op.count, Access::write, data, to);
  const Program& p = *w.block->cluster->program;
  const bool findings = w.block->cluster->findings;
  for (std::uint32_t i = 0; i < op.count; ++i) {
    const Ref r = p.lists[op.target + i];
    store_register(w, op, i, data, ok);
    if (!findings) continue;
    for (std::uint32_t m = unknown_lanes(w, r, ok); m != 0; m &= m - 1) {
      const int l = std::countr_zero(m);
      // Memory of the block remembers; what leaves for global memory is an output.
      if (op.use == Use::store && static_cast<Space>(op.c) != Space::global)
        std::memset(to.shadow[l] + std::size_t{i} * op.width, kAllocated, op.width);
      else
        report_unknown(w, op, r, 1u << l);
    }
  }
  ++w.block->cluster->progress;
}

/// What a strong access of global memory notes and the value that it reads or leaves are one step, as those of an atomic
/// are: host threads note in the order of the values.
template <void (*Run)(Warp&, const Op&)>
void run_strong(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  std::unique_lock lock(c.launch->atomics, std::defer_lock);
  if (c.races && static_cast<Space>(op.c) != Space::shared) lock.lock();
  Run(w, op);
}
auto* access_of(bool load, bool strong) {
  if (strong) return load ? run_strong<run_load> : run_strong<run_store>;
  return load ? run_load : run_store;
}

Kind kind_of(Space s, bool load) {
  switch (s) {
    case Space::shared:
      return load ? Kind::load_shared : Kind::store_shared;
    case Space::local:
      return Kind::local;
    case Space::param:
      return Kind::parameter;
    default:
      return load ? Kind::load_global : Kind::store_global;
  }
}

/// What a load or store moves.
struct Moved {
  bool load;
  Type type;
  int width;          ///< of an element in memory; 128 bits are two
  std::size_t count;  ///< elements
  int row = 0;        ///< of a lane's element in its register
  std::vector<Ref> refs;
  std::vector<bool> sinks;  ///< by element: nobody wants it
};

/// The registers of an access.
Moved moved_by(Decoder& d, bool load) {
  Moved m{load, d.last_type(), 0, 1, 0, {}, {}};
  const bool wide = m.type == Type::b128;  // like a pair of 64 bits
  m.width = wide ? 8 : size_of(m.type);
  m.count = element_count(d);
  const Operand& value = d.operand(load ? 0 : 1);
  const bool vector = value.kind == Operand::Kind::vector || (m.count != 1 && !wide);
  const std::span<const Operand> items = wide     ? std::span<const Operand>{}
                                         : vector ? std::span(value.items)
                                                  : std::span(&value, 1);
  if (wide && d.types().size() == 1) m.refs = {d.halves(value)[0], d.halves(value)[1]};
  if (items.size() + m.refs.size() != m.count) d.fail("vector of the wrong length in");
  m.sinks.assign(m.count, false);
  for (const Operand& o : items) {
    const int size = d.size_of_register(o, m.width);
    if (size == 3 || size < m.width) d.fail("register too small in");
    if (o.kind == Operand::Kind::reg && m.row != 0 && m.row != size)
      d.fail("registers of different sizes in");
    if (o.kind != Operand::Kind::sink) m.row = size;
    m.sinks[m.refs.size()] = o.kind == Operand::Kind::sink;
    m.refs.push_back(load ? d.dst(o, 0) : d.src(o, size));
  }
  if (m.row == 0) m.row = m.width;
  return m;
}
bool extends_sign(Type t) {
  return t == Type::s8 || t == Type::s16 || t == Type::s32;
}

/// A load of a kernel's parameter is a constant of the launch.
void decode_parameter(Decoder& d, const Moved& m, std::uint32_t id, std::int64_t offset) {
  const Variable& v = d.module.variables[id];
  if (!m.load) d.fail("store to a kernel parameter in");
  if (offset < 0 || v.bytes < static_cast<std::size_t>(offset) + static_cast<std::size_t>(m.width) * m.count)
    d.fail("read past the parameter in");
  const Alu mov = m.row == 2 ? Alu::mov16 : m.row == 8 ? Alu::mov64 : Alu::mov32;
  for (std::size_t i = 0; i < m.count; ++i) {
    if (m.sinks[i]) continue;
    const Ref from = d.param_row(v, id, offset + static_cast<std::int64_t>(i) * m.width, m.width,
                                 extends_sign(m.type), m.row);
    d.emit_alu(mov, Kind::parameter, m.refs[i], from);
  }
}

/// Strong accesses synchronise instead of racing.
bool is_strong(const Decoder& d) {
  return d.has("volatile") || d.has("relaxed") || d.has("acquire") || d.has("release") || d.has("mmio");
}

void decode_ldst(Decoder& d) {
  const bool load = d.in->opcode == "ld" || d.in->opcode == "ldu";
  std::string_view name;
  Space space = d.space_of(name);
  const Operand& where = d.operand(load ? 1 : 0);
  const Moved m = moved_by(d, load);
  auto a = d.address(where, space);
  bool frame = false;
  if (const Operand& base = where.items[0]; base.kind == Operand::Kind::symbol) {
    const Space home = d.module.variables[base.id].space;
    if (home == Space::param && d.is_kernel_param(base.id) && d.fn->entry)
      return decode_parameter(d, m, base.id, a.offset);
    if (space == Space::generic) space = home;
    if (home == Space::param || home == Space::local) {
      frame = true;
      space = Space::local;
      a.ref = d.constant(d.local_offset(base.id) + static_cast<u64>(base.value), 8);
    }
  }
  const bool strong = is_strong(d);
  const std::uint32_t at = d.list(m.refs);
  Op& op = d.emit(access_of(load, strong), kind_of(space, load));
  op.a = a.ref;
  op.asize = static_cast<std::uint8_t>(a.size);
  op.imm = a.offset;
  op.c = static_cast<Ref>(space);
  op.target = at;
  op.count = static_cast<std::uint8_t>(m.count);
  op.width = static_cast<std::uint8_t>(m.width);
  op.dsize = static_cast<std::uint8_t>(m.row);
  op.use = load ? Use::load : Use::store;
  op.flags =
      static_cast<std::uint16_t>((name == "shared::cluster" ? 1 : 0) | (frame ? 2 : 0) |
                                 (extends_sign(m.type) ? 4 : 0) | (strong ? 0x100 : 0) | order_flags(d));
}

void decode_store(Decoder& d) {
  if (d.has("async")) return decode_remote_write(d);
  if (d.has("bulk")) return decode_zero_fill(d);
  decode_ldst(d);
}

/// Predicates travel as bytes.
void run_load_predicate(Warp& w, const Op& op) {
  each_lane(w, [&](int l) {
    const std::size_t at =
        static_cast<std::size_t>(l) * w.local_bytes + w.frame->local + static_cast<u64>(op.imm);
    w.set(op.d, 3, l, w.local[at] & 1u);
    if (w.block->cluster->findings && (w.local_shadow[at] & kWrittenBit) == 0)
      mark_unknown(w, 0, op.d, 1u << l);
  });
}
void run_store_predicate(Warp& w, const Op& op) {
  const std::uint32_t unknown = w.block->cluster->findings ? unknown_lanes(w, op.a, w.exec) : 0;
  each_lane(w, [&](int l) {
    const std::size_t at =
        static_cast<std::size_t>(l) * w.local_bytes + w.frame->local + static_cast<u64>(op.imm);
    w.local[at] = static_cast<std::uint8_t>(w.value(op.a, 3, l));
    w.local_shadow[at] = (unknown >> l & 1) != 0 ? kAllocated : kWritten;
  });
}

void decode_nothing(Decoder& d) {
  d.emit(nothing, Kind::other);
}

}  // namespace

Op& emit_frame_access(Decoder& d, bool load, Ref row, int size, std::uint32_t offset) {
  if (size == 3) {
    Op& op = d.emit(load ? run_load_predicate : run_store_predicate, Kind::local);
    op.imm = offset, op.use = load ? Use::load : Use::known;
    (load ? op.d : op.a) = row;
    return op;
  }
  const bool wide = size == 16;
  const std::uint32_t at = d.list(wide ? std::vector<Ref>{row, row + 32 * 8} : std::vector<Ref>{row});
  const Ref zero = d.constant(0, 8);
  Op& op = d.emit(load ? run_load : run_store, Kind::local);
  op.a = zero, op.asize = 8, op.imm = offset;
  op.c = static_cast<Ref>(Space::local);
  op.target = at, op.count = wide ? 2 : 1;
  op.width = op.dsize = static_cast<std::uint8_t>(wide ? 8 : size);
  op.use = load ? Use::load : Use::store;
  op.flags = 2 | kFrameValue;
  return op;
}

std::vector<DecodeEntry> memory_table() {
  return {{"ld", decode_ldst},          {"ldu", decode_ldst},          {"st", decode_store},
          {"prefetch", decode_nothing}, {"prefetchu", decode_nothing}, {"applypriority", decode_nothing},
          {"discard", decode_nothing}};
}

}  // namespace kiln::emulator::ptx
