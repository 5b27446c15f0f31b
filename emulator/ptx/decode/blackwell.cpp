// Arithmetic that came with sm_100: pairs of f32, minima and maxima of three, sums of f32 with f16 or bf16.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/tensor/multiversion.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

void only(const Decoder& d, std::initializer_list<std::string_view> modifiers) {
  for (const auto m : d.in->modifiers)
    if (std::find(modifiers.begin(), modifiers.end(), m) == modifiers.end())
      d.fail("unexpected ." + std::string(m) + " in");
}

enum class Pair : std::uint8_t { add, sub, mul, fma };

/// 32 lanes of two floats each, rounded to nearest.
KILN_MULTIVERSION void nearest(Pair what, const float* a, const float* b, const float* c, float* out) {
  switch (what) {
    case Pair::add:
      for (int i = 0; i < 64; ++i) out[i] = canonicalize(a[i] + b[i]);
      break;
    case Pair::sub:
      for (int i = 0; i < 64; ++i) out[i] = canonicalize(a[i] - b[i]);
      break;
    case Pair::mul:
      for (int i = 0; i < 64; ++i) out[i] = canonicalize(a[i] * b[i]);
      break;
    case Pair::fma:
      for (int i = 0; i < 64; ++i) out[i] = canonicalize(__builtin_fmaf(a[i], b[i], c[i]));
      break;
  }
}

std::uint32_t rounded(Pair what, std::uint32_t a, std::uint32_t b, std::uint32_t c, const FloatOptions& o) {
  const auto f = FloatFormat::f32;
  switch (what) {
    case Pair::add:
      return static_cast<std::uint32_t>(float_add(f, a, b, o));
    case Pair::sub:
      return static_cast<std::uint32_t>(float_sub(f, a, b, o));
    case Pair::mul:
      return static_cast<std::uint32_t>(float_mul(f, a, b, o));
    default:
      return static_cast<std::uint32_t>(float_fma(f, a, b, c, o));
  }
}

void run_pair(Warp& w, const Op& op) {
  const auto what = static_cast<Pair>(op.count);
  const FloatOptions options = options_of(op);
  float in[3][64], out[64];
  const Ref refs[3] = {op.a, op.b, op.c};
  for (std::size_t i = 0; i < 3; ++i)
    if (refs[i] != kNoRef) std::memcpy(in[i], w.in<u64>(refs[i]), sizeof in[i]);
  if (options.rounding == Rounding::rn && !options.ftz) {
    nearest(what, in[0], in[1], in[2], out);
  } else {
    const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    for (std::size_t i = 0; i < 64; ++i)
      out[i] = std::bit_cast<float>(
          rounded(what, bits(in[0][i]), bits(in[1][i]), what == Pair::fma ? bits(in[2][i]) : 0, options));
  }
  u64 result[32];
  std::memcpy(result, out, sizeof result);
  u64* const d = w.out<u64>(op.d);
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) d[std::countr_zero(m)] = result[std::countr_zero(m)];
}

bool decode_pair(Decoder& d) {
  static constexpr std::string_view kOpcodes[] = {"add", "sub", "mul", "fma"};
  const auto* const opcode = std::find(std::begin(kOpcodes), std::end(kOpcodes), d.in->opcode);
  if (opcode == std::end(kOpcodes) || !d.has("f32x2")) return false;
  only(d, {"f32x2", "ftz", "rn", "rz", "rm", "rp"});
  const bool fma = *opcode == "fma";
  if (d.operands() != (fma ? 4u : 3u)) d.fail("wrong number of operands of");
  const int rounding = d.which({"rn", "rz", "rm", "rp"});
  if (fma && rounding < 0) d.fail("a rounding is needed in");
  const Ref r = d.dst(d.operand(0), 8), a = d.src(d.operand(1), 8), b = d.src(d.operand(2), 8),
            c = fma ? d.src(d.operand(3), 8) : kNoRef;
  FloatOptions o;
  o.rounding = static_cast<Rounding>(std::max(rounding, 0));
  o.ftz = d.has("ftz");
  Op& op = d.emit(run_pair, Kind::floating);
  op.d = r, op.a = a, op.b = b, op.c = c, op.flags = pack_options(o);
  op.count = static_cast<std::uint8_t>(opcode - kOpcodes);
  op.use = Use::halves;
  return true;
}

// --- min and max of three ---
enum MinMaxFlag : std::uint16_t { kMax = 1, kNan = 2, kAbs = 4, kFlush = 8 };

KILN_MULTIVERSION void plain_three(bool max, const float* a, const float* b, const float* c, float* out) {
  // A NaN operand yields to the others, -0 < +0 is settled by what fmin and fmax of two do with signs.
  for (int i = 0; i < 32; ++i) {
    const float x =
        max ? (a[i] > b[i] || b[i] != b[i] ? a[i] : b[i]) : (a[i] < b[i] || b[i] != b[i] ? a[i] : b[i]);
    out[i] = max ? (x > c[i] || c[i] != c[i] ? x : c[i]) : (x < c[i] || c[i] != c[i] ? x : c[i]);
  }
}

