// Vector integer and bit instructions on whole registers.
#include <algorithm>
#include <bit>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/amdgcn/ops/words.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

i32 sext24(u32 x) {
  return sign(x << 8) >> 8;
}
u32 h(u32 x) {
  return x & 0xffff;
}
i32 hs(u32 x) {
  return static_cast<std::int16_t>(x);
}

template <bool Negate, bool Reverse, bool CarryIn>
void add_carry(Wave& w, const Inst& in) {
  // v_add_co_u32 v, vcc, a, b; v_addc_co_u32 v, vcc, a, b, vcc. Sources start at operand 2.
  Lanes ba, bb, out;
  View a = w.raw(in.ops[2], 0, ba), b = w.raw(in.ops[3], 0, bb);
  Lanes sa, sb;
  if (in.mod.sdwa || in.mod.dpp) {  // the modifiers count operands without the carry: present them so
    Inst shifted = in;
    shifted.ops[1] = in.ops[2];
    shifted.ops[2] = in.ops[3];
    const View va = w.source(shifted, 1, sa), vb = w.source(shifted, 2, sb);
    std::copy_n(va.l, kLanes, ba.l);
    std::copy_n(vb.l, kLanes, bb.l);
    a = {ba.l, va.defined};
    b = {bb.l, vb.defined};
  }
  if (Reverse) std::swap(a, b);
  const u64 carries = CarryIn ? w.scalar64(in.ops[4]) : 0, exec = w.write_mask(in);
  u64 result = 0;
  for (int l = 0; l < kLanes; ++l) {
    const u64 c = carries >> l & 1;
    const u64 r = Negate ? u64{a.l[l]} - b.l[l] - c : u64{a.l[l]} + b.l[l] + c;
    out.l[l] = static_cast<u32>(r);
    result |= (r >> 32 & 1) << l;
  }
  w.put(in, 0, out, a.defined & b.defined);
  w.put_mask(in.ops[1], result & exec);
}

void cndmask(Wave& w, const Inst& in) {
  Lanes ba, bb, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb);
  const u64 mask = in.operands > 3 ? w.scalar64(in.ops[3]) : w.s64(kVcc);
  for (int l = 0; l < kLanes; ++l) out.l[l] = mask >> l & 1 ? b.l[l] : a.l[l];
  w.put(in, 0, out, (a.defined & ~mask) | (b.defined & mask));
}

template <bool Left, bool Signed>
void shift64(Wave& w, const Inst& in) {
  Lanes bn, low, high;
  const View n = w.source(in, 1, bn);
  const Wide x(w, in, 2);
  for (int l = 0; l < kLanes; ++l) {
    const u32 by = n.l[l] & 63;
    split(low, high, l,
          Left     ? x[l] << by
          : Signed ? static_cast<u64>(static_cast<i64>(x[l]) >> by)
                   : x[l] >> by);
  }
  w.put(in, 0, low, n.defined & (Left ? x.low.defined : x.defined()), 0);
  w.put(in, 0, high, n.defined & x.defined(), 1);
}

void lshl_add_u64(Wave& w, const Inst& in) {
  Lanes bn, low, high;
  const Wide a(w, in, 1), c(w, in, 3);
  const View n = w.source(in, 2, bn);
  for (int l = 0; l < kLanes; ++l) split(low, high, l, (a[l] << (n.l[l] & 7)) + c[l]);
  w.put(in, 0, low, n.defined & a.low.defined & c.low.defined, 0);
  w.put(in, 0, high, n.defined & a.defined() & c.defined(), 1);
}

template <bool Signed>
void mad64(Wave& w, const Inst& in) {  // v, carry, a, b, c
  Lanes ba, bb, low, high;
  const View a = w.raw(in.ops[2], 0, ba), b = w.raw(in.ops[3], 0, bb);
  const Wide c(w, in, 4);
  u64 carry = 0;
  for (int l = 0; l < kLanes; ++l) {
    const u64 product = Signed ? static_cast<u64>(i64{sign(a.l[l])} * sign(b.l[l])) : u64{a.l[l]} * b.l[l];
    const u64 sum = product + c[l];
    carry |= u64{sum < product} << l;
    split(low, high, l, sum);
  }
  const u64 ab = a.defined & b.defined;
  w.put(in, 0, low, ab & c.low.defined, 0);
  w.put(in, 0, high, ab & c.defined(), 1);
  w.put_mask(in.ops[1], carry & w.exec());
}

