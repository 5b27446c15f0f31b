// Bit counts, bit fields, permutations, three-input logic, funnel shifts and packed dot products.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;
using s64 = std::int64_t;

void three(Decoder& d, Scalar f) {
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4),
            c = d.src(d.operand(3), 4);
  d.emit_scalar(f, Kind::integer, r, 4, a, 4, b, 4, c, 4);
}
u64 popc(const Op&, u64 a, u64, u64) {
  return static_cast<u64>(std::popcount(a));
}
u64 clz(const Op& op, u64 a, u64, u64) {
  return static_cast<u64>(std::countl_zero(a)) - (op.width == 4 ? 32u : 0u);
}
u64 brev(const Op& op, u64 a, u64, u64) {
  u64 r = 0;
  for (int i = 0; i < 8 * op.width; ++i) r |= ((a >> i) & 1) << (8 * op.width - 1 - i);
  return r;
}
u64 bfind(const Op& op, u64 a, u64, u64) {
  if ((op.flags & 1) && ((a >> (8 * op.width - 1)) & 1)) a = ~a & (op.width == 4 ? 0xffffffffull : ~0ull);
  if (a == 0) return 0xffffffffu;
  const auto at = static_cast<u64>(63 - std::countl_zero(a));
  return op.flags & 2 ? static_cast<u64>(8 * op.width - 1) - at : at;
}
void decode_bits(Decoder& d) {
  const int size = size_of(d.type());
  const auto o = d.in->opcode;
  const Ref r = d.dst(d.operand(0), o == "brev" ? size : 4), a = d.src(d.operand(1), size);
  Op& op = d.emit_scalar(o == "popc"   ? popc
                         : o == "clz"  ? clz
                         : o == "brev" ? brev
                                       : bfind,
                         Kind::integer, r, o == "brev" ? size : 4, a, size);
  op.width = static_cast<std::uint8_t>(size);
  op.flags = static_cast<std::uint16_t>((is_signed(d.type()) ? 1 : 0) | (d.has("shiftamt") ? 2 : 0));
}
u64 bfe(const Op& op, u64 a, u64 b, u64 c) {
  const unsigned bits = 8u * op.width;
  const auto pos = static_cast<unsigned>(b & 0xff), len = static_cast<unsigned>(c & 0xff);
  if (len == 0) return 0;
  const bool neg = (op.flags & 1) && ((a >> std::min(pos + len - 1, bits - 1)) & 1);
  u64 r = 0;
  for (unsigned i = 0; i < bits; ++i) {
    const bool bit = i < len && pos + i < bits ? (a >> (pos + i)) & 1 : neg;
    r |= u64{bit} << i;
  }
  return r;
}
void decode_bfe(Decoder& d) {
  const int size = size_of(d.type());
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), 4),
            c = d.src(d.operand(3), 4);
  Op& op = d.emit_scalar(bfe, Kind::integer, r, size, a, size, b, 4, c, 4);
  op.width = static_cast<std::uint8_t>(size);
  op.flags = is_signed(d.type());
}
void run_bfi(Warp& w, const Op& op) {
  each_lane(w, [&](int l) {
    const u64 a = w.value(op.a, op.width, l), b = w.value(op.b, op.width, l);
    const auto pos = static_cast<unsigned>(w.value(op.c, 4, l) & 0xff),
               len = static_cast<unsigned>(w.value(op.e, 4, l) & 0xff);
    u64 r = b;
    for (unsigned i = 0; i < len && pos + i < 8u * op.width; ++i)
      r = (r & ~(u64{1} << (pos + i))) | (((a >> i) & 1) << (pos + i));
    w.set(op.d, op.width, l, r);
  });
}
void decode_bfi(Decoder& d) {
  const int size = size_of(d.type());
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), size);
  const Ref c = d.src(d.operand(3), 4), e = d.src(d.operand(4), 4);
  Op& op = d.emit(run_bfi, Kind::integer);
  op.d = r, op.a = a, op.b = b, op.c = c, op.e = e, op.width = static_cast<std::uint8_t>(size);
}
u64 prmt(const Op& op, u64 a, u64 b, u64 c) {
  const u64 pool = (b << 32) | a;
  u64 sel = c;
  if (op.flags != 0) {
    const unsigned n = c & 3;
    u64 table[5] = {0x3210 + u64{0x1111} * n, 0, 0, u64{0x1111} * n, 0};
    const unsigned b4e[4] = {0x5670, 0x6701, 0x7012, 0x0123};
    const unsigned ecl[4] = {0x3210, 0x3211, 0x3222, 0x3333}, ecr[4] = {0x0000, 0x1110, 0x2210, 0x3210},
                   r16[4] = {0x1010, 0x3232, 0x1010, 0x3232};
    switch (op.flags) {
      case 1:
        sel = table[0];
        break;  // f4e
      case 2:
        sel = b4e[n];
        break;
      case 3:
        sel = table[3];
        break;  // rc8
      case 4:
        sel = ecl[n];
        break;
      case 5:
        sel = ecr[n];
        break;
      default:
        sel = r16[n];
        break;
    }
  }
  u64 r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned s = (sel >> (4 * i)) & 15;
    u64 byte = (pool >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * i);
  }
  return r;
}
void decode_prmt(Decoder& d) {
  three(d, prmt);
  d.program.ops.back().flags =
      static_cast<std::uint16_t>(d.which({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
}
void decode_lop3(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4),
            c = d.src(d.operand(3), 4);
  const std::int64_t table = d.operand(4).value;
  d.emit_alu(Alu::lop3, Kind::integer, r, a, b, c).imm = table;
}
void decode_shf(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4),
            c = d.src(d.operand(3), 4);
  const bool wrap = d.has("wrap");
  d.emit_alu(
      d.has("l") ? (wrap ? Alu::shf_l_wrap : Alu::shf_l_clamp) : (wrap ? Alu::shf_r_wrap : Alu::shf_r_clamp),
      Kind::integer, r, a, b, c);
}
u64 dp4a(const Op& op, u64 a, u64 b, u64 c) {
  s64 sum = static_cast<s64>(c);
  for (int i = 0; i < 4; ++i) {
    const u64 x = (a >> (8 * i)) & 0xff, y = (b >> (8 * i)) & 0xff;
    sum += (op.flags & 1 ? sign_extend(x, 1) : static_cast<s64>(x)) *
           (op.flags & 2 ? sign_extend(y, 1) : static_cast<s64>(y));
  }
  return static_cast<u64>(sum);
}
u64 dp2a(const Op& op, u64 a, u64 b, u64 c) {
  s64 sum = static_cast<s64>(c);
  for (int i = 0; i < 2; ++i) {
    const u64 x = (a >> (16 * i)) & 0xffff, y = (b >> (8 * (i + (op.flags & 4 ? 2 : 0)))) & 0xff;
    sum += (op.flags & 1 ? sign_extend(x, 2) : static_cast<s64>(x)) *
           (op.flags & 2 ? sign_extend(y, 1) : static_cast<s64>(y));
  }
  return static_cast<u64>(sum);
}
void decode_dp(Decoder& d) {
  three(d, d.in->opcode == "dp4a" ? dp4a : dp2a);
  const auto t = d.types();
  if (t.size() != 2) d.unsupported();
  d.program.ops.back().flags = static_cast<std::uint16_t>((is_signed(t[0]) ? 1 : 0) |
                                                          (is_signed(t[1]) ? 2 : 0) | (d.has("hi") ? 4 : 0));
}

}  // namespace

std::vector<DecodeEntry> bits_table() {
  return {{"popc", decode_bits}, {"clz", decode_bits}, {"brev", decode_bits}, {"bfind", decode_bits},
          {"bfe", decode_bfe},   {"bfi", decode_bfi},  {"prmt", decode_prmt}, {"lop3", decode_lop3},
          {"shf", decode_shf},   {"dp4a", decode_dp},  {"dp2a", decode_dp}};
}

}  // namespace kiln::emulator::ptx
