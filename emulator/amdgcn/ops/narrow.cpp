// Conversions to and from bf16, FP8, FP6 and FP4, with and without block scales. FP8 means FNUZ on gfx942 and
// OCP on gfx950, under the same mnemonics.
#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/amdgcn/ops/minifloat.hpp"
#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;

Mini fp8(const Wave& w, bool wide_range) {
  if (w.grid.target == Target::gfx950) return wide_range ? Mini::e5m2 : Mini::e4m3;
  return wide_range ? Mini::e5m2fnuz : Mini::e4m3fnuz;
}
/// The hardware clamps finite values to the format's range (MODE.fp16_ovfl is off: infinities stay what they
/// are).
u32 pack8(Mini m, float x) {
  return f32_to_mini(m, x);
}

u32 bf16(float x) {
  return f32_to_bf16(x);
}

/// v_cvt_pk_fp8_f32: two bytes into the half of the destination that op_sel[2] (here bit 2 or 3) names.
template <bool Wide8>
void cvt_pk_8_f32(Wave& w, const Inst& in) {
  Lanes ba, bb, bo, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), old = w.raw(in.ops[0], 0, bo);
  const Mini m = fp8(w, Wide8);
  const bool high = in.mod.op_sel >> 2 != 0;
  for (int l = 0; l < kLanes; ++l) {
    const u32 pair = pack8(m, as_f32(a.l[l])) | pack8(m, as_f32(b.l[l])) << 8;
    out.l[l] = high ? (old.l[l] & 0xffff) | pair << 16 : (old.l[l] & 0xffff0000U) | pair;
  }
  w.put(in, 0, out, a.defined & b.defined);
}
/// v_cvt_sr_fp8_f32: one byte, rounded stochastically with S1, at the position op_sel[3:2].
template <bool Wide8>
void cvt_sr_8_f32(Wave& w, const Inst& in) {
  Lanes ba, bb, bo, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), old = w.raw(in.ops[0], 0, bo);
  const Mini m = fp8(w, Wide8);
  const u32 shift = 8 * (in.mod.op_sel >> 2 & 3U);
  for (int l = 0; l < kLanes; ++l) {
    const u32 byte = f32_to_mini_stochastic(m, as_f32(a.l[l]), b.l[l]);
    out.l[l] = (old.l[l] & ~(0xffU << shift)) | byte << shift;
  }
  w.put(in, 0, out, a.defined & b.defined);
}
template <bool Wide8>
void cvt_f32_8(Wave& w, const Inst& in) {
  Lanes ba, out;
  const View a = w.source(in, 1, ba);
  const Mini m = fp8(w, Wide8);
  const u32 shift = 8 * in.mod.offset0;  // byte_sel
  for (int l = 0; l < kLanes; ++l)
    out.l[l] = bits_of(mini_to_f32(m, static_cast<std::uint8_t>(a.l[l] >> shift)));
  w.put_f32(in, 0, out, a.defined);
}
template <bool Wide8>
void cvt_pk_f32_8(Wave& w, const Inst& in) {
  Lanes ba, low, high;
  const View a = w.source(in, 1, ba);
  const Mini m = fp8(w, Wide8);
  const u32 shift = in.mod.op_sel & 1 ? 16 : 0;
  for (int l = 0; l < kLanes; ++l) {
    low.l[l] = bits_of(mini_to_f32(m, static_cast<std::uint8_t>(a.l[l] >> shift)));
    high.l[l] = bits_of(mini_to_f32(m, static_cast<std::uint8_t>(a.l[l] >> (shift + 8))));
  }
  Inst whole = in;  // a source selection is no destination selection
  whole.mod.sdwa = false;
  w.put(whole, 0, low, a.defined, 0);
  w.put(whole, 0, high, a.defined, 1);
}
void cvt_pk_bf16_f32(Wave& w, const Inst& in) {
  Lanes ba, bb, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb);
  for (int l = 0; l < kLanes; ++l) out.l[l] = bf16(as_f32(a.l[l])) | bf16(as_f32(b.l[l])) << 16;
  w.put(in, 0, out, a.defined & b.defined);
}
template <bool Bf16>
void cvt_sr_pk_16(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.source(in, 3, bc);
  const auto one = [](float x, u32 random) -> u32 {
    const u32 bits = bits_of(x);
    if (Bf16) return x != x ? bf16(x) : (bits + (random & 0xffff)) >> 16;
    if (!std::isfinite(x) || std::fabs(x) < 0x1p-14F) return f32_to_f16(x);
    return f32_to_f16(as_f32((bits + (random & 0x1fff)) & ~0x1fffU));
  };
  for (int l = 0; l < kLanes; ++l)
    out.l[l] = one(as_f32(a.l[l]), c.l[l] & 0xffff) | one(as_f32(b.l[l]), c.l[l] >> 16) << 16;
  w.put(in, 0, out, a.defined & b.defined & c.defined);
}

