// Conversions among f64, f32, f16 and integers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using i32 = std::int32_t;

float half(u32 x) {
  return f16_to_f32(static_cast<std::uint16_t>(x));
}

/// Saturating, truncating; NaN gives 0.
template <class T>
u32 to_integer(double x) {
  if (x != x) return 0;
  constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double high = static_cast<double>(std::numeric_limits<T>::max());
  return static_cast<u32>(static_cast<T>(std::clamp(std::trunc(x), low, high)));
}
u32 pkrtz(float a, float b) {
  const FloatOptions toward_zero{.rounding = Rounding::rz};
  const auto one = [&](float x) {
    return static_cast<u32>(convert_float(FloatFormat::f16, FloatFormat::f32, bits_of(x), toward_zero));
  };
  return one(a) | one(b) << 16;
}
u32 norm(double x, double scale, double low) {
  return x != x
             ? 0
             : static_cast<u32>(static_cast<i32>(std::nearbyint(std::clamp(x, low, 1.0) * scale))) & 0xffff;
}
u32 pk_u8(float x, u32 select, u32 old) {
  const u32 shift = 8 * (select & 3);
  const auto byte = static_cast<u32>(std::nearbyint(x != x ? 0.0F : std::clamp(x, 0.0F, 255.0F)));
  return (old & ~(0xffU << shift)) | byte << shift;
}
void cvt_f64_f32(Wave& w, const Inst& in) {
  Lanes ba, low, high;
  Inst narrow = in;
  narrow.num = Num::f32;
  const View a = w.source(narrow, 1, ba);
  for (int l = 0; l < kLanes; ++l) split(low, high, l, bits_of(static_cast<double>(as_f32(a.l[l]))));
  w.put_f64(in, 0, low, high, a.defined);
}
template <class T>
void cvt_f64_int(Wave& w, const Inst& in) {
  Lanes ba, low, high;
  const View a = w.raw(in.ops[1], 0, ba);
  for (int l = 0; l < kLanes; ++l) split(low, high, l, bits_of(static_cast<double>(static_cast<T>(a.l[l]))));
  w.put_f64(in, 0, low, high, a.defined);
}
/// f64 source, 32-bit result.
template <auto F>
void from_f64(Wave& w, const Inst& in) {
  const Wide a(w, in, 1);
  Lanes out;
  for (int l = 0; l < kLanes; ++l) out.l[l] = F(as_f64(a[l]));
  w.put(in, 0, out, a.defined());
}
u32 frexp_exp(double x) {
  int e = 0;
  if (!std::isfinite(x) || x == 0) return 0;
  std::frexp(x, &e);
  return static_cast<u32>(e);
}
void frexp_mant_f64(Wave& w, const Inst& in) {
  const Wide a(w, in, 1);
  Lanes low, high;
  for (int l = 0; l < kLanes; ++l) {
    int e = 0;
    const double x = as_f64(a[l]);
    split(low, high, l, bits_of(std::isfinite(x) ? std::frexp(x, &e) : x));
  }
  w.put_f64(in, 0, low, high, a.defined());
}

}  // namespace

