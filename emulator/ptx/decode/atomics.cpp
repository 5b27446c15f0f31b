// atom and red.
#include <algorithm>
#include <cstring>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/memory.hpp"
#include "emulator/ptx/decode/warp_access.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

/// min and max of f16 and bf16, and of pairs of them.
u64 half_extreme(Type t, bool least, u64 old, u64 v) {
  const auto f = t == Type::f16 || t == Type::f16x2 ? FloatFormat::f16 : FloatFormat::bf16;
  const auto one = [&](u64 a, u64 b) { return float_extreme(f, !least, a, b); };
  if (t == Type::f16 || t == Type::bf16) return one(old, v);
  return one(old >> 16 & 0xffff, v >> 16 & 0xffff) << 16 | one(old & 0xffff, v & 0xffff);
}
bool is_halves(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f16x2 || t == Type::bf16x2;
}

enum class Atom : std::uint8_t { add, and_, or_, xor_, min, max, inc, dec, exch, cas };

u64 combine(const Op& op, u64 old, u64 v, u64 compare) {
  const auto t = static_cast<Type>(op.csize);
  const int n = op.width;
  const bool is_signed = t == Type::s32 || t == Type::s64;
  switch (static_cast<Atom>(op.bsize)) {
    case Atom::add:
      switch (t) {
        case Type::f32:
          return float_add(FloatFormat::f32, old, v, {.ftz = (op.flags & 8) != 0});
        case Type::f64:
          // The adders beside global memory pass a NaN on as it is.
          if (static_cast<Space>(op.c) != Space::shared) {
            if (is_nan(FloatFormat::f64, v)) return v;
            if (is_nan(FloatFormat::f64, old)) return old;
          }
          return float_add(FloatFormat::f64, v, old);
        case Type::f16:
          return float_add(FloatFormat::f16, old, v);
        case Type::bf16:
          return float_add(FloatFormat::bf16, old, v);
        case Type::f16x2:
        case Type::bf16x2: {
          const auto f = t == Type::f16x2 ? FloatFormat::f16 : FloatFormat::bf16;
          return float_add(f, old >> 16, v >> 16) << 16 | float_add(f, old & 0xffff, v & 0xffff);
        }
        default:
          return old + v;
      }
    case Atom::and_:
      return old & v;
    case Atom::or_:
      return old | v;
    case Atom::xor_:
      return old ^ v;
    case Atom::min:
      if (is_halves(t)) return half_extreme(t, true, old, v);
      return is_signed ? (sign_extend(old, n) < sign_extend(v, n) ? old : v) : std::min(old, v);
    case Atom::max:
      if (is_halves(t)) return half_extreme(t, false, old, v);
      return is_signed ? (sign_extend(old, n) > sign_extend(v, n) ? old : v) : std::max(old, v);
    case Atom::inc:
      return old >= v ? 0 : old + 1;
    case Atom::dec:
      return old == 0 || old > v ? v : old - 1;
    case Atom::exch:
      return v;
    case Atom::cas:
      return old == v ? compare : old;
  }
  return old;
}

/// exch and cas of 128 bits: both halves or neither. Whether the memory changed.
bool exchange_wide(Warp& w, const Op& op, int lane, std::uint8_t* data) {
  const Program& p = *w.block->cluster->program;
  u64 old[2], fresh[2];
  std::memcpy(old, data, 16);
  for (std::uint32_t i = 0; i < 2; ++i) fresh[i] = w.value(p.lists[op.target + i], 8, lane);
  if (static_cast<Atom>(op.bsize) == Atom::cas) {
    const bool same = std::equal(old, old + 2, fresh);
    for (std::uint32_t i = 0; i < 2; ++i) fresh[i] = same ? w.value(p.lists[op.e + i], 8, lane) : old[i];
  }
  std::memcpy(data, fresh, 16);
  for (std::uint32_t i = 0; i < 2; ++i) w.set(p.lists[op.d + i], 8, lane, old[i]);
  return !std::equal(old, old + 2, fresh);
}

/// What a lane does to its memory; whether that changes.
bool update(Warp& w, const Op& op, int l, std::uint8_t* data) {
  const Program& p = *w.block->cluster->program;
  bool changed = false;
  if (static_cast<Type>(op.csize) == Type::b128) return exchange_wide(w, op, l, data);
  for (std::uint32_t i = 0; i < op.count; ++i) {
    u64 old = 0;
    std::memcpy(&old, data + std::size_t{i} * op.width, op.width);
    const u64 v = w.value(p.lists[op.target + i], op.width, l);
    const u64 fresh = combine(op, old, v, op.e == kNoRef ? 0 : w.value(op.e, op.width, l));
    changed = changed || std::memcmp(&old, &fresh, op.width) != 0;
    std::memcpy(data + std::size_t{i} * op.width, &fresh, op.width);
    if (op.d != kNoRef) w.set(p.lists[op.d + i], op.dsize, l, old);
  }
  return changed;
}

/// Of all lanes, whose memory is in `data`.
bool update_lanes(Warp& w, const Op& op, std::uint8_t* const* data) {
  const auto t = static_cast<Type>(op.csize);
  const bool words = t == Type::u32 || t == Type::s32 || t == Type::b32;
  bool changed = false;
  if (static_cast<Atom>(op.bsize) != Atom::add || !words || op.count != 1) {
    each_lane(w, [&](int l) { changed = update(w, op, l, data[l]) || changed; });
    return changed;
  }
  const Program& p = *w.block->cluster->program;
  const std::uint32_t* const add = w.in<std::uint32_t>(p.lists[op.target]);
  std::uint32_t old[32];
  each_lane(w, [&](int l) {
    std::memcpy(old + l, data[l], 4);
    const std::uint32_t sum = old[l] + add[l];
    changed = changed || add[l] != 0;
    std::memcpy(data[l], &sum, 4);
  });
  if (op.d == kNoRef) return changed;
  std::uint32_t* const out = w.out<std::uint32_t>(p.lists[op.d]);
  each_lane(w, [&](int l) { out[l] = old[l]; });
  return changed;
}

