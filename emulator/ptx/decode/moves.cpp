// mov: registers, special registers, addresses, vectors and their parts.
#include <algorithm>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

void run_clock(Warp& w, const Op& op) {
  std::uint64_t sum = 0;
  for (const auto n : w.counts) sum += n;
  each_lane(w, [&](int l) { w.set(op.d, op.dsize, l, op.flags ? (sum * 4) >> 32 : sum * 4); });
}
/// Two halves at a time: from or to a pair of 64-bit registers, or another of 128 bits.
void decode_mov_b128(Decoder& d) {
  const auto sides = [&](const Operand& o, bool out) {
    std::vector<Ref> refs;
    if (o.kind != Operand::Kind::vector) return std::vector<Ref>{d.halves(o)[0], d.halves(o)[1]};
    for (const Operand& item : o.items) refs.push_back(out ? d.dst(item, 8) : d.src(item, 8));
    if (refs.size() != 2) d.unsupported();
    return refs;
  };
  const auto to = sides(d.operand(0), true), from = sides(d.operand(1), false);
  for (std::size_t i = 0; i < 2; ++i) d.emit_alu(Alu::mov64, Kind::move, to[i], from[i]);
}

/// mov.v4.u32 {a,b,c,d}, %tid: its components.
void decode_mov_special(Decoder& d) {
  static constexpr std::string_view kParts[] = {".x", ".y", ".z", ".w"};
  const Operand &to = d.operand(0), &from = d.operand(1);
  const int size = size_of(d.type());
  if (to.kind != Operand::Kind::vector || to.items.size() > std::size(kParts)) d.unsupported();
  for (std::size_t i = 0; i < to.items.size(); ++i)
    d.emit_alu(pick(d, d.type(), Alu::mov16, Alu::mov32, Alu::mov64), Kind::move, d.dst(to.items[i], size),
               d.special(std::string(from.text) + std::string(kParts[i]), size));
}

/// mov of a register to its parts.
void decode_unpack(Decoder& d, int size) {
  const Operand &to = d.operand(0), &from = d.operand(1);
  const Ref a = d.src(from, size);
  const int part = size / static_cast<int>(std::max<std::size_t>(1, to.items.size()));
  for (std::size_t i = 0; i < to.items.size(); ++i) {
    const Ref r = d.dst(to.items[i], to.items[i].kind == Operand::Kind::sink ? 0 : part);
    if (to.items[i].kind == Operand::Kind::sink) continue;
    Op& op = d.emit_scalar([](const Op& o, u64 x, u64, u64) -> u64 { return x >> o.imm; }, Kind::move, r,
                           part, a, size);
    op.imm = static_cast<std::int64_t>(i) * part * 8;
    op.use = size == 8 && part == 4 ? Use::unpack : op.use;
  }
}
/// mov of parts to a register.
void decode_pack(Decoder& d, int size) {
  const Operand &to = d.operand(0), &from = d.operand(1);
  const Ref r = d.dst(to, size);
  const std::size_t n = from.items.size();
  const int part = size / static_cast<int>(std::max<std::size_t>(1, n));
  if (n == 2) {
    const Ref lo = d.src(from.items[0], part), hi = d.src(from.items[1], part);
    Op& op = d.emit_scalar([](const Op& o, u64 x, u64 y, u64) -> u64 { return x | y << (8 * o.asize); },
                           Kind::move, r, size, lo, part, hi, part);
    if (size == 8) op.use = Use::pack;
  } else if (n == 4 && (part == 1 || part == 2)) {
    std::vector<Ref> parts;
    for (const Operand& o : from.items) parts.push_back(d.src(o, part));
    const std::uint32_t at = d.list(parts);
    Op& op = d.emit(
        [](Warp& w, const Op& o) {
          const Program& p = *w.block->cluster->program;
          each_lane(w, [&](int l) {
            u64 v = 0;
            for (std::uint32_t i = 0; i < 4; ++i)
              v |= w.value(p.lists[o.target + i], o.asize, l) << (8 * o.asize * i);
            w.set(o.d, o.dsize, l, v);
          });
        },
        Kind::move);
    op.d = r, op.target = at, op.asize = static_cast<std::uint8_t>(part),
    op.dsize = static_cast<std::uint8_t>(size);
  } else {
    d.unsupported();
  }
}

