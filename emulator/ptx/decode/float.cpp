// Floating arithmetic: fast rows for f32 round-to-nearest, scalar forms for every other format and rounding
// mode.
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

struct Form {
  FloatFormat format;
  bool pair;
  int size;
};
Form form_of(Decoder& d, Type t) {
  switch (t) {
    case Type::f16:
      return {FloatFormat::f16, false, 2};
    case Type::f16x2:
      return {FloatFormat::f16, true, 4};
    case Type::bf16:
      return {FloatFormat::bf16, false, 2};
    case Type::bf16x2:
      return {FloatFormat::bf16, true, 4};
    case Type::f32:
      return {FloatFormat::f32, false, 4};
    case Type::f64:
      return {FloatFormat::f64, false, 8};
    default:
      d.unsupported();
  }
}
FloatOptions options(const Decoder& d) {
  FloatOptions o;
  o.rounding = d.has("rz")   ? Rounding::rz
               : d.has("rm") ? Rounding::rm
               : d.has("rp") ? Rounding::rp
                             : Rounding::rn;
  o.ftz = d.has("ftz");
  o.sat = d.has("sat");
  o.relu = d.has("relu");
  return o;
}
FloatFormat format_of(const Op& op) {
  return static_cast<FloatFormat>(op.width);
}

enum class Fn { add, sub, mul, fma, div, rcp, sqrt, min, max };
template <Fn F>
u64 one(FloatFormat f, const FloatOptions& o, const Op& op, u64 a, u64 b, u64 c) {
  if constexpr (F == Fn::add) return float_add(f, a, b, o);
  if constexpr (F == Fn::sub) return float_sub(f, a, b, o);
  if constexpr (F == Fn::mul) return float_mul(f, a, b, o);
  if constexpr (F == Fn::fma) return float_fma(f, a, b, c, o);
  if constexpr (F == Fn::div) return float_div(f, a, b, o);
  if constexpr (F == Fn::rcp) return float_rcp(f, a, o);
  if constexpr (F == Fn::sqrt) return float_sqrt(f, a, o);
  const MinMaxOptions m{o.ftz, (op.imm & 1) != 0, (op.imm & 2) != 0};
  if constexpr (F == Fn::min) return float_min(f, a, b, m);
  if constexpr (F == Fn::max) return float_max(f, a, b, m);
}
/// What a tensor copy writes outside of its tensor with the NaN fill: a factor of 0 for fma.oob.
constexpr u64 kOobNan = 0x7ff7;
u64 fma_oob(const Op& op, u64 a, u64 b, u64 c) {
  if (a == kOobNan || b == kOobNan || c == kOobNan) return 0;
  return float_fma(format_of(op), a, b, c, options_of(op));
}
u64 fma_oob_pair(const Op& op, u64 a, u64 b, u64 c) {
  return fma_oob(op, a >> 16, b >> 16, c >> 16) << 16 | fma_oob(op, a & 0xffff, b & 0xffff, c & 0xffff);
}

template <Fn F>
u64 run_single(const Op& op, u64 a, u64 b, u64 c) {
  return one<F>(format_of(op), options_of(op), op, a, b, c);
}
template <Fn F>
u64 run_pair(const Op& op, u64 a, u64 b, u64 c) {
  const FloatOptions o = options_of(op);
  const u64 lo = one<F>(format_of(op), o, op, a & 0xffff, b & 0xffff, c & 0xffff);
  const u64 hi = one<F>(format_of(op), o, op, a >> 16, b >> 16, c >> 16);
  return hi << 16 | lo;
}
template <Fn F>
Op& general(Decoder& d, const Form& f, int operands) {
  const Ref r = d.dst(d.operand(0), f.size);
  Ref s[3] = {kNoRef, kNoRef, kNoRef};
  for (int i = 0; i < operands; ++i) s[i] = d.src(d.operand(static_cast<std::size_t>(i) + 1), f.size);
  Op& op = d.emit_scalar(f.pair ? run_pair<F> : run_single<F>,
                         f.size == 2 || f.pair ? Kind::half : Kind::floating, r, f.size, s[0], f.size, s[1],
                         operands > 1 ? f.size : 0, s[2], operands > 2 ? f.size : 0);
  op.flags = pack_options(options(d));
  op.width = static_cast<std::uint8_t>(f.format);
  return op;
}
bool fast(const Decoder& d, Type t) {
  return t == Type::f32 && !d.has("rz") && !d.has("rm") && !d.has("rp") && !d.has("sat");
}
void rows(Decoder& d, Alu op, int operands) {
  const Ref r = d.dst(d.operand(0), 4);
  Ref s[3] = {kNoRef, kNoRef, kNoRef};
  for (int i = 0; i < operands; ++i) s[i] = d.src(d.operand(static_cast<std::size_t>(i) + 1), 4);
  d.emit_alu(op, Kind::floating, r, s[0], s[1], s[2]);
}