void mov64(Wave& w, const Inst& in) {
  Lanes bl, bh;
  const View low = w.source(in, 1, bl, 0), high = w.source(in, 1, bh, 1);
  Lanes l, h2;
  std::copy_n(low.l, kLanes, l.l);
  std::copy_n(high.l, kLanes, h2.l);
  w.put(in, 0, l, low.defined, 0);
  w.put(in, 0, h2, high.defined, 1);
}

template <bool High>
void mbcnt(Wave& w, const Inst& in) {
  Lanes ba, bb, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb);
  for (int l = 0; l < kLanes; ++l) {
    const u64 below = (u64{1} << l) - 1;
    out.l[l] =
        b.l[l] + static_cast<u32>(std::popcount(a.l[l] & static_cast<u32>(High ? below >> 32 : below)));
  }
  w.put(in, 0, out, a.defined & b.defined);
}

void bitop3(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.source(in, 3, bc);
  const unsigned table = in.mod.offset0;
  for (int l = 0; l < kLanes; ++l) {
    u32 r = 0;
    for (unsigned i = 0; i < 8; ++i) {
      if (!(table >> i & 1)) continue;
      r |= (i & 4 ? a.l[l] : ~a.l[l]) & (i & 2 ? b.l[l] : ~b.l[l]) & (i & 1 ? c.l[l] : ~c.l[l]);
    }
    out.l[l] = r;
  }
  w.put(in, 0, out, a.defined & b.defined & c.defined);
}

u32 perm(u32 a, u32 b, u32 sel) {
  const u64 both = u64{a} << 32 | b;
  u32 r = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 s = sel >> 8 * i & 0xff;
    u32 byte;
    if (s <= 7)
      byte = static_cast<u32>(both >> 8 * s & 0xff);
    else if (s <= 11)
      byte = both >> (16 * (s - 8) + 15) & 1 ? 0xff : 0;
    else
      byte = s == 12 ? 0 : 0xff;
    r |= byte << 8 * i;
  }
  return r;
}
u32 bfe_u32(u32 a, u32 b, u32 c) {
  const u32 width = c & 31;
  return width == 0 ? 0 : a >> (b & 31) & ((1U << width) - 1);
}
u32 bfe_i32(u32 a, u32 b, u32 c) {
  const u32 offset = b & 31, width = c & 31;
  if (width == 0) return 0;
  const u32 used = std::min(width, 32 - offset);
  return from(sign(a << (32 - used - offset)) >> (32 - used));
}
u32 sad_u8(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 4; ++i)
    c += from(std::abs(static_cast<i32>(a >> 8 * i & 0xff) - static_cast<i32>(b >> 8 * i & 0xff)));
  return c;
}
template <class T>
T median(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
u32 clamp_i16(i32 x) {
  return h(from(std::clamp(x, -32768, 32767)));
}

}  // namespace