void decode_mov(Decoder& d) {
  const Operand& to = d.operand(0);
  const Operand& from = d.operand(1);
  const Type t = d.type();
  if (t == Type::b128) return decode_mov_b128(d);
  if (t == Type::pred && from.kind == Operand::Kind::special) {
    d.emit_alu(Alu::ne32, Kind::predicate, d.dst(to, 3), d.src(from, 4), d.constant(0, 4));
    return;
  }
  if (t == Type::pred) {
    d.emit_alu(Alu::mov_pred, Kind::move, d.dst(to, 3), d.src(from, 3));
    return;
  }
  const int size = size_of(t);
  if (to.kind == Operand::Kind::vector) return decode_unpack(d, size);
  if (from.kind == Operand::Kind::vector) return decode_pack(d, size);
  if (from.kind == Operand::Kind::special &&
      (from.text == "%clock" || from.text == "%clock64" || from.text == "%globaltimer" ||
       from.text == "%clock_hi" || from.text == "%globaltimer_lo" || from.text == "%globaltimer_hi")) {
    const Ref r = d.dst(to, size);
    Op& op = d.emit(run_clock, Kind::other);
    op.d = r, op.dsize = static_cast<std::uint8_t>(size), op.flags = from.text.ends_with("hi");
    return;
  }
  const Ref r = d.dst(to, size);
  if (from.kind == Operand::Kind::symbol && d.module.variables[from.id].space == Space::shared) {
    const Ref a = d.src(from, size);
    const Ref base = d.special("shared_base", size);
    d.emit_alu(size == 4 ? Alu::add32 : Alu::add64, Kind::move, r, a, base);
    return;
  }
  const Ref a = d.src(from, size);
  if (size == 1) d.unsupported();
  Op& op = d.emit_alu(pick(d, t, Alu::mov16, Alu::mov32, Alu::mov64), Kind::move, r, a);
  if (size == 8) op.use = Use::halves;
}

/// Sources may be components of the destination: all are read first.
void run_mov_vector(Warp& w, const Op& op) {
  const Ref* const d = w.block->cluster->program->lists.data() + op.target;
  u64 values[4][32];
  for (std::uint32_t i = 0; i < op.count; ++i)
    each_lane(w, [&](int l) { values[i][l] = w.value(d[op.count + i], op.dsize, l); });
  for (std::uint32_t i = 0; i < op.count; ++i) {
    each_lane(w, [&](int l) { w.set(d[i], op.dsize, l, values[i][l]); });
    const std::uint32_t unknown = w.unknown_inputs.empty() ? 0 : unknown_input(w, d[op.count + i]) & w.exec;
    if (unknown != 0) mark_unknown(w, unknown_origin(w), d[i], unknown);
  }
  w.unknown_inputs.clear();
}
/// mov.v4.f32 {a,b,c,d}, {e,f,g,h}: component by component.
void decode_mov_vector(Decoder& d) {
  const Operand &to = d.operand(0), &from = d.operand(1);
  const int size = size_of(d.type());
  if (from.kind != Operand::Kind::vector || to.items.size() != from.items.size() ||
      to.items.size() != (d.has("v4") ? 4u : 2u))
    d.fail("vectors of different lengths in");
  std::vector<Ref> refs;
  for (const Operand& o : to.items) refs.push_back(d.dst(o, o.kind == Operand::Kind::sink ? 0 : size));
  for (const Operand& o : from.items) refs.push_back(d.src(o, size));
  const std::uint32_t at = d.list(refs);
  Op& op = d.emit(run_mov_vector, Kind::move);
  op.use = Use::handled, op.target = at;
  op.count = static_cast<std::uint8_t>(to.items.size()), op.dsize = static_cast<std::uint8_t>(size);
}

void decode_any_mov(Decoder& d) {
  if (!d.has("v4") && !d.has("v2")) return decode_mov(d);
  if (d.operand(0).kind == Operand::Kind::vector && d.operand(1).kind == Operand::Kind::special)
    return decode_mov_special(d);
  decode_mov_vector(d);
}

}  // namespace

std::vector<DecodeEntry> move_table() {
  return {{"mov", decode_any_mov}};
}

}  // namespace kiln::emulator::ptx