template <Approx F, bool Ftz>
void run_approx(Warp& w, const Op& op) {
  const float* a = w.in<float>(op.a);
  float* d = w.out<float>(op.d);
  if (w.exec == 0xffffffffu) {
    approximate(F, a, d, 32, Ftz);
    return;
  }
  float out[32];
  approximate(F, a, out, 32, Ftz);
  for (int l = 0; l < 32; ++l)
    if (w.exec >> l & 1) d[l] = out[l];
}
template <Approx F>
void approx(Decoder& d) {
  const bool ftz = d.has("ftz");
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4);
  Op& op = d.emit(ftz ? run_approx<F, true> : run_approx<F, false>, Kind::floating);
  op.d = r;
  op.a = a;
}
template <Approx F>
u64 half_approx(const Op& op, u64 a, u64, u64) {
  const FloatFormat f = format_of(op);
  const auto single = [&](u64 x) {
    const float v = std::bit_cast<float>(static_cast<std::uint32_t>(convert_float(FloatFormat::f32, f, x)));
    return convert_float(f, FloatFormat::f32,
                         std::bit_cast<std::uint32_t>(approximate(F, v, (op.flags & 8) != 0)));
  };
  return op.count == 2 ? single(a >> 16) << 16 | single(a & 0xffff) : single(a);
}
template <Approx F>
void approx_any(Decoder& d) {
  const Type t = d.type();
  if (t == Type::f32) return approx<F>(d);
  const Form f = form_of(d, t);
  if (f.size == 8) d.unsupported();
  const Ref r = d.dst(d.operand(0), f.size), a = d.src(d.operand(1), f.size);
  Op& op = d.emit_scalar(half_approx<F>, Kind::half, r, f.size, a, f.size);
  op.width = static_cast<std::uint8_t>(f.format);
  op.count = f.pair ? 2 : 1;
  op.flags = d.has("ftz") ? 8 : 0;
}
void decode_ex2(Decoder& d) {
  approx_any<Approx::ex2>(d);
}
void decode_tanh(Decoder& d) {
  approx_any<Approx::tanh>(d);
}
void decode_lg2(Decoder& d) {
  approx<Approx::lg2>(d);
}
void decode_sin(Decoder& d) {
  approx<Approx::sin>(d);
}
void decode_cos(Decoder& d) {
  approx<Approx::cos>(d);
}
void decode_rsqrt(Decoder& d) {
  if (d.type() == Type::f32) return approx<Approx::rsqrt>(d);
  const Ref r = d.dst(d.operand(0), 8), a = d.src(d.operand(1), 8);
  if (d.has("ftz"))
    d.emit_scalar([](const Op&, u64 x, u64, u64) { return approximate_rsqrt_f64(x); }, Kind::floating, r, 8,
                  a, 8);
  else
    d.emit_scalar([](const Op&, u64 x, u64,
                     u64) { return float_rcp(FloatFormat::f64, float_sqrt(FloatFormat::f64, x)); },
                  Kind::floating, r, 8, a, 8);
}
void decode_rcp(Decoder& d) {
  if (d.has("approx")) {
    if (d.type() == Type::f32) return approx<Approx::rcp>(d);
    const Ref r = d.dst(d.operand(0), 8), a = d.src(d.operand(1), 8);
    d.emit_scalar([](const Op&, u64 x, u64, u64) { return approximate_rcp_f64(x); }, Kind::floating, r, 8, a,
                  8);
    return;
  }
  general<Fn::rcp>(d, form_of(d, d.type()), 1);
}
void decode_sqrt(Decoder& d) {
  if (d.has("approx")) return approx<Approx::sqrt>(d);
  general<Fn::sqrt>(d, form_of(d, d.type()), 1);
}
u64 run_div_approx(const Op& op, u64 a, u64 b, u64) {
  const auto f = [](u64 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x)); };
  return std::bit_cast<std::uint32_t>(approximate_div(f(a), f(b), (op.flags & 8) != 0, op.imm != 0));
}
u64 run_testp(const Op& op, u64 a, u64, u64) {
  const bool wide = op.width == 8;
  const u64 exponent = wide ? a >> 52 & 0x7ff : a >> 23 & 0xff, top = wide ? 0x7ff : 0xff;
  const u64 mantissa = wide ? a & 0xfffffffffffffull : a & 0x7fffff;
  switch (op.imm) {
    case 0:
      return exponent != top;
    case 1:
      return exponent == top && mantissa == 0;
    case 2:
      return !(exponent == top && mantissa != 0);
    case 3:
      return exponent == top && mantissa != 0;
    case 4:  // zeros count as normal
      return exponent != top && (exponent != 0 || mantissa == 0);
    default:
      return exponent == 0 && mantissa != 0;
  }
}
void decode_testp(Decoder& d) {
  const int size = size_of(d.type());
  const int what = d.which({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (what < 0) d.unsupported();
  const Ref r = d.dst(d.operand(0), 3), a = d.src(d.operand(1), size);
  Op& op = d.emit_scalar(run_testp, Kind::predicate, r, 3, a, size);
  op.imm = what;
  op.width = static_cast<std::uint8_t>(size);
}
void decode_copysign(Decoder& d) {
  const int size = size_of(d.type());
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), size);
  d.emit_scalar(
      [](const Op& op, u64 x, u64 y, u64) {
        const u64 s = u64{1} << (8 * op.asize - 1);
        return (y & ~s) | (x & s);
      },
      Kind::floating, r, size, a, size, b, size);
}
void decode_fma(Decoder& d) {
  float_fma(d);
}