/// Lanes that try for a lock in vain bring nobody on.
void note_progress(Warp& w, bool changed) {
  if (changed) {
    ++w.block->cluster->progress;
    w.futile = 0;
  } else {
    ++w.futile;
  }
}

void run_atomic(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  const auto space = static_cast<Space>(op.c);
  const std::uint32_t bytes = std::uint32_t{op.width} * op.count;
  ++w.lanes.issue;
  u64 address[32];
  std::uint8_t* data[32];
  lane_addresses(w, op, address);
  if (plain_atomics(w, op, bytes, address, data)) return note_progress(w, update_lanes(w, op, data));
  bool changed = false;
  std::unique_lock lock(c.launch->atomics, std::defer_lock);  // once for all lanes: it is fought for
  each_lane(w, [&](int l) {
    const Place place = locate(w, op, space, address[l], bytes, l, Access::read);
    if (place.data == nullptr) return;
    std::memset(place.shadow, kWritten, bytes);
    if (place.space == Space::global && !lock.owns_lock()) lock.lock();
    if (c.races && place.space == Space::global)
      c.launch->globals->strong_access(w, op, l, address[l], bytes, true);
    if (c.races && place.space == Space::shared)
      strong_shared(w, op, l, *place.block, place.offset, bytes, true, true);
    const bool strong = c.races && place.space != Space::shared;
    if (strong) {
      w.global_words.access(w, op, l, address[l], bytes, {true, true, false});
      publish_global(w, op, l, address[l], true);
    }
    changed = update(w, op, l, place.data) || changed;
    if (strong) observe_global(w, op, 1u << l, address[l]);
  });
  note_progress(w, changed);
}

/// What an atomic is, from its modifiers.
struct AtomForm {
  Atom what = Atom::add;
  Type type = Type::none;
  int width = 0;          ///< of an element; 128 bits are two
  std::size_t count = 1;  ///< elements
  bool wide() const { return type == Type::b128; }
};
AtomForm atom_form(Decoder& d) {
  static constexpr std::string_view kOps[] = {"add", "and", "or",  "xor",  "min",
                                              "max", "inc", "dec", "exch", "cas"};
  const auto* const op =
      std::find_if(std::begin(kOps), std::end(kOps), [&](auto name) { return d.has(name); });
  if (op == std::end(kOps)) d.unsupported();
  AtomForm f;
  f.what = static_cast<Atom>(op - std::begin(kOps));
  f.type = d.last_type();
  if (f.wide() && f.what != Atom::exch && f.what != Atom::cas) d.unsupported();
  f.width = f.wide() ? 8 : size_of(f.type);
  f.count = element_count(d);
  return f;
}

/// The rows of an operand's elements.
std::uint32_t atom_rows(Decoder& d, const AtomForm& f, const Operand& o, bool out) {
  std::vector<Ref> refs;
  if (f.wide()) {
    refs = {d.halves(o)[0], d.halves(o)[1]};
  } else if (o.kind == Operand::Kind::vector) {
    for (const Operand& item : o.items) refs.push_back(out ? d.dst(item, f.width) : d.src(item, f.width));
  } else {
    refs.push_back(out ? d.dst(o, o.kind == Operand::Kind::sink ? 0 : f.width) : d.src(o, f.width));
  }
  if (refs.size() != f.count) d.fail("vector of the wrong length in");
  return d.list(refs);
}

void decode_atom(Decoder& d) {
  const bool red = d.in->opcode == "red";
  if (red && d.has("async")) return decode_remote_write(d);
  const AtomForm f = atom_form(d);
  std::string_view name;
  const Space space = d.space_of(name);
  const std::size_t first = red ? 0 : 1;
  const auto a = d.address(d.operand(first), space);
  const std::uint32_t values = atom_rows(d, f, d.operand(first + 1), false);
  const std::uint32_t out = red ? kNoRef : atom_rows(d, f, d.operand(0), true);
  Ref e = kNoRef;
  if (f.what == Atom::cas)
    e = f.wide() ? static_cast<Ref>(atom_rows(d, f, d.operand(first + 2), false))
                 : d.src(d.operand(first + 2), f.width);
  Op& op = d.emit(run_atomic, Kind::atomic);
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset;
  op.c = static_cast<Ref>(space);
  op.target = values;
  op.d = out;
  op.e = e;
  op.count = static_cast<std::uint8_t>(f.count);
  op.width = op.dsize = static_cast<std::uint8_t>(f.width);
  op.bsize = static_cast<std::uint8_t>(f.what);
  op.csize = static_cast<std::uint8_t>(f.type);
  // f32 additions in global memory flush subnormals.
  const bool flush = space == Space::global && f.type == Type::f32 && f.count == 1;
  op.flags =
      static_cast<std::uint16_t>((name == "shared::cluster" ? 1 : 0) | (flush ? 8 : 0) | order_flags(d));
}

}  // namespace

std::vector<DecodeEntry> atomics_table() {
  return {{"atom", decode_atom}, {"red", decode_atom}};
}

}  // namespace kiln::emulator::ptx
