// Vector f32 and f64 arithmetic. Rounding is to nearest even, denormals are kept (the mode every compiler
// sets up); the transcendental instructions flush denormal results, as the hardware does.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/tensor/multiversion.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

KILN_MULTIVERSION void fma_lanes(const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
                                 std::uint32_t* out) {
  for (int l = 0; l < kLanes; ++l) {
    out[l] = __builtin_bit_cast(
        std::uint32_t, __builtin_fmaf(__builtin_bit_cast(float, a[l]), __builtin_bit_cast(float, b[l]),
                                      __builtin_bit_cast(float, c[l])));
  }
}
void fma_f32(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.source(in, 3, bc);
  fma_lanes(a.l, b.l, c.l, out.l);
  w.put_f32(in, 0, out, a.defined & b.defined & c.defined);
}
void fmac_f32(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.raw(in.ops[0], 0, bc);
  fma_lanes(a.l, b.l, c.l, out.l);
  w.put_f32(in, 0, out, a.defined & b.defined & c.defined);
}
/// Unfused: the product is rounded before the addition.
void mac_f32(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.raw(in.ops[0], 0, bc);
  for (int l = 0; l < kLanes; ++l) {
    const float product = as_f32(a.l[l]) * as_f32(b.l[l]);
    out.l[l] = bits_of(product + as_f32(c.l[l]));
  }
  w.put_f32(in, 0, out, a.defined & b.defined & c.defined);
}
float mad(float a, float b, float c) {
  const float product = a * b;
  return product + c;
}
/// Both packed halves of an f32 pair; op_sel picks the register of each source for the low result, op_sel_hi
/// for the high one.
template <int Sources, auto F>
void packed_f32(Wave& w, const Inst& in) {
  Lanes b[3][2], out[2];
  u64 defined[2] = {~u64{0}, ~u64{0}};
  for (int half = 0; half < 2; ++half) {
    View s[3] = {};
    for (int i = 0; i < Sources; ++i) {
      const unsigned sel = (half == 0 ? in.mod.op_sel : in.mod.op_sel_hi) >> i & 1;
      const Operand& o = in.ops[static_cast<std::size_t>(i + 1)];
      // A single register (a scalar, or an inline constant) serves both halves.
      s[i] = w.raw(o, static_cast<int>(sel), b[i][half]);
      if (o.kind == Operand::Kind::sgpr && o.dwords == 1) s[i] = w.raw(o, 0, b[i][half]);
      if ((half == 0 ? in.mod.neg_lo : in.mod.neg_hi) >> i & 1) {
        for (int l = 0; l < kLanes; ++l) b[i][half].l[l] = s[i].l[l] ^ 0x80000000U;
        s[i].l = b[i][half].l;
      }
      defined[half] &= s[i].defined;
    }
    F(s, out[half]);
  }
  w.put_f32(in, 0, out[0], defined[0], 0);
  w.put_f32(in, 0, out[1], defined[1], 1);
}

float flush(float x) {
  return flush_subnormal(x);
}
float exp2_flushed(float x) {
  return flush(static_cast<float>(std::exp2(static_cast<double>(flush(x)))));
}
float log2_flushed(float x) {
  const float f = flush(x);
  return f == 0 ? -kInf : f < 0 ? kNan : static_cast<float>(std::log2(static_cast<double>(f)));
}
float rcp(float x) {
  const float f = flush(x);
  return flush(1.0F / f);
}
float rsq(float x) {
  const float f = flush(x);
  return f < 0 ? kNan : static_cast<float>(1.0 / std::sqrt(static_cast<double>(f)));
}
/// Inputs are in revolutions.
float turn(float x, bool cosine) {
  if (std::isinf(x)) return kNan;
  const double f = static_cast<double>(x) - std::floor(static_cast<double>(x));
  const double angle = f * 6.283185307179586476925286766559;
  return static_cast<float>(cosine ? std::cos(angle) : std::sin(angle));
}
float fract(float x) {
  const float r = x - std::floor(x);
  return r >= 1.0F ? 0x1.fffffep-1F : r;
}
float frexp_mantissa(float x) {
  int e = 0;
  return std::isfinite(x) ? std::frexp(x, &e) : x;
}
template <class T>
u32 frexp_exponent(T x) {
  int e = 0;
  if (!std::isfinite(x) || x == 0) return 0;
  std::frexp(x, &e);
  return static_cast<u32>(e);
}