void add_integer_ops(OpTable& t) {
  const auto add = [&](const char* name, Exec exec, Num num = Num::b32, std::uint8_t dsts = 1,
                       bool reads_dst = false) {
    t[name] = {.exec = exec, .cls = Class::valu, .num = num, .dsts = dsts, .reads_dst = reads_dst};
  };
  add("v_mov_b32", v1<([](u32 a) { return a; })>);
  add("v_mov_b64", mov64, Num::b64);
  add("v_accvgpr_read_b32", v1<([](u32 a) { return a; })>);
  add("v_accvgpr_write_b32", v1<([](u32 a) { return a; })>);
  add("v_accvgpr_mov_b32", v1<([](u32 a) { return a; })>);
  add("v_not_b32", v1<([](u32 a) { return ~a; })>);
  add("v_bfrev_b32", v1<([](u32 a) {
        u32 r = 0;
        for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
        return r;
      })>);
  add("v_ffbh_u32", v1<([](u32 a) { return a == 0 ? ~0U : from(std::countl_zero(a)); })>);
  add("v_ffbl_b32", v1<([](u32 a) { return a == 0 ? ~0U : from(std::countr_zero(a)); })>);
  add("v_ffbh_i32", v1<([](u32 a) {
        const u32 x = sign(a) < 0 ? ~a : a;
        return x == 0 ? ~0U : from(std::countl_zero(x));
      })>);
  add("v_prng_b32", v1<([](u32 a) { return a << 1 ^ (a >> 31 ? 0xc5U : 0U); })>);
  add("v_cndmask_b32", cndmask);
  add("v_add_co_u32", add_carry<false, false, false>, Num::b32, 2);
  add("v_sub_co_u32", add_carry<true, false, false>, Num::b32, 2);
  add("v_subrev_co_u32", add_carry<true, true, false>, Num::b32, 2);
  add("v_addc_co_u32", add_carry<false, false, true>, Num::b32, 2);
  add("v_subb_co_u32", add_carry<true, false, true>, Num::b32, 2);
  add("v_subbrev_co_u32", add_carry<true, true, true>, Num::b32, 2);
  add("v_add_u32", v2<([](u32 a, u32 b) { return a + b; })>);
  add("v_sub_u32", v2<([](u32 a, u32 b) { return a - b; })>);
  add("v_subrev_u32", v2<([](u32 a, u32 b) { return b - a; })>);
  add("v_add_i32", v2<([](u32 a, u32 b) { return a + b; })>);
  add("v_sub_i32", v2<([](u32 a, u32 b) { return a - b; })>);
  add("v_mul_lo_u32", v2<([](u32 a, u32 b) { return a * b; })>);
  add("v_mul_hi_u32", v2<([](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); })>);
  add("v_mul_hi_i32", v2<([](u32 a, u32 b) { return static_cast<u32>(i64{sign(a)} * sign(b) >> 32); })>);
  add("v_mul_u32_u24", v2<([](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); })>);
  add("v_mul_i32_i24", v2<([](u32 a, u32 b) { return from(sext24(a)) * from(sext24(b)); })>);
  add("v_mul_hi_u32_u24",
      v2<([](u32 a, u32 b) { return static_cast<u32>(u64{a & 0xffffff} * (b & 0xffffff) >> 32); })>);
  add("v_mul_hi_i32_i24",
      v2<([](u32 a, u32 b) { return static_cast<u32>(i64{sext24(a)} * sext24(b) >> 32); })>);
  add("v_mad_u32_u24", v3<([](u32 a, u32 b, u32 c) { return (a & 0xffffff) * (b & 0xffffff) + c; })>);
  add("v_mad_i32_i24", v3<([](u32 a, u32 b, u32 c) { return from(sext24(a)) * from(sext24(b)) + c; })>);
  add("v_mad_u64_u32", mad64<false>, Num::b64, 2);
  add("v_mad_i64_i32", mad64<true>, Num::i64, 2);
  add("v_min_u32", v2<([](u32 a, u32 b) { return std::min(a, b); })>);
  add("v_max_u32", v2<([](u32 a, u32 b) { return std::max(a, b); })>);
  add("v_min_i32", v2<([](u32 a, u32 b) { return from(std::min(sign(a), sign(b))); })>);
  add("v_max_i32", v2<([](u32 a, u32 b) { return from(std::max(sign(a), sign(b))); })>);
  add("v_min3_u32", v3<([](u32 a, u32 b, u32 c) { return std::min({a, b, c}); })>);
  add("v_max3_u32", v3<([](u32 a, u32 b, u32 c) { return std::max({a, b, c}); })>);
  add("v_med3_u32", v3<([](u32 a, u32 b, u32 c) { return median(a, b, c); })>);
  add("v_min3_i32", v3<([](u32 a, u32 b, u32 c) { return from(std::min({sign(a), sign(b), sign(c)})); })>);
  add("v_max3_i32", v3<([](u32 a, u32 b, u32 c) { return from(std::max({sign(a), sign(b), sign(c)})); })>);
  add("v_med3_i32", v3<([](u32 a, u32 b, u32 c) { return from(median(sign(a), sign(b), sign(c))); })>);
  add("v_and_b32", v2<([](u32 a, u32 b) { return a & b; })>);
  add("v_or_b32", v2<([](u32 a, u32 b) { return a | b; })>);
  add("v_xor_b32", v2<([](u32 a, u32 b) { return a ^ b; })>);
  add("v_xnor_b32", v2<([](u32 a, u32 b) { return ~(a ^ b); })>);
  add("v_and_or_b32", v3<([](u32 a, u32 b, u32 c) { return (a & b) | c; })>);
  add("v_or3_b32", v3<([](u32 a, u32 b, u32 c) { return a | b | c; })>);
  add("v_xad_u32", v3<([](u32 a, u32 b, u32 c) { return (a ^ b) + c; })>);
  add("v_add3_u32", v3<([](u32 a, u32 b, u32 c) { return a + b + c; })>);
  add("v_lshl_add_u32", v3<([](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; })>);
  add("v_add_lshl_u32", v3<([](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); })>);
  add("v_lshl_or_b32", v3<([](u32 a, u32 b, u32 c) { return a << (b & 31) | c; })>);
  add("v_lshlrev_b32", v2<([](u32 a, u32 b) { return b << (a & 31); })>);
  add("v_lshrrev_b32", v2<([](u32 a, u32 b) { return b >> (a & 31); })>);
  add("v_ashrrev_i32", v2<([](u32 a, u32 b) { return from(sign(b) >> (a & 31)); })>);
  add("v_lshlrev_b64", shift64<true, false>, Num::b64);
  add("v_lshrrev_b64", shift64<false, false>, Num::b64);
  add("v_ashrrev_i64", shift64<false, true>, Num::i64);
  add("v_lshl_add_u64", lshl_add_u64, Num::b64);
  add("v_bfe_u32", v3<bfe_u32>);
  add("v_bfe_i32", v3<bfe_i32>);
  add("v_bfi_b32", v3<([](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); })>);
  add("v_bfm_b32", v2<([](u32 a, u32 b) { return ((1U << (a & 31)) - 1) << (b & 31); })>);
  add("v_bcnt_u32_b32", v2<([](u32 a, u32 b) { return from(std::popcount(a)) + b; })>);
  add("v_mbcnt_lo_u32_b32", mbcnt<false>);
  add("v_mbcnt_hi_u32_b32", mbcnt<true>);
  add("v_alignbit_b32",
      v3<([](u32 a, u32 b, u32 c) { return static_cast<u32>((u64{a} << 32 | b) >> (c & 31)); })>);
  add("v_alignbyte_b32",
      v3<([](u32 a, u32 b, u32 c) { return static_cast<u32>((u64{a} << 32 | b) >> 8 * (c & 3)); })>);
  add("v_perm_b32", v3<perm>);
  add("v_bitop3_b32", bitop3);
  add("v_bitop3_b16", bitop3);
  add("v_sad_u8", v3<sad_u8>);
  add("v_sad_u32", v3<([](u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; })>);
  // 16-bit ones clear the upper half of the destination on these targets.
  add("v_add_u16", v2<([](u32 a, u32 b) { return h(a + b); })>);
  add("v_sub_u16", v2<([](u32 a, u32 b) { return h(a - b); })>);
  add("v_subrev_u16", v2<([](u32 a, u32 b) { return h(b - a); })>);
  add("v_mul_lo_u16", v2<([](u32 a, u32 b) { return h(h(a) * h(b)); })>);
  add("v_mad_legacy_u16", v3<([](u32 a, u32 b, u32 c) { return h(h(a) * h(b) + c); })>);
  add("v_min_u16", v2<([](u32 a, u32 b) { return std::min(h(a), h(b)); })>);
  add("v_max_u16", v2<([](u32 a, u32 b) { return std::max(h(a), h(b)); })>);
  add("v_min_i16", v2<([](u32 a, u32 b) { return h(from(std::min(hs(a), hs(b)))); })>);
  add("v_max_i16", v2<([](u32 a, u32 b) { return h(from(std::max(hs(a), hs(b)))); })>);
  add("v_lshlrev_b16", v2<([](u32 a, u32 b) { return h(b << (a & 15)); })>);
  add("v_lshrrev_b16", v2<([](u32 a, u32 b) { return h(b) >> (a & 15); })>);
  add("v_ashrrev_i16", v2<([](u32 a, u32 b) { return h(from(hs(b) >> (a & 15))); })>);
  add("v_cvt_pk_u16_u32",
      v2<([](u32 a, u32 b) { return std::min(a, 0xffffU) | std::min(b, 0xffffU) << 16; })>);
  add("v_cvt_pk_i16_i32", v2<([](u32 a, u32 b) { return clamp_i16(sign(a)) | clamp_i16(sign(b)) << 16; })>);
}

}  // namespace kiln::emulator::amdgcn
