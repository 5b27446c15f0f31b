// Vector f16 arithmetic, 16-bit integer instructions that select halves (VOP3 op_sel), and the
// mixed-precision fma.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/amdgcn/ops/words.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;

u32 narrow(double x) {
  return static_cast<u32>(from_double(FloatFormat::f16, x));
}
u32 narrow(float x) {
  return f32_to_f16(x);
}

/// Sources of a 16-bit instruction, the halves that op_sel picks in the low bits.
template <int N>
struct Halves {
  Lanes buffer[N];
  View s[N];
  std::uint64_t defined = ~std::uint64_t{0};
  Halves(const Wave& w, const Inst& in) {
    for (int i = 0; i < N; ++i) {
      s[i] = w.source(in, i + 1, buffer[i]);
      defined &= s[i].defined;
      const bool high = !in.mod.sdwa && (in.mod.op_sel >> i & 1);
      if (!high) continue;
      // Modifiers act on the half that is read: take it from the plain register and apply them anew.
      const Operand& o = in.ops[static_cast<std::size_t>(i + 1)];
      Lanes plain;
      const View r = w.raw(o, 0, plain);
      for (int l = 0; l < kLanes; ++l) {
        u32 x = r.l[l] >> 16;
        if (o.abs) x &= 0x7fff;
        if (o.neg) x ^= 0x8000;
        buffer[i].l[l] = x;
      }
      s[i].l = buffer[i].l;
    }
  }
};

/// Writes a 16-bit result: into the high half if op_sel says so, keeping the other one where the instruction
/// does.
void put_half(Wave& w, const Inst& in, int sources, Lanes& out, std::uint64_t defined, bool preserve,
              bool floating) {
  if (floating && (in.mod.omod != 0 || in.mod.clamp)) {
    const float factor = in.mod.omod == 1 ? 2.0F : in.mod.omod == 2 ? 4.0F : in.mod.omod == 3 ? 0.5F : 1.0F;
    for (u32& x : out.l) {
      float f = widen(x) * factor;
      if (in.mod.clamp) f = f > 0 ? std::min(f, 1.0F) : 0.0F;
      x = narrow(f);
    }
  }
  const bool high = !in.mod.sdwa && (in.mod.op_sel >> sources & 1);
  if (high || preserve) {
    Lanes b;
    const View old = w.raw(in.ops[0], 0, b);
    for (int l = 0; l < kLanes; ++l) {
      out.l[l] = high ? (old.l[l] & 0xffff) | out.l[l] << 16 : (old.l[l] & 0xffff0000U) | (out.l[l] & 0xffff);
    }
  }
  w.put(in, 0, out, defined);
}

template <auto F>
void h1(Wave& w, const Inst& in) {
  const Halves<1> h(w, in);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) out.l[l] = narrow(F(widen(h.s[0].l[l])));
  put_half(w, in, 1, out, h.defined, false, true);
}
template <auto F>
void h2(Wave& w, const Inst& in) {
  const Halves<2> h(w, in);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) out.l[l] = narrow(F(widen(h.s[0].l[l]), widen(h.s[1].l[l])));
  put_half(w, in, 2, out, h.defined, false, true);
}
template <auto F, bool Preserve>
void h3(Wave& w, const Inst& in) {
  const Halves<3> h(w, in);
  Lanes out;
  for (int l = 0; l < kLanes; ++l)
    out.l[l] = narrow(F(widen(h.s[0].l[l]), widen(h.s[1].l[l]), widen(h.s[2].l[l])));
  put_half(w, in, 3, out, h.defined, Preserve, true);
}
double fma_half(float a, float b, float c) {
  return static_cast<double>(a) * b + c;
}
float mad_half(float a, float b, float c) {
  return widen(narrow(a * b)) + c;
}
void fmac_f16(Wave& w, const Inst& in) {
  const Halves<2> h(w, in);
  Lanes b, out;
  const View c = w.raw(in.ops[0], 0, b);
  for (int l = 0; l < kLanes; ++l)
    out.l[l] = narrow(fma_half(widen(h.s[0].l[l]), widen(h.s[1].l[l]), widen(c.l[l])));
  put_half(w, in, 2, out, h.defined & c.defined, false, true);
}
template <auto F>
void i3(Wave& w, const Inst& in) {
  const Halves<3> h(w, in);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) {
    out.l[l] = F(h.s[0].l[l] & 0xffff, h.s[1].l[l] & 0xffff, h.s[2].l[l] & 0xffff) & 0xffff;
  }
  put_half(w, in, 3, out, h.defined, true, false);
}
template <auto F>
void i2(Wave& w, const Inst& in) {
  const Halves<2> h(w, in);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) out.l[l] = F(h.s[0].l[l] & 0xffff, h.s[1].l[l] & 0xffff) & 0xffff;
  put_half(w, in, 2, out, h.defined, true, false);
}
void pack_b32_f16(Wave& w, const Inst& in) {
  const Halves<2> h(w, in);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) out.l[l] = (h.s[0].l[l] & 0xffff) | h.s[1].l[l] << 16;
  w.put(in, 0, out, h.defined);
}
void ldexp_f16(Wave& w, const Inst& in) {
  const Halves<2> h(w, in);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) {
    out.l[l] = narrow(std::ldexp(widen(h.s[0].l[l]), static_cast<std::int16_t>(h.s[1].l[l])));
  }
  put_half(w, in, 2, out, h.defined, false, true);
}