/// v_div_scale: prepares operand S0 (numerator S2 or denominator S1) so that the Newton steps of a division
/// neither overflow nor lose denormals; VCC says that v_div_fmas must scale the result back.
template <class T>
T scale_for_division(T s0, T s1, T s2, bool& vcc) {
  constexpr bool wide = sizeof(T) == 8;
  constexpr int big = wide ? 768 : 96, step = wide ? 128 : 64, low = wide ? 53 : 23;
  const auto exponent = [](T x) { return x == 0 ? -100000 : std::ilogb(x); };
  constexpr int bias_min = wide ? -1022 : -126;
  vcc = false;
  if (s2 == 0 || s1 == 0 || s1 != s1 || s2 != s2) return std::numeric_limits<T>::quiet_NaN();
  const bool s0_is_s1 = std::memcmp(&s0, &s1, sizeof s0) == 0;
  const bool s0_is_s2 = std::memcmp(&s0, &s2, sizeof s0) == 0;
  const auto subnormal = [](T x) { return std::fabs(x) < std::numeric_limits<T>::min(); };
  if (exponent(s2) - exponent(s1) >= big) {
    vcc = true;
    return s0_is_s1 ? std::ldexp(s0, step) : s0;
  }
  if (subnormal(s1)) return std::ldexp(s0, step);
  const T reciprocal = T{1} / s1, quotient = s2 / s1;
  if (subnormal(reciprocal) && subnormal(quotient)) {
    vcc = true;
    return s0_is_s1 ? std::ldexp(s0, step) : s0;
  }
  if (subnormal(reciprocal)) return std::ldexp(s0, -step);
  if (subnormal(quotient)) {
    vcc = true;
    return s0_is_s2 ? std::ldexp(s0, step) : s0;
  }
  if (exponent(s2) <= bias_min + low) return std::ldexp(s0, step);
  return s0;
}
void div_scale_f32(Wave& w, const Inst& in) {  // v, vcc, s0, s1, s2
  Lanes b0, b1, b2, out;
  const View s0 = w.raw(in.ops[2], 0, b0), s1 = w.raw(in.ops[3], 0, b1), s2 = w.raw(in.ops[4], 0, b2);
  u64 mask = 0;
  const auto signed_value = [&](const View& v, int i, int l) {
    const float x = as_f32(v.l[l]);
    return in.ops[static_cast<std::size_t>(i)].neg ? -x : x;
  };
  for (int l = 0; l < kLanes; ++l) {
    bool vcc = false;
    out.l[l] = bits_of(
        scale_for_division(signed_value(s0, 2, l), signed_value(s1, 3, l), signed_value(s2, 4, l), vcc));
    mask |= u64{vcc} << l;
  }
  w.put(in, 0, out, s0.defined & s1.defined & s2.defined);
  w.put_mask(in.ops[1], mask & w.exec());
}
void div_scale_f64(Wave& w, const Inst& in) {
  const Wide s0(w, in, 2), s1(w, in, 3), s2(w, in, 4);
  Lanes low, high;
  u64 mask = 0;
  for (int l = 0; l < kLanes; ++l) {
    bool vcc = false;
    split(low, high, l, bits_of(scale_for_division(as_f64(s0[l]), as_f64(s1[l]), as_f64(s2[l]), vcc)));
    mask |= u64{vcc} << l;
  }
  w.put_f64(in, 0, low, high, s0.defined() & s1.defined() & s2.defined());
  w.put_mask(in.ops[1], mask & w.exec());
}
void div_fmas_f32(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.source(in, 3, bc);
  const u64 vcc = w.s64(kVcc);
  for (int l = 0; l < kLanes; ++l) {
    float r = std::fma(as_f32(a.l[l]), as_f32(b.l[l]), as_f32(c.l[l]));
    if (vcc >> l & 1) r = std::ldexp(r, std::fabs(as_f32(c.l[l])) >= 2.0F ? 64 : -64);
    out.l[l] = bits_of(r);
  }
  w.put_f32(in, 0, out, a.defined & b.defined & c.defined);
}
/// S0 the approximate quotient, S1 the denominator, S2 the numerator: the special cases of the division.
template <class T>
T fix_division(T q, T den, T num) {
  const bool negative = std::signbit(den) != std::signbit(num);
  const T inf = std::numeric_limits<T>::infinity();
  if (num != num) return num;
  if (den != den) return den;
  if ((num == 0 && den == 0) || (std::isinf(num) && std::isinf(den)))
    return std::numeric_limits<T>::quiet_NaN();
  if (den == 0 || std::isinf(num)) return negative ? -inf : inf;
  if (std::isinf(den) || num == 0) return negative ? -T{0} : T{0};
  return negative ? -std::fabs(q) : std::fabs(q);
}

