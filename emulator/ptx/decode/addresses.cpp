// What is made of addresses: other spaces, other blocks of the cluster, cache policies.
#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

u64 window_of(Space s) {
  return s == Space::shared  ? kSharedWindow
         : s == Space::local ? kLocalWindow
         : s == Space::param ? kParamWindow
                             : 0;
}
void decode_cvta(Decoder& d) {
  std::string_view name;
  const Space space = d.space_of(name);
  const int size = size_of(d.last_type());
  if (size != 8) d.unsupported();
  const Ref r = d.dst(d.operand(0), 8), a = d.src(d.operand(1), 8);
  const bool symbol_shared = d.operand(1).kind == Operand::Kind::symbol && space == Space::shared;
  const u64 window = window_of(space);
  if (window == 0) {
    d.emit_alu(Alu::mov64, Kind::move, r, a);
  } else if (d.has("to")) {
    d.emit_alu(Alu::sub64, Kind::move, r, a, d.constant(window, 8));
  } else {
    d.emit_alu(Alu::add64, Kind::move, r, a, d.constant(window, 8));
    if (symbol_shared) d.emit_alu(Alu::add64, Kind::move, r, r, d.special("shared_base", 8));
  }
}
u64 run_isspacep(const Op& op, u64 a, u64, u64) {
  const auto s = static_cast<Space>(op.imm);
  const bool shared = a - kSharedWindow <= 0xffffffffu, local = a - kLocalWindow <= 0xffffffffu,
             param = a - kParamWindow <= 0xffffffffu;
  return s == Space::shared  ? shared
         : s == Space::local ? local
         : s == Space::param ? param
                             : !shared && !local && !param;
}
void decode_isspacep(Decoder& d) {
  std::string_view name;
  const Space s = d.space_of(name);
  const Ref r = d.dst(d.operand(0), 3), a = d.src(d.operand(1), 8);
  d.emit_scalar(run_isspacep, Kind::predicate, r, 3, a, 8).imm = static_cast<std::int64_t>(s);
}
void run_mapa(Warp& w, const Op& op) {
  each_lane(w, [&](int l) {
    const u64 a = w.value(op.a, op.asize, l), rank = w.value(op.b, 4, l);
    const u64 base = op.flags != 0 ? kSharedWindow : 0;
    if (rank >= w.block->cluster->blocks.size())
      report(w, op, l, "out-of-bounds",
             "block rank " + std::to_string(rank) + " of a cluster of " +
                 std::to_string(w.block->cluster->blocks.size()));
    w.set(op.d, op.dsize, l, base + ((a - base) & 0xffffffu) + (rank << 24));
  });
}
void decode_mapa(Decoder& d) {
  const int size = size_of(d.last_type());
  std::string_view name;
  const bool generic = d.space_of(name) == Space::generic;
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), 4);
  Op& op = d.emit(run_mapa, Kind::integer);
  op.d = r, op.a = a, op.b = b, op.asize = op.dsize = static_cast<std::uint8_t>(size), op.flags = generic;
}
void run_getctarank(Warp& w, const Op& op) {
  each_lane(w, [&](int l) {
    const u64 a = w.value(op.a, op.asize, l);
    w.set(op.d, 4, l, ((op.flags != 0 ? a - kSharedWindow : a) >> 24) & 0xff);
  });
}
void decode_getctarank(Decoder& d) {
  std::string_view name;
  const bool generic = d.space_of(name) == Space::generic;
  const int size = size_of(d.last_type());
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), size);
  Op& op = d.emit(run_getctarank, Kind::integer);
  op.d = r, op.a = a, op.asize = static_cast<std::uint8_t>(size), op.flags = generic;
}
void decode_createpolicy(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 8);
  d.emit_alu(Alu::mov64, Kind::move, r, d.constant(0x1000000000000000ull, 8));
}

}  // namespace

std::vector<DecodeEntry> address_table() {
  return {{"cvta", decode_cvta},
          {"isspacep", decode_isspacep},
          {"mapa", decode_mapa},
          {"getctarank", decode_getctarank},
          {"createpolicy", decode_createpolicy}};
}

}  // namespace kiln::emulator::ptx