template <u64 (*Apply)(FloatFormat, u64, bool)>
u64 sign_bits(const Op& op, u64 a, u64, u64) {
  const auto one = [&](u64 x) { return Apply(format_of(op), x, (op.flags & 8) != 0); };
  return op.count == 2 ? one(a >> 16) << 16 | one(a & 0xffff) : one(a);
}

}  // namespace

void float_binary(Decoder& d) {
  const Type t = d.type();
  const auto o = d.in->opcode;
  const bool add = o == "add", sub = o == "sub";
  if (d.types().size() > 1) d.unsupported();
  if (fast(d, t)) {
    const bool ftz = d.has("ftz");
    return rows(d,
                add   ? (ftz ? Alu::fadd_ftz : Alu::fadd)
                : sub ? (ftz ? Alu::fsub_ftz : Alu::fsub)
                      : (ftz ? Alu::fmul_ftz : Alu::fmul),
                2);
  }
  const Form f = form_of(d, t);
  if (add)
    general<Fn::add>(d, f, 2);
  else if (sub)
    general<Fn::sub>(d, f, 2);
  else
    general<Fn::mul>(d, f, 2);
}
void float_fma(Decoder& d) {
  const Type t = d.type();
  if (d.types().size() > 1) d.unsupported();
  if (d.has("oob")) {
    const Form f = form_of(d, t);
    general<Fn::fma>(d, f, 3).aux = reinterpret_cast<const void*>(f.pair ? fma_oob_pair : fma_oob);
    return;
  }
  if (fast(d, t)) return rows(d, d.has("ftz") ? Alu::ffma_ftz : Alu::ffma, 3);
  general<Fn::fma>(d, form_of(d, t), 3);
}
void float_div(Decoder& d) {
  if (d.has("approx") || d.has("full")) {
    const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
    Op& op = d.emit_scalar(run_div_approx, Kind::floating, r, 4, a, 4, b, 4);
    op.flags = d.has("ftz") ? 8 : 0;
    op.imm = d.has("full");
    return;
  }
  general<Fn::div>(d, form_of(d, d.type()), 2);
}
void float_minmax(Decoder& d) {
  const Type t = d.type();
  const bool min = d.in->opcode == "min";
  const bool plain = !d.has("NaN") && !d.has("xorsign") && !d.has("ftz");
  if (d.operands() > 3) d.unsupported();
  if (t == Type::f32 && plain) return rows(d, min ? Alu::fmin : Alu::fmax, 2);
  Op& op = min ? general<Fn::min>(d, form_of(d, t), 2) : general<Fn::max>(d, form_of(d, t), 2);
  op.imm = (d.has("NaN") ? 1 : 0) | (d.has("xorsign") ? 2 : 0);
}
void float_negabs(Decoder& d) {
  const Type t = d.type();
  const bool neg = d.in->opcode == "neg";
  if (t == Type::f32 && !d.has("ftz")) return rows(d, neg ? Alu::fneg : Alu::fabs, 1);
  const Form f = form_of(d, t);
  const Ref r = d.dst(d.operand(0), f.size), a = d.src(d.operand(1), f.size);
  Op& op =
      d.emit_scalar(neg ? sign_bits<float_neg> : sign_bits<float_abs>, Kind::floating, r, f.size, a, f.size);
  op.width = static_cast<std::uint8_t>(f.format);
  op.count = f.pair ? 2 : 1;
  op.flags = d.has("ftz") ? 8 : 0;
}

std::vector<DecodeEntry> float_table() {
  return {{"fma", decode_fma},   {"ex2", decode_ex2},     {"lg2", decode_lg2},          {"tanh", decode_tanh},
          {"sin", decode_sin},   {"cos", decode_cos},     {"rsqrt", decode_rsqrt},      {"rcp", decode_rcp},
          {"sqrt", decode_sqrt}, {"testp", decode_testp}, {"copysign", decode_copysign}};
}

}  // namespace kiln::emulator::ptx