/// v_fma_mix*: each source is f32, or an f16 half where op_sel_hi is set (op_sel picks the half); the result
/// is f32 or one half. Modifiers: neg_lo is "neg", neg_hi is "abs".
enum class MixOut { f32, low, high };
template <MixOut Out, bool Fused>
void mix(Wave& w, const Inst& in) {
  Lanes b[3], out;
  float s[3][kLanes];
  std::uint64_t defined = ~std::uint64_t{0};
  for (int i = 0; i < 3; ++i) {
    const Operand& o = in.ops[static_cast<std::size_t>(i + 1)];
    const View v = w.raw(o, 0, b[i]);
    const bool half = in.mod.op_sel_hi >> i & 1, high = in.mod.op_sel >> i & 1;
    for (int l = 0; l < kLanes; ++l) {
      float x = half ? widen(high ? v.l[l] >> 16 : v.l[l]) : as_f32(v.l[l]);
      if (o.abs || (in.mod.neg_hi >> i & 1)) x = std::fabs(x);
      if (o.neg || (in.mod.neg_lo >> i & 1)) x = -x;
      s[i][l] = x;
    }
    defined &= v.defined;
  }
  const View old = w.raw(in.ops[0], 0, b[0]);
  for (int l = 0; l < kLanes; ++l) {
    float r = Fused ? std::fma(s[0][l], s[1][l], s[2][l]) : mad_half(s[0][l], s[1][l], s[2][l]);
    if (in.mod.clamp) r = r > 0 ? std::min(r, 1.0F) : 0.0F;
    if (Out == MixOut::f32)
      out.l[l] = bits_of(r);
    else if (Out == MixOut::low)
      out.l[l] = (old.l[l] & 0xffff0000U) | narrow(r);
    else
      out.l[l] = (old.l[l] & 0xffff) | narrow(r) << 16;
  }
  w.put(in, 0, out, defined);
}

}  // namespace

