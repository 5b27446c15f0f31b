// Scalar ALU and hardware registers.
#include <bit>
#include <type_traits>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/amdgcn/ops/words.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

/// Results of 32- and 64-bit scalar operations; `F(a, b, scc)` may set the condition code.
template <auto F>
void s2(Wave& w, const Inst& in) {
  const bool d = w.scalar_defined(in.ops[1]) && w.scalar_defined(in.ops[2]);
  w.set_scalar32(in.ops[0], F(w.scalar32(in.ops[1]), w.scalar32(in.ops[2]), w.scc));
  if (!d && in.ops[0].kind == Operand::Kind::sgpr)
    w.s_defined[in.ops[0].reg >> 6] &= ~(u64{1} << (in.ops[0].reg & 63));
}
template <auto F>
void s1(Wave& w, const Inst& in) {
  const bool d = w.scalar_defined(in.ops[1]);
  w.set_scalar32(in.ops[0], F(w.scalar32(in.ops[1]), w.scc));
  if (!d && in.ops[0].kind == Operand::Kind::sgpr)
    w.s_defined[in.ops[0].reg >> 6] &= ~(u64{1} << (in.ops[0].reg & 63));
}
// 64-bit ones are mostly lane masks, which start out undefined on purpose: their results count as defined.
template <auto F>
void s2x(Wave& w, const Inst& in) {
  w.set_scalar64(in.ops[0], F(w.scalar64(in.ops[1]), w.scalar64(in.ops[2]), w.scc));
}
template <auto F>
void s1x(Wave& w, const Inst& in) {
  w.set_scalar64(in.ops[0], F(w.scalar64(in.ops[1]), w.scc));
}
/// 64-bit operand, 32-bit result.
template <auto F>
void s1n(Wave& w, const Inst& in) {
  w.set_scalar32(in.ops[0], F(w.scalar64(in.ops[1]), w.scc));
}
template <auto F>
void cmp(Wave& w, const Inst& in) {
  w.scc = F(w.scalar32(in.ops[0]), w.scalar32(in.ops[1]));
}
template <auto F>
void cmpx(Wave& w, const Inst& in) {
  w.scc = F(w.scalar64(in.ops[0]), w.scalar64(in.ops[1]));
}
/// D = EXEC; EXEC = F(S, EXEC).
template <auto F>
void saveexec(Wave& w, const Inst& in) {
  const u64 source = w.scalar64(in.ops[1]), exec = w.exec();
  w.set_scalar64(in.ops[0], exec);
  w.set_s64(kExec, F(source, exec));
  w.scc = w.exec() != 0;
}
template <auto F>
void wrexec(Wave& w, const Inst& in) {
  const u64 result = F(w.scalar64(in.ops[1]), w.exec());
  w.set_s64(kExec, result);
  w.set_scalar64(in.ops[0], result);
  w.scc = result != 0;
}
/// SOPK: the destination is the first source.
template <auto F>
void sk(Wave& w, const Inst& in) {
  w.set_scalar32(in.ops[0], F(w.scalar32(in.ops[0]),
                              static_cast<u32>(static_cast<std::int16_t>(in.ops[1].literal)), w.scc));
}
template <auto F>
void cmpk(Wave& w, const Inst& in) {
  w.scc = F(w.scalar32(in.ops[0]), static_cast<std::uint16_t>(in.ops[1].literal));
}

/// Bits from `offset` on; b: offset, from bit 16 on the width.
template <typename U>
U bfe_unsigned(U a, U b, bool& c) {
  constexpr U kBits = 8 * sizeof(U);
  const U offset = b & (kBits - 1), width = b >> 16 & 127;
  const U r = width == 0 ? 0 : width >= kBits ? a >> offset : a >> offset & ((U{1} << width) - 1);
  c = r != 0;
  return r;
}
template <typename U>
U bfe_signed(U a, U b, bool& c) {
  constexpr U kBits = 8 * sizeof(U);
  const U offset = b & (kBits - 1), width = b >> 16 & 127;
  U r = 0;
  if (width != 0) {
    const U used = width + offset > kBits ? kBits - offset : width;
    r = static_cast<U>(static_cast<std::make_signed_t<U>>(a << (kBits - used - offset)) >> (kBits - used));
  }
  c = r != 0;
  return r;
}
template <int N>
u32 lshl_add(u32 a, u32 b, bool& c) {
  const u64 r = (u64{a} << N) + b;
  c = r >> 32 != 0;
  return static_cast<u32>(r);
}