// gfx950's v_cvt_scalef32_*: the last source is an f32 whose exponent is the block scale. Narrowing divides
// by it, widening multiplies.
float scale_of(u32 bits) {
  return std::ldexp(1.0F, static_cast<int>(bits >> 23 & 0xff) - 127);
}

enum class Wider { f32, f16, bf16 };
u32 to_wider(Wider kind, float x) {
  return kind == Wider::f32 ? bits_of(x) : kind == Wider::f16 ? u32{f32_to_f16(x)} : bf16(x);
}
float from_wider(Wider kind, u32 bits) {
  if (kind == Wider::f32) return as_f32(bits);
  return kind == Wider::f16 ? f16_to_f32(static_cast<std::uint16_t>(bits))
                            : bf16_to_f32(static_cast<std::uint16_t>(bits));
}

/// Two narrow values from S0 (and S1 when they are f32): FP8 into a half (op_sel[3]), FP4 into a byte
/// (op_sel[3:2]).
template <Mini M, Wider W>
void scale_pk_narrow(Wave& w, const Inst& in) {
  Lanes ba, bb, bs, bo, out;
  const bool wide = W == Wider::f32;
  const View a = w.source(in, 1, ba), b = wide ? w.source(in, 2, bb) : a, s = w.source(in, wide ? 3 : 2, bs),
             old = w.raw(in.ops[0], 0, bo);
  const int bits = mini_bits(M);
  const u32 mask = bits == 8 ? 0xffff : 0xff;
  const u32 sel = in.mod.op_sel >> (wide ? 3 : 2);
  const u32 shift =
      bits == 8 ? 16 * (sel & 1) : 8 * (wide ? (in.mod.op_sel >> 2 & 3U) : (in.mod.op_sel >> 2 & 3U));
  for (int l = 0; l < kLanes; ++l) {
    const float scale = scale_of(s.l[l]);
    const float low = from_wider(W, a.l[l]), high = wide ? as_f32(b.l[l]) : from_wider(W, a.l[l] >> 16);
    const u32 pair = f32_to_mini(M, low / scale, true) | static_cast<u32>(f32_to_mini(M, high / scale, true))
                                                             << bits;
    out.l[l] = (old.l[l] & ~(mask << shift)) | pair << shift;
  }
  w.put(in, 0, out, a.defined & b.defined & s.defined);
}
/// Two wider values from a half (FP8) or a byte (FP4) of S0.
template <Mini M, Wider W>
void scale_pk_widen(Wave& w, const Inst& in) {
  Lanes ba, bs, low, high;
  const View a = w.source(in, 1, ba), s = w.source(in, 2, bs);
  const int bits = mini_bits(M);
  const u32 shift = bits == 8 ? 16 * (in.mod.op_sel & 1U) : 8 * (in.mod.op_sel & 3U);
  for (int l = 0; l < kLanes; ++l) {
    const float scale = scale_of(s.l[l]);
    const u32 pair = a.l[l] >> shift;
    const u32 x = to_wider(W, mini_to_f32(M, static_cast<std::uint8_t>(pair)) * scale);
    const u32 y = to_wider(W, mini_to_f32(M, static_cast<std::uint8_t>(pair >> bits)) * scale);
    low.l[l] = W == Wider::f32 ? x : x | y << 16;
    high.l[l] = y;
  }
  const std::uint64_t d = a.defined & s.defined;
  w.put(in, 0, low, d, 0);
  if (W == Wider::f32) w.put(in, 0, high, d, 1);
}
template <Mini M>
void scale_widen_one(Wave& w, const Inst& in) {
  Lanes ba, bs, out;
  const View a = w.source(in, 1, ba), s = w.source(in, 2, bs);
  const u32 shift = 8 * (in.mod.op_sel & 3U);
  for (int l = 0; l < kLanes; ++l) {
    out.l[l] = bits_of(mini_to_f32(M, static_cast<std::uint8_t>(a.l[l] >> shift)) * scale_of(s.l[l]));
  }
  w.put(in, 0, out, a.defined & s.defined);
}