// f64 on register pairs.
template <auto F>
void d1(Wave& w, const Inst& in) {
  const Wide a(w, in, 1);
  Lanes low, high;
  for (int l = 0; l < kLanes; ++l) split(low, high, l, bits_of(F(as_f64(a[l]))));
  w.put_f64(in, 0, low, high, a.defined());
}
template <auto F>
void d2(Wave& w, const Inst& in) {
  const Wide a(w, in, 1), b(w, in, 2);
  Lanes low, high;
  for (int l = 0; l < kLanes; ++l) split(low, high, l, bits_of(F(as_f64(a[l]), as_f64(b[l]))));
  w.put_f64(in, 0, low, high, a.defined() & b.defined());
}
template <auto F>
void d3(Wave& w, const Inst& in) {
  const Wide a(w, in, 1), b(w, in, 2), c(w, in, 3);
  Lanes low, high;
  for (int l = 0; l < kLanes; ++l) split(low, high, l, bits_of(F(as_f64(a[l]), as_f64(b[l]), as_f64(c[l]))));
  w.put_f64(in, 0, low, high, a.defined() & b.defined() & c.defined());
}
void fmac_f64(Wave& w, const Inst& in) {
  const Wide a(w, in, 1), b(w, in, 2), c(w, in, 0);
  Lanes low, high;
  for (int l = 0; l < kLanes; ++l)
    split(low, high, l, bits_of(std::fma(as_f64(a[l]), as_f64(b[l]), as_f64(c[l]))));
  w.put_f64(in, 0, low, high, a.defined() & b.defined() & c.defined());
}
void div_fmas_f64(Wave& w, const Inst& in) {
  const Wide a(w, in, 1), b(w, in, 2), c(w, in, 3);
  Lanes low, high;
  const u64 vcc = w.s64(kVcc);
  for (int l = 0; l < kLanes; ++l) {
    double r = std::fma(as_f64(a[l]), as_f64(b[l]), as_f64(c[l]));
    if (vcc >> l & 1) r = std::ldexp(r, std::fabs(as_f64(c[l])) >= 2.0 ? 128 : -128);
    split(low, high, l, bits_of(r));
  }
  w.put_f64(in, 0, low, high, a.defined() & b.defined() & c.defined());
}
void ldexp_f64(Wave& w, const Inst& in) {
  const Wide a(w, in, 1);
  Lanes bn, low, high;
  const View n = w.source(in, 2, bn);
  for (int l = 0; l < kLanes; ++l)
    split(low, high, l, bits_of(std::ldexp(as_f64(a[l]), static_cast<int>(n.l[l]))));
  w.put_f64(in, 0, low, high, a.defined() & n.defined);
}

float minimum(float a, float b) {
  return a != a || b != b ? kNan : min_num(a, b);
}
float maximum(float a, float b) {
  return a != a || b != b ? kNan : max_num(a, b);
}

template <auto F>
void packed2(const View* s, Lanes& out) {
  for (int l = 0; l < kLanes; ++l) out.l[l] = bits_of(F(as_f32(s[0].l[l]), as_f32(s[1].l[l])));
}
void packed_fma(const View* s, Lanes& out) {
  fma_lanes(s[0].l, s[1].l, s[2].l, out.l);
}
void pk_mov(Wave& w, const Inst& in) {  // low from S0 by op_sel[0], high from S1 by op_sel[1]
  Lanes ba, bb, low, high;
  const View a = w.raw(in.ops[1], in.mod.op_sel & 1, ba), b = w.raw(in.ops[2], in.mod.op_sel >> 1 & 1, bb);
  std::copy_n(a.l, kLanes, low.l);
  std::copy_n(b.l, kLanes, high.l);
  w.put(in, 0, low, a.defined, 0);
  w.put(in, 0, high, b.defined, 1);
}

}  // namespace