void mov32(Wave& w, const Inst& in) {
  const bool d = w.scalar_defined(in.ops[1]);
  w.set_scalar32(in.ops[0], w.scalar32(in.ops[1]));
  if (!d && in.ops[0].kind == Operand::Kind::sgpr)
    w.s_defined[in.ops[0].reg >> 6] &= ~(u64{1} << (in.ops[0].reg & 63));
}
void movk(Wave& w, const Inst& in) {
  w.set_scalar32(in.ops[0], static_cast<u32>(s16(static_cast<u32>(in.ops[1].literal))));
}
void cmov32(Wave& w, const Inst& in) {
  if (w.scc) w.set_scalar32(in.ops[0], w.scalar32(in.ops[1]));
}
void cmov64(Wave& w, const Inst& in) {
  if (w.scc) w.set_scalar64(in.ops[0], w.scalar64(in.ops[1]));
}
void cmovk(Wave& w, const Inst& in) {
  if (w.scc) movk(w, in);
}
void cselect32(Wave& w, const Inst& in) {
  const Operand& o = in.ops[w.scc ? 1 : 2];
  w.set_scalar32(in.ops[0], w.scalar32(o));
}
void cselect64(Wave& w, const Inst& in) {
  w.set_scalar64(in.ops[0], w.scalar64(in.ops[w.scc ? 1 : 2]));
}
void bitset(Wave& w, const Inst& in, bool value, bool wide) {
  const u32 bit = w.scalar32(in.ops[1]) & (wide ? 63 : 31);
  u64 x = wide ? w.scalar64(in.ops[0]) : w.scalar32(in.ops[0]);
  x = value ? x | u64{1} << bit : x & ~(u64{1} << bit);
  if (wide)
    w.set_scalar64(in.ops[0], x);
  else
    w.set_scalar32(in.ops[0], static_cast<u32>(x));
}
void bitcmp(Wave& w, const Inst& in, bool value, bool wide) {
  const u32 bit = w.scalar32(in.ops[1]) & (wide ? 63 : 31);
  w.scc = ((w.scalar64(in.ops[0]) >> bit & 1) != 0) == value;
}
void getreg(Wave& w, const Inst& in) {
  const Modifiers& m = in.mod;
  u64 value = m.hwreg == 1 ? w.mode : 0;
  if (m.hwreg == 4) value = static_cast<u64>(w.index);                        // HW_ID
  if (m.hwreg == 15) value = kSharedAperture >> 32 | kPrivateAperture >> 48;  // SH_MEM_BASES
  value >>= m.hwreg_offset;
  w.set_scalar32(in.ops[0],
                 static_cast<u32>(m.hwreg_bits >= 32 ? value : value & ((u64{1} << m.hwreg_bits) - 1)));
}
void setreg(Wave& w, const Inst& in) {
  const Modifiers& m = in.mod;
  if (m.hwreg != 1) return;
  const u64 field = (m.hwreg_bits >= 32 ? u64{0xffffffff} : (u64{1} << m.hwreg_bits) - 1) << m.hwreg_offset;
  w.mode = static_cast<u32>((w.mode & ~field) | (u64{w.scalar32(in.ops[0])} << m.hwreg_offset & field));
}
}  // namespace

