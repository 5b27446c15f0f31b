// VOP3P: two 16-bit operations per lane, and dot products.
#include <algorithm>
#include <cmath>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/amdgcn/ops/words.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;

/// Source halves after op_sel, op_sel_hi and the neg bits: [source][0 low, 1 high].
template <int N>
struct Packed {
  Lanes half[N][2];
  std::uint64_t defined = ~std::uint64_t{0};
  Packed(const Wave& w, const Inst& in, bool floating, bool dst_last = false) {
    for (int i = 0; i < N; ++i) {
      Lanes b;
      const bool is_dst = dst_last && i == N - 1;
      const View v = w.raw(in.ops[is_dst ? 0 : static_cast<std::size_t>(i + 1)], 0, b);
      for (int h = 0; h < 2; ++h) {
        const unsigned sel =
            is_dst ? static_cast<unsigned>(h) : (h == 0 ? in.mod.op_sel : in.mod.op_sel_hi) >> i & 1U;
        const bool neg = floating && !is_dst && ((h == 0 ? in.mod.neg_lo : in.mod.neg_hi) >> i & 1);
        for (int l = 0; l < kLanes; ++l) {
          half[i][h].l[l] = (v.l[l] >> 16 * sel & 0xffff) ^ (neg ? 0x8000U : 0U);
        }
      }
      defined &= v.defined;
    }
  }
};

u32 round16(const Inst& in, double x) {
  if (in.mod.clamp) x = x > 0 ? std::min(x, 1.0) : 0.0;
  return static_cast<u32>(from_double(FloatFormat::f16, x));
}
template <auto F>
void ph2(Wave& w, const Inst& in) {
  const Packed<2> p(w, in, true);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) {
    out.l[l] = 0;
    for (int h = 0; h < 2; ++h) {
      out.l[l] |= round16(in, static_cast<double>(F(widen(p.half[0][h].l[l]), widen(p.half[1][h].l[l]))))
                  << 16 * h;
    }
  }
  w.put(in, 0, out, p.defined);
}
template <bool IntoDst>
void pk_fma_f16(Wave& w, const Inst& in) {
  const Packed<3> p(w, in, true, IntoDst);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) {
    out.l[l] = 0;
    for (int h = 0; h < 2; ++h) {
      const double a = widen(p.half[0][h].l[l]), b = widen(p.half[1][h].l[l]), c = widen(p.half[2][h].l[l]);
      out.l[l] |= round16(in, a * b + c) << 16 * h;
    }
  }
  w.put(in, 0, out, p.defined);
}
template <auto F>
void pi2(Wave& w, const Inst& in) {
  const Packed<2> p(w, in, false);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) {
    out.l[l] = (F(p.half[0][0].l[l], p.half[1][0].l[l]) & 0xffff) | F(p.half[0][1].l[l], p.half[1][1].l[l])
                                                                        << 16;
  }
  w.put(in, 0, out, p.defined);
}
template <auto F>
void pi3(Wave& w, const Inst& in) {
  const Packed<3> p(w, in, false);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) {
    out.l[l] = (F(p.half[0][0].l[l], p.half[1][0].l[l], p.half[2][0].l[l]) & 0xffff) |
               F(p.half[0][1].l[l], p.half[1][1].l[l], p.half[2][1].l[l]) << 16;
  }
  w.put(in, 0, out, p.defined);
}

enum class Dot { f16, bf16, i16, u16, i8, u8, i4, u4 };
template <Dot D>
u32 dot(u32 a, u32 b, u32 c) {
  if constexpr (D == Dot::f16 || D == Dot::bf16) {
    const auto wide = [](u32 x) {
      return D == Dot::f16 ? widen(x) : bf16_to_f32(static_cast<std::uint16_t>(x));
    };
    const float low = wide(a) * wide(b), high = wide(a >> 16) * wide(b >> 16);
    return bits_of(low + high + as_f32(c));
  } else {
    constexpr int bits = D == Dot::i16 || D == Dot::u16 ? 16 : D == Dot::i8 || D == Dot::u8 ? 8 : 4;
    constexpr bool is_signed = D == Dot::i16 || D == Dot::i8 || D == Dot::i4;
    for (int i = 0; i < 32; i += bits) {
      const u32 x = a << (32 - bits - i), y = b << (32 - bits - i);
      if (is_signed)
        c += from((static_cast<i32>(x) >> (32 - bits)) * (static_cast<i32>(y) >> (32 - bits)));
      else
        c += (x >> (32 - bits)) * (y >> (32 - bits));
    }
    return c;
  }
}
template <auto F>
void into_dst(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.raw(in.ops[0], 0, bc);
  for (int l = 0; l < kLanes; ++l) out.l[l] = F(a.l[l], b.l[l], c.l[l]);
  w.put(in, 0, out, a.defined & b.defined & c.defined);
}

}  // namespace