void run_three(Warp& w, const Op& op) {
  float in[3][32], out[32];
  const Ref refs[3] = {op.a, op.b, op.c};
  for (std::size_t i = 0; i < 3; ++i) std::memcpy(in[i], w.in<std::uint32_t>(refs[i]), sizeof in[i]);
  plain_three((op.flags & kMax) != 0, in[0], in[1], in[2], out);
  const MinMaxOptions options{.ftz = (op.flags & kFlush) != 0, .nan = (op.flags & kNan) != 0};
  const auto exact = [&](std::size_t l) {
    u64 x = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      u64 v = std::bit_cast<std::uint32_t>(in[i][l]);
      if ((op.flags & kAbs) != 0) v &= 0x7fffffffu;
      x = i == 0 ? v : float_extreme(FloatFormat::f32, (op.flags & kMax) != 0, x, v, options);
    }
    return static_cast<std::uint32_t>(x);
  };
  std::uint32_t* const d = w.out<std::uint32_t>(op.d);
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(m));
    // Zeros differ by sign, and NaN have rules: both are rare.
    const bool simple = (op.flags & ~kMax) == 0 && out[l] != 0 && in[0][l] == in[0][l] &&
                        in[1][l] == in[1][l] && in[2][l] == in[2][l];
    d[l] = simple ? std::bit_cast<std::uint32_t>(out[l]) : exact(l);
  }
}

bool decode_three(Decoder& d) {
  const bool max = d.in->opcode == "max";
  if ((!max && d.in->opcode != "min") || d.operands() != 4) return false;
  only(d, {"f32", "ftz", "NaN", "abs"});
  if (!d.has("f32")) d.unsupported();
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4),
            c = d.src(d.operand(3), 4);
  Op& op = d.emit(run_three, Kind::floating);
  op.d = r, op.a = a, op.b = b, op.c = c;
  op.flags = static_cast<std::uint16_t>((max ? kMax : 0) | (d.has("NaN") ? kNan : 0) |
                                        (d.has("abs") ? kAbs : 0) | (d.has("ftz") ? kFlush : 0));
  return true;
}

// --- f32 with a 16-bit operand ---
u64 run_mixed(const Op& op, u64 a, u64 b, u64 c) {
  const auto from = static_cast<FloatFormat>(op.width);
  const FloatOptions o = options_of(op);
  const u64 x = convert_float(FloatFormat::f32, from, a);
  switch (static_cast<Pair>(op.count)) {
    case Pair::add:
      return float_add(FloatFormat::f32, x, b, o);
    case Pair::sub:
      return float_sub(FloatFormat::f32, x, b, o);
    default:
      return float_fma(FloatFormat::f32, x, convert_float(FloatFormat::f32, from, b), c, o);
  }
}

bool decode_mixed(Decoder& d) {
  const bool add = d.in->opcode == "add", sub = d.in->opcode == "sub", fma = d.in->opcode == "fma";
  const bool half = d.has("f16"), bf16 = d.has("bf16");
  if ((!add && !sub && !fma) || !d.has("f32") || half == bf16) return false;
  only(d, {"f32", "f16", "bf16", "sat", "rn", "rz", "rm", "rp"});
  if (d.operands() != (fma ? 4u : 3u)) d.fail("wrong number of operands of");
  FloatOptions o;
  o.rounding = static_cast<Rounding>(std::max(d.which({"rn", "rz", "rm", "rp"}), 0));
  o.sat = d.has("sat");
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 2), b = d.src(d.operand(2), fma ? 2 : 4),
            c = fma ? d.src(d.operand(3), 4) : kNoRef;
  Op& op = d.emit_scalar(run_mixed, Kind::floating, r, 4, a, 2, b, fma ? 2 : 4, c, fma ? 4 : 0);
  op.flags = pack_options(o);
  op.count = static_cast<std::uint8_t>(fma ? Pair::fma : sub ? Pair::sub : Pair::add);
  op.width = static_cast<std::uint8_t>(half ? FloatFormat::f16 : FloatFormat::bf16);
  return true;
}

/// Vectors of 32 bytes: of global memory, and of elements of 4 and 8 bytes. Eight bytes may lie anywhere.
void check_wide_access(const Decoder& d) {
  if (d.in->opcode != "ld" && d.in->opcode != "st") return;
  const bool eight = d.has("v8"), four = d.has("v4");
  if (!eight && !four) return;
  const int size = size_of(d.last_type());
  if (eight ? size == 1 : !(four && size == 8)) return;
  std::string_view name;
  const bool global = d.space_of(name) == Space::global || name.empty();
  const int bytes = size * (eight ? 8 : 4);
  const bool hinted = std::any_of(d.in->modifiers.begin(), d.in->modifiers.end(),
                                  [](std::string_view m) { return m.starts_with("L2::"); });
  const bool halves = bytes == 16 && d.in->opcode == "st" && !hinted;  // ptxas takes these, too
  if (!global || (bytes != 32 && !halves)) d.unsupported();
}

}  // namespace

/// cvt to and from formats of 4 and 6 bits, scales, and with stochastic rounding (narrow_convert.cpp).
bool decode_narrow_cvt(Decoder& d);

bool decode_blackwell(Decoder& d) {
  check_wide_access(d);
  return decode_pair(d) || decode_three(d) || decode_mixed(d) || decode_narrow_cvt(d);
}

}  // namespace kiln::emulator::ptx