void add_scalar_ops(OpTable& t) {
  const auto add = [&](const char* name, Exec exec, Num num = Num::b32, bool reads_dst = false) {
    t[name] = {.exec = exec, .cls = Class::salu, .num = num, .dsts = 1, .reads_dst = reads_dst};
  };
  const auto compare = [&](const char* name, Exec exec, Num num = Num::b32) {
    t[name] = {.exec = exec, .cls = Class::salu, .num = num, .dsts = 0};
  };
  add("s_mov_b32", mov32);
  add("s_mov_b64", s1x<([](u64 a, bool&) { return a; })>, Num::b64);
  add("s_movk_i32", movk);
  add("s_cmov_b32", cmov32, Num::b32, true);
  add("s_cmov_b64", cmov64, Num::b64, true);
  add("s_cmovk_i32", cmovk, Num::b32, true);
  add("s_cselect_b32", cselect32);
  add("s_cselect_b64", cselect64, Num::b64);
  add("s_add_u32", s2<([](u32 a, u32 b, bool& c) {
        c = (u64{a} + b) >> 32;
        return a + b;
      })>);
  add("s_sub_u32", s2<([](u32 a, u32 b, bool& c) {
        c = b > a;
        return a - b;
      })>);
  add("s_addc_u32", s2<([](u32 a, u32 b, bool& c) {
        const u64 r = u64{a} + b + c;
        c = r >> 32;
        return static_cast<u32>(r);
      })>);
  add("s_subb_u32", s2<([](u32 a, u32 b, bool& c) {
        const u64 r = u64{a} - b - c;
        c = r >> 63;
        return static_cast<u32>(r);
      })>);
  add("s_add_i32", s2<([](u32 a, u32 b, bool& c) {
        const u32 r = a + b;
        c = (~(a ^ b) & (a ^ r)) >> 31;
        return r;
      })>);
  add("s_sub_i32", s2<([](u32 a, u32 b, bool& c) {
        const u32 r = a - b;
        c = ((a ^ b) & (a ^ r)) >> 31;
        return r;
      })>);
  add("s_addk_i32", sk<([](u32 a, u32 b, bool& c) {
        const u32 r = a + b;
        c = (~(a ^ b) & (a ^ r)) >> 31;
        return r;
      })>,
      Num::b32, true);
  add("s_mulk_i32", sk<([](u32 a, u32 b, bool&) { return a * b; })>, Num::b32, true);
  add("s_mul_i32", s2<([](u32 a, u32 b, bool&) { return a * b; })>);
  add("s_mul_hi_u32", s2<([](u32 a, u32 b, bool&) { return static_cast<u32>(u64{a} * b >> 32); })>);
  add("s_mul_hi_i32",
      s2<([](u32 a, u32 b, bool&) { return static_cast<u32>(i64{sign(a)} * sign(b) >> 32); })>);
  add("s_min_i32", s2<([](u32 a, u32 b, bool& c) {
        c = sign(a) < sign(b);
        return c ? a : b;
      })>);
  add("s_min_u32", s2<([](u32 a, u32 b, bool& c) {
        c = a < b;
        return c ? a : b;
      })>);
  add("s_max_i32", s2<([](u32 a, u32 b, bool& c) {
        c = sign(a) > sign(b);
        return c ? a : b;
      })>);
  add("s_max_u32", s2<([](u32 a, u32 b, bool& c) {
        c = a > b;
        return c ? a : b;
      })>);
  add("s_absdiff_i32", s2<([](u32 a, u32 b, bool& c) {
        const u32 r = sign(a) > sign(b) ? a - b : b - a;
        c = r != 0;
        return r;
      })>);
  add("s_abs_i32", s1<([](u32 a, bool& c) {
        const u32 r = sign(a) < 0 ? 0 - a : a;
        c = r != 0;
        return r;
      })>);
  add("s_lshl_b32", s2<([](u32 a, u32 b, bool& c) {
        const u32 r = a << (b & 31);
        c = r != 0;
        return r;
      })>);
  add("s_lshr_b32", s2<([](u32 a, u32 b, bool& c) {
        const u32 r = a >> (b & 31);
        c = r != 0;
        return r;
      })>);
  add("s_ashr_i32", s2<([](u32 a, u32 b, bool& c) {
        const u32 r = static_cast<u32>(sign(a) >> (b & 31));
        c = r != 0;
        return r;
      })>);
  add("s_lshl_b64", s2x<([](u64 a, u64 b, bool& c) {
        const u64 r = a << (b & 63);
        c = r != 0;
        return r;
      })>,
      Num::b64);
  add("s_lshr_b64", s2x<([](u64 a, u64 b, bool& c) {
        const u64 r = a >> (b & 63);
        c = r != 0;
        return r;
      })>,
      Num::b64);
  add("s_ashr_i64", s2x<([](u64 a, u64 b, bool& c) {
        const u64 r = static_cast<u64>(static_cast<i64>(a) >> (b & 63));
        c = r != 0;
        return r;
      })>,
      Num::i64);
  add("s_lshl1_add_u32", s2<lshl_add<1>>);
  add("s_lshl2_add_u32", s2<lshl_add<2>>);
  add("s_lshl3_add_u32", s2<lshl_add<3>>);
  add("s_lshl4_add_u32", s2<lshl_add<4>>);
  add("s_bfe_u32", s2<bfe_unsigned<u32>>);
  add("s_bfe_i32", s2<bfe_signed<u32>>);
  add("s_bfe_u64", s2x<bfe_unsigned<u64>>, Num::b64);
  add("s_bfe_i64", s2x<bfe_signed<u64>>, Num::b64);
  add("s_bfm_b32", s2<([](u32 a, u32 b, bool&) { return ((1U << (a & 31)) - 1) << (b & 31); })>);
  add("s_bfm_b64", s2x<([](u64 a, u64 b, bool&) { return ((u64{1} << (a & 63)) - 1) << (b & 63); })>,
      Num::b64);
  add("s_pack_ll_b32_b16", s2<([](u32 a, u32 b, bool&) { return (a & 0xffff) | b << 16; })>);
  add("s_pack_lh_b32_b16", s2<([](u32 a, u32 b, bool&) { return (a & 0xffff) | (b & 0xffff0000U); })>);
  add("s_pack_hh_b32_b16", s2<([](u32 a, u32 b, bool&) { return a >> 16 | (b & 0xffff0000U); })>);
  add("s_brev_b32", s1<([](u32 a, bool&) {
        u32 r = 0;
        for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
        return r;
      })>);
  add("s_brev_b64", s1x<([](u64 a, bool&) {
        u64 r = 0;
        for (int i = 0; i < 64; ++i) r |= (a >> i & 1) << (63 - i);
        return r;
      })>,
      Num::b64);
  add("s_bcnt0_i32_b32", s1<([](u32 a, bool& c) {
        const u32 r = static_cast<u32>(32 - std::popcount(a));
        c = r != 0;
        return r;
      })>);
  add("s_bcnt1_i32_b32", s1<([](u32 a, bool& c) {
        const u32 r = static_cast<u32>(std::popcount(a));
        c = r != 0;
        return r;
      })>);
  add("s_bcnt0_i32_b64", s1n<([](u64 a, bool& c) {
        const u32 r = static_cast<u32>(64 - std::popcount(a));
        c = r != 0;
        return r;
      })>,
      Num::b64);
  add("s_bcnt1_i32_b64", s1n<([](u64 a, bool& c) {
        const u32 r = static_cast<u32>(std::popcount(a));
        c = r != 0;
        return r;
      })>,
      Num::b64);
  add("s_ff0_i32_b32",
      s1<([](u32 a, bool&) { return ~a == 0 ? ~0U : static_cast<u32>(std::countr_one(a)); })>);
  add("s_ff1_i32_b32",
      s1<([](u32 a, bool&) { return a == 0 ? ~0U : static_cast<u32>(std::countr_zero(a)); })>);
  add("s_ff0_i32_b64",
      s1n<([](u64 a, bool&) { return ~a == 0 ? ~0U : static_cast<u32>(std::countr_one(a)); })>, Num::b64);
  add("s_ff1_i32_b64",
      s1n<([](u64 a, bool&) { return a == 0 ? ~0U : static_cast<u32>(std::countr_zero(a)); })>, Num::b64);
  add("s_flbit_i32_b32",
      s1<([](u32 a, bool&) { return a == 0 ? ~0U : static_cast<u32>(std::countl_zero(a)); })>);
  add("s_flbit_i32_b64",
      s1n<([](u64 a, bool&) { return a == 0 ? ~0U : static_cast<u32>(std::countl_zero(a)); })>, Num::b64);
  add("s_flbit_i32", s1<([](u32 a, bool&) {
        const u32 x = sign(a) < 0 ? ~a : a;
        return x == 0 ? ~0U : static_cast<u32>(std::countl_zero(x));
      })>);
  add("s_sext_i32_i8", s1<([](u32 a, bool&) { return static_cast<u32>(static_cast<std::int8_t>(a)); })>);
  add("s_sext_i32_i16", s1<([](u32 a, bool&) { return static_cast<u32>(s16(a)); })>);
  add(
      "s_bitset0_b32", [](Wave& w, const Inst& in) { bitset(w, in, false, false); }, Num::b32, true);
  add(
      "s_bitset1_b32", [](Wave& w, const Inst& in) { bitset(w, in, true, false); }, Num::b32, true);
  add(
      "s_bitset0_b64", [](Wave& w, const Inst& in) { bitset(w, in, false, true); }, Num::b64, true);
  add(
      "s_bitset1_b64", [](Wave& w, const Inst& in) { bitset(w, in, true, true); }, Num::b64, true);
  add("s_not_b32", s1<([](u32 a, bool& c) {
        const u32 r = ~a;
        c = r != 0;
        return r;
      })>);
  add("s_not_b64", s1x<([](u64 a, bool& c) {
        const u64 r = ~a;
        c = r != 0;
        return r;
      })>,
      Num::b64);
  add("s_wqm_b64", s1x<([](u64 a, bool& c) {
        u64 r = 0;
        for (int i = 0; i < 64; i += 4)
          if (a >> i & 15) r |= u64{15} << i;
        c = r != 0;
        return r;
      })>,
      Num::b64);

#define LOGIC(name, expression)                          \
  add("s_" name "_b32", s2<([](u32 a, u32 b, bool& c) {  \
        const u32 r = (expression);                      \
        c = r != 0;                                      \
        return r;                                        \
      })>);                                              \
  add("s_" name "_b64", s2x<([](u64 a, u64 b, bool& c) { \
        const u64 r = (expression);                      \
        c = r != 0;                                      \
        return r;                                        \
      })>,                                               \
      Num::b64);                                         \
  add("s_" name "_saveexec_b64", saveexec<([](u64 a, u64 b) -> u64 { return (expression); })>, Num::b64)
  LOGIC("and", a & b);
  LOGIC("or", a | b);
  LOGIC("xor", a ^ b);
  LOGIC("andn2", a & ~b);
  LOGIC("orn2", a | ~b);
  LOGIC("nand", ~(a & b));
  LOGIC("nor", ~(a | b));
  LOGIC("xnor", ~(a ^ b));
#undef LOGIC
  add("s_andn1_saveexec_b64", saveexec<([](u64 a, u64 b) -> u64 { return ~a & b; })>, Num::b64);
  add("s_orn1_saveexec_b64", saveexec<([](u64 a, u64 b) -> u64 { return ~a | b; })>, Num::b64);
  add("s_andn1_wrexec_b64", wrexec<([](u64 a, u64 b) -> u64 { return ~a & b; })>, Num::b64);
  add("s_andn2_wrexec_b64", wrexec<([](u64 a, u64 b) -> u64 { return a & ~b; })>, Num::b64);

#define COMPARE(name, operation)                                                                 \
  compare("s_cmp_" name "_i32", cmp<([](u32 a, u32 b) { return sign(a) operation sign(b); })>);  \
  compare("s_cmp_" name "_u32", cmp<([](u32 a, u32 b) { return a operation b; })>);              \
  compare("s_cmpk_" name "_i32", cmpk<([](u32 a, u32 b) { return sign(a) operation s16(b); })>); \
  compare("s_cmpk_" name "_u32", cmpk<([](u32 a, u32 b) { return a operation(b & 0xffff); })>)
  COMPARE("eq", ==);
  COMPARE("lg", !=);
  COMPARE("gt", >);
  COMPARE("ge", >=);
  COMPARE("lt", <);
  COMPARE("le", <=);
#undef COMPARE
  compare("s_cmp_eq_u64", cmpx<([](u64 a, u64 b) { return a == b; })>, Num::b64);
  compare("s_cmp_lg_u64", cmpx<([](u64 a, u64 b) { return a != b; })>, Num::b64);
  compare("s_bitcmp0_b32", [](Wave& w, const Inst& in) { bitcmp(w, in, false, false); });
  compare("s_bitcmp1_b32", [](Wave& w, const Inst& in) { bitcmp(w, in, true, false); });
  compare(
      "s_bitcmp0_b64", [](Wave& w, const Inst& in) { bitcmp(w, in, false, true); }, Num::b64);
  compare(
      "s_bitcmp1_b64", [](Wave& w, const Inst& in) { bitcmp(w, in, true, true); }, Num::b64);
  compare("s_setreg_b32", setreg);
  compare("s_setreg_imm32_b32", [](Wave& w, const Inst& in) { setreg(w, in); });
  add("s_getreg_b32", getreg);
}

}  // namespace kiln::emulator::amdgcn