void add_half_ops(OpTable& t) {
  const auto f16 = [&](const char* name, Exec exec, bool reads_dst = false) {
    t[name] = {.exec = exec, .num = Num::f16, .reads_dst = reads_dst};
  };
  const auto slow = [&](const char* name, Exec exec) {
    t[name] = {.exec = exec, .cls = Class::transcendental, .num = Num::f16};
  };
  f16("v_add_f16", h2<([](float a, float b) { return a + b; })>);
  f16("v_sub_f16", h2<([](float a, float b) { return a - b; })>);
  f16("v_subrev_f16", h2<([](float a, float b) { return b - a; })>);
  f16("v_mul_f16", h2<([](float a, float b) { return a * b; })>);
  f16("v_min_f16", h2<([](float a, float b) { return min_num(a, b); })>);
  f16("v_max_f16", h2<([](float a, float b) { return max_num(a, b); })>);
  f16("v_min3_f16", h3<([](float a, float b, float c) { return min_num(min_num(a, b), c); }), true>);
  f16("v_max3_f16", h3<([](float a, float b, float c) { return max_num(max_num(a, b), c); }), true>);
  f16("v_med3_f16", h3<([](float a, float b, float c) { return med3(a, b, c); }), true>);
  f16("v_fma_f16", h3<fma_half, true>, true);
  f16("v_mad_f16", h3<mad_half, true>, true);
  f16("v_fma_legacy_f16", h3<fma_half, false>);
  f16("v_mad_legacy_f16", h3<mad_half, false>);
  f16("v_madak_f16", h3<mad_half, false>);
  f16("v_madmk_f16", h3<mad_half, false>);
  f16("v_fmac_f16", fmac_f16, true);
  f16("v_mac_f16", fmac_f16, true);
  f16("v_trunc_f16", h1<([](float x) { return std::trunc(x); })>);
  f16("v_ceil_f16", h1<([](float x) { return std::ceil(x); })>);
  f16("v_floor_f16", h1<([](float x) { return std::floor(x); })>);
  f16("v_rndne_f16", h1<([](float x) { return std::nearbyint(x); })>);
  f16("v_fract_f16", h1<([](float x) { return x - std::floor(x); })>);
  f16("v_ldexp_f16", ldexp_f16);
  f16("v_pack_b32_f16", pack_b32_f16);
  f16("v_div_fixup_f16",
      h3<([](float q, float d, float n) {
           if (n != n || d != d || n == 0 || d == 0 || std::isinf(n) || std::isinf(d)) return n / d;
           return std::copysign(q, std::signbit(d) != std::signbit(n) ? -1.0F : 1.0F);
         }),
         true>,
      true);
  slow("v_exp_f16", h1<([](float x) { return std::exp2(static_cast<double>(x)); })>);
  slow("v_log_f16", h1<([](float x) { return std::log2(static_cast<double>(x)); })>);
  slow("v_rcp_f16", h1<([](float x) { return 1.0 / static_cast<double>(x); })>);
  slow("v_rsq_f16", h1<([](float x) { return 1.0 / std::sqrt(static_cast<double>(x)); })>);
  slow("v_sqrt_f16", h1<([](float x) { return std::sqrt(static_cast<double>(x)); })>);
  slow("v_sin_f16", h1<([](float x) { return std::sin(6.283185307179586 * static_cast<double>(x)); })>);
  slow("v_cos_f16", h1<([](float x) { return std::cos(6.283185307179586 * static_cast<double>(x)); })>);
  f16("v_fma_mix_f32", mix<MixOut::f32, true>);
  f16("v_fma_mixlo_f16", mix<MixOut::low, true>, true);
  f16("v_fma_mixhi_f16", mix<MixOut::high, true>, true);
  f16("v_mad_mix_f32", mix<MixOut::f32, false>);
  f16("v_mad_mixlo_f16", mix<MixOut::low, false>, true);
  f16("v_mad_mixhi_f16", mix<MixOut::high, false>, true);

  const auto i16 = [&](const char* name, Exec exec) { t[name] = {.exec = exec, .reads_dst = true}; };
  i16("v_mad_u16", i3<([](u32 a, u32 b, u32 c) { return a * b + c; })>);
  i16("v_mad_i16", i3<([](u32 a, u32 b, u32 c) { return a * b + c; })>);
  i16("v_add_i16", i2<([](u32 a, u32 b) { return a + b; })>);
  i16("v_sub_i16", i2<([](u32 a, u32 b) { return a - b; })>);
  i16("v_min3_u16", i3<([](u32 a, u32 b, u32 c) { return std::min({a, b, c}); })>);
  i16("v_max3_u16", i3<([](u32 a, u32 b, u32 c) { return std::max({a, b, c}); })>);
  i16("v_min3_i16", i3<([](u32 a, u32 b, u32 c) { return from(std::min({s16(a), s16(b), s16(c)})); })>);
  i16("v_max3_i16", i3<([](u32 a, u32 b, u32 c) { return from(std::max({s16(a), s16(b), s16(c)})); })>);
}

}  // namespace kiln::emulator::amdgcn