void add_convert_ops(OpTable& t) {
  const auto add = [&](const char* name, Exec exec, Num num) { t[name] = {.exec = exec, .num = num}; };
  add("v_cvt_f32_i32", v1<([](u32 x) { return bits_of(static_cast<float>(static_cast<i32>(x))); })>,
      Num::b32);
  add("v_cvt_f32_u32", v1<([](u32 x) { return bits_of(static_cast<float>(x)); })>, Num::b32);
  add("v_cvt_i32_f32", v1<([](u32 x) { return to_integer<i32>(static_cast<double>(as_f32(x))); })>, Num::f32);
  add("v_cvt_u32_f32", v1<([](u32 x) { return to_integer<u32>(static_cast<double>(as_f32(x))); })>, Num::f32);
  add("v_cvt_rpi_i32_f32",
      v1<([](u32 x) { return to_integer<i32>(std::floor(static_cast<double>(as_f32(x)) + 0.5)); })>,
      Num::f32);
  add("v_cvt_flr_i32_f32",
      v1<([](u32 x) { return to_integer<i32>(std::floor(static_cast<double>(as_f32(x)))); })>, Num::f32);
  add("v_cvt_f32_ubyte0", v1<([](u32 x) { return bits_of(static_cast<float>(x & 0xff)); })>, Num::b32);
  add("v_cvt_f32_ubyte1", v1<([](u32 x) { return bits_of(static_cast<float>(x >> 8 & 0xff)); })>, Num::b32);
  add("v_cvt_f32_ubyte2", v1<([](u32 x) { return bits_of(static_cast<float>(x >> 16 & 0xff)); })>, Num::b32);
  add("v_cvt_f32_ubyte3", v1<([](u32 x) { return bits_of(static_cast<float>(x >> 24)); })>, Num::b32);
  add("v_cvt_f16_f32", v1<([](u32 x) { return u32{f32_to_f16(as_f32(x))}; })>, Num::f32);
  add("v_cvt_f32_f16", v1<([](u32 x) { return bits_of(half(x)); })>, Num::f16);
  add("v_cvt_f16_u16", v1<([](u32 x) { return u32{f32_to_f16(static_cast<float>(x & 0xffff))}; })>, Num::b32);
  add("v_cvt_f16_i16",
      v1<([](u32 x) { return u32{f32_to_f16(static_cast<float>(static_cast<std::int16_t>(x)))}; })>,
      Num::b32);
  add("v_cvt_u16_f16", v1<([](u32 x) { return to_integer<std::uint16_t>(static_cast<double>(half(x))); })>,
      Num::f16);
  add("v_cvt_i16_f16",
      v1<([](u32 x) { return to_integer<std::int16_t>(static_cast<double>(half(x))) & 0xffff; })>, Num::f16);
  add("v_cvt_pkrtz_f16_f32", v2<([](u32 a, u32 b) { return pkrtz(as_f32(a), as_f32(b)); })>, Num::f32);
  add("v_cvt_pk_f16_f32",
      v2<([](u32 a, u32 b) { return u32{f32_to_f16(as_f32(a))} | u32{f32_to_f16(as_f32(b))} << 16; })>,
      Num::f32);
  add("v_cvt_pknorm_i16_f32", v2<([](u32 a, u32 b) {
        return norm(static_cast<double>(as_f32(a)), 32767, -1) |
               norm(static_cast<double>(as_f32(b)), 32767, -1) << 16;
      })>,
      Num::f32);
  add("v_cvt_pknorm_u16_f32", v2<([](u32 a, u32 b) {
        return norm(static_cast<double>(as_f32(a)), 65535, 0) | norm(static_cast<double>(as_f32(b)), 65535, 0)
                                                                    << 16;
      })>,
      Num::f32);
  add("v_cvt_pk_u8_f32", v3<([](u32 a, u32 b, u32 c) { return pk_u8(as_f32(a), b, c); })>, Num::f32);
  add("v_cvt_f64_f32", cvt_f64_f32, Num::f64);
  add("v_cvt_f64_i32", cvt_f64_int<i32>, Num::b32);
  add("v_cvt_f64_u32", cvt_f64_int<u32>, Num::b32);
  add("v_cvt_f32_f64", from_f64<([](double x) { return bits_of(static_cast<float>(x)); })>, Num::f64);
  add("v_cvt_i32_f64", from_f64<([](double x) { return to_integer<i32>(x); })>, Num::f64);
  add("v_cvt_u32_f64", from_f64<([](double x) { return to_integer<u32>(x); })>, Num::f64);
  add("v_frexp_exp_i32_f64", from_f64<frexp_exp>, Num::f64);
  add("v_frexp_mant_f64", frexp_mant_f64, Num::f64);
}

}  // namespace kiln::emulator::amdgcn