void add_float_ops(OpTable& t) {
  const auto f32 = [&](const char* name, Exec exec, bool reads_dst = false) {
    t[name] = {.exec = exec, .num = Num::f32, .reads_dst = reads_dst};
  };
  const auto slow = [&](const char* name, Exec exec, Num num = Num::f32) {
    t[name] = {.exec = exec, .cls = Class::transcendental, .num = num};
  };
  const auto f64 = [&](const char* name, Exec exec, bool reads_dst = false) {
    t[name] = {.exec = exec, .num = Num::f64, .reads_dst = reads_dst};
  };
  f32("v_add_f32", f2<([](float a, float b) { return a + b; })>);
  f32("v_sub_f32", f2<([](float a, float b) { return a - b; })>);
  f32("v_subrev_f32", f2<([](float a, float b) { return b - a; })>);
  f32("v_mul_f32", f2<([](float a, float b) { return a * b; })>);
  f32("v_mul_legacy_f32", f2<([](float a, float b) { return a == 0 || b == 0 ? 0.0F : a * b; })>);
  f32("v_min_f32", f2<([](float a, float b) { return min_num(a, b); })>);
  f32("v_max_f32", f2<([](float a, float b) { return max_num(a, b); })>);
  f32("v_min3_f32", f3<([](float a, float b, float c) { return min_num(min_num(a, b), c); })>);
  f32("v_max3_f32", f3<([](float a, float b, float c) { return max_num(max_num(a, b), c); })>);
  f32("v_minimum3_f32", f3<([](float a, float b, float c) { return minimum(minimum(a, b), c); })>);
  f32("v_maximum3_f32", f3<([](float a, float b, float c) { return maximum(maximum(a, b), c); })>);
  f32("v_med3_f32", f3<([](float a, float b, float c) { return med3(a, b, c); })>);
  f32("v_fma_f32", fma_f32);
  f32("v_fmaak_f32", fma_f32);
  f32("v_fmamk_f32", fma_f32);
  f32("v_fmac_f32", fmac_f32, true);
  f32("v_mac_f32", mac_f32, true);
  f32("v_mad_f32", f3<mad>);
  f32("v_madak_f32", f3<mad>);
  f32("v_madmk_f32", f3<mad>);
  f32("v_fract_f32", f1<fract>);
  f32("v_trunc_f32", f1<([](float x) { return std::trunc(x); })>);
  f32("v_ceil_f32", f1<([](float x) { return std::ceil(x); })>);
  f32("v_floor_f32", f1<([](float x) { return std::floor(x); })>);
  f32("v_rndne_f32", f1<([](float x) { return std::nearbyint(x); })>);
  f32("v_frexp_mant_f32", f1<frexp_mantissa>);
  f32("v_frexp_exp_i32_f32", v1<([](u32 x) { return frexp_exponent(as_f32(x)); })>);
  f32("v_ldexp_f32", v2<([](u32 a, u32 b) { return bits_of(std::ldexp(as_f32(a), static_cast<int>(b))); })>);
  f32("v_div_fixup_f32", f3<([](float q, float d, float n) { return fix_division(q, d, n); })>);
  f32("v_div_fmas_f32", div_fmas_f32);
  t["v_div_scale_f32"] = {.exec = div_scale_f32, .num = Num::f32, .dsts = 2};
  t["v_div_scale_f64"] = {.exec = div_scale_f64, .num = Num::f64, .dsts = 2};
  slow("v_exp_f32", f1<exp2_flushed>);
  slow("v_log_f32", f1<log2_flushed>);
  slow("v_exp_legacy_f32", f1<exp2_flushed>);
  slow("v_log_legacy_f32", f1<log2_flushed>);
  slow("v_rcp_f32", f1<rcp>);
  slow("v_rcp_iflag_f32", f1<rcp>);
  slow("v_rsq_f32", f1<rsq>);
  slow("v_sqrt_f32", f1<([](float x) { return std::sqrt(flush(x)); })>);
  slow("v_sin_f32", f1<([](float x) { return turn(x, false); })>);
  slow("v_cos_f32", f1<([](float x) { return turn(x, true); })>);

  t["v_pk_fma_f32"] = {.exec = packed_f32<3, packed_fma>, .num = Num::pkf32};
  t["v_pk_mul_f32"] = {.exec = packed_f32<2, packed2<([](float a, float b) { return a * b; })>>,
                       .num = Num::pkf32};
  t["v_pk_add_f32"] = {.exec = packed_f32<2, packed2<([](float a, float b) { return a + b; })>>,
                       .num = Num::pkf32};
  t["v_pk_mov_b32"] = {.exec = pk_mov, .num = Num::b64};

  f64("v_add_f64", d2<([](double a, double b) { return a + b; })>);
  f64("v_mul_f64", d2<([](double a, double b) { return a * b; })>);
  f64("v_min_f64", d2<([](double a, double b) { return min_num(a, b); })>);
  f64("v_max_f64", d2<([](double a, double b) { return max_num(a, b); })>);
  f64("v_fma_f64", d3<([](double a, double b, double c) { return std::fma(a, b, c); })>);
  f64("v_fmac_f64", fmac_f64, true);
  f64("v_trunc_f64", d1<([](double x) { return std::trunc(x); })>);
  f64("v_ceil_f64", d1<([](double x) { return std::ceil(x); })>);
  f64("v_floor_f64", d1<([](double x) { return std::floor(x); })>);
  f64("v_rndne_f64", d1<([](double x) { return std::nearbyint(x); })>);
  f64("v_fract_f64", d1<([](double x) { return x - std::floor(x); })>);
  f64("v_div_fixup_f64", d3<([](double q, double d, double n) { return fix_division(q, d, n); })>);
  f64("v_div_fmas_f64", div_fmas_f64);
  f64("v_ldexp_f64", ldexp_f64);
  slow("v_rcp_f64", d1<([](double x) { return 1.0 / x; })>, Num::f64);
  slow("v_rsq_f64", d1<([](double x) { return 1.0 / std::sqrt(x); })>, Num::f64);
  slow("v_sqrt_f64", d1<([](double x) { return std::sqrt(x); })>, Num::f64);
}

}  // namespace kiln::emulator::amdgcn