void add_packed_ops(OpTable& t) {
  const auto f16 = [&](const char* name, Exec exec, bool reads_dst = false) {
    t[name] = {.exec = exec, .num = Num::pk16, .reads_dst = reads_dst};
  };
  f16("v_pk_add_f16", ph2<([](float a, float b) { return a + b; })>);
  f16("v_pk_mul_f16", ph2<([](float a, float b) { return a * b; })>);
  f16("v_pk_min_f16", ph2<([](float a, float b) { return min_num(a, b); })>);
  f16("v_pk_max_f16", ph2<([](float a, float b) { return max_num(a, b); })>);
  f16("v_pk_fma_f16", pk_fma_f16<false>);
  f16("v_pk_fmac_f16", pk_fma_f16<true>, true);
  const auto i16 = [&](const char* name, Exec exec) { t[name] = {.exec = exec, .num = Num::b32}; };
  i16("v_pk_add_u16", pi2<([](u32 a, u32 b) { return a + b; })>);
  i16("v_pk_add_i16", pi2<([](u32 a, u32 b) { return a + b; })>);
  i16("v_pk_sub_u16", pi2<([](u32 a, u32 b) { return a - b; })>);
  i16("v_pk_sub_i16", pi2<([](u32 a, u32 b) { return a - b; })>);
  i16("v_pk_mul_lo_u16", pi2<([](u32 a, u32 b) { return a * b; })>);
  i16("v_pk_min_u16", pi2<([](u32 a, u32 b) { return std::min(a, b); })>);
  i16("v_pk_max_u16", pi2<([](u32 a, u32 b) { return std::max(a, b); })>);
  i16("v_pk_min_i16", pi2<([](u32 a, u32 b) { return from(std::min(s16(a), s16(b))); })>);
  i16("v_pk_max_i16", pi2<([](u32 a, u32 b) { return from(std::max(s16(a), s16(b))); })>);
  i16("v_pk_lshlrev_b16", pi2<([](u32 a, u32 b) { return b << (a & 15); })>);
  i16("v_pk_lshrrev_b16", pi2<([](u32 a, u32 b) { return b >> (a & 15); })>);
  i16("v_pk_ashrrev_i16", pi2<([](u32 a, u32 b) { return from(s16(b) >> (a & 15)); })>);
  i16("v_pk_mad_u16", pi3<([](u32 a, u32 b, u32 c) { return a * b + c; })>);
  i16("v_pk_mad_i16", pi3<([](u32 a, u32 b, u32 c) { return a * b + c; })>);

  const auto add = [&](const char* name, Exec exec, bool reads_dst = false) {
    t[name] = {.exec = exec, .reads_dst = reads_dst};
  };
  add("v_dot2_f32_f16", v3<dot<Dot::f16>>);
  add("v_dot2_f32_bf16", v3<dot<Dot::bf16>>);
  add("v_dot2_i32_i16", v3<dot<Dot::i16>>);
  add("v_dot2_u32_u16", v3<dot<Dot::u16>>);
  add("v_dot4_i32_i8", v3<dot<Dot::i8>>);
  add("v_dot4_u32_u8", v3<dot<Dot::u8>>);
  add("v_dot8_i32_i4", v3<dot<Dot::i4>>);
  add("v_dot8_u32_u4", v3<dot<Dot::u4>>);
  add("v_dot2c_f32_f16", into_dst<dot<Dot::f16>>, true);
  add("v_dot2c_f32_bf16", into_dst<dot<Dot::bf16>>, true);
  add("v_dot2c_i32_i16", into_dst<dot<Dot::i16>>, true);
  add("v_dot4c_i32_i8", into_dst<dot<Dot::i8>>, true);
  add("v_dot8c_i32_i4", into_dst<dot<Dot::i4>>, true);
}

}  // namespace kiln::emulator::amdgcn