template <Mini M>
void add_scaled(OpTable& t, const std::string& name) {
  const std::string p = "v_cvt_scalef32_pk_";
  t[p + name + "_f32"] = {.exec = scale_pk_narrow<M, Wider::f32>, .num = Num::f32, .reads_dst = true};
  t[p + name + "_f16"] = {.exec = scale_pk_narrow<M, Wider::f16>, .num = Num::f32, .reads_dst = true};
  t[p + name + "_bf16"] = {.exec = scale_pk_narrow<M, Wider::bf16>, .num = Num::f32, .reads_dst = true};
  t[p + "f32_" + name] = {.exec = scale_pk_widen<M, Wider::f32>, .num = Num::f32};
  t[p + "f16_" + name] = {.exec = scale_pk_widen<M, Wider::f16>, .num = Num::f32};
  t[p + "bf16_" + name] = {.exec = scale_pk_widen<M, Wider::bf16>, .num = Num::f32};
}

}  // namespace

void add_narrow_convert_ops(OpTable& t) {
  const auto add = [&](const char* name, Exec exec, bool reads_dst = false) {
    t[name] = {.exec = exec, .num = Num::f32, .reads_dst = reads_dst};
  };
  add("v_cvt_pk_fp8_f32", cvt_pk_8_f32<false>, true);
  add("v_cvt_pk_bf8_f32", cvt_pk_8_f32<true>, true);
  add("v_cvt_sr_fp8_f32", cvt_sr_8_f32<false>, true);
  add("v_cvt_sr_bf8_f32", cvt_sr_8_f32<true>, true);
  add("v_cvt_f32_fp8", cvt_f32_8<false>);
  add("v_cvt_f32_bf8", cvt_f32_8<true>);
  add("v_cvt_pk_f32_fp8", cvt_pk_f32_8<false>);
  add("v_cvt_pk_f32_bf8", cvt_pk_f32_8<true>);
  add("v_cvt_pk_bf16_f32", cvt_pk_bf16_f32);
  add("v_cvt_sr_pk_bf16_f32", cvt_sr_pk_16<true>);
  add("v_cvt_sr_pk_f16_f32", cvt_sr_pk_16<false>);
  add("v_cvt_f32_bf16", v1<([](u32 x) { return x << 16; })>);
  add_scaled<Mini::e4m3>(t, "fp8");
  add_scaled<Mini::e5m2>(t, "bf8");
  add_scaled<Mini::e2m1>(t, "fp4");
  add("v_cvt_scalef32_f32_fp8", scale_widen_one<Mini::e4m3>);
  add("v_cvt_scalef32_f32_bf8", scale_widen_one<Mini::e5m2>);
}

}  // namespace kiln::emulator::amdgcn
