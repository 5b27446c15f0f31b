// Integer arithmetic, logic, shifts, selection and comparison.
#include <algorithm>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;
using s64 = std::int64_t;

bool is_float(Type t) {
  return t == Type::f16 || t == Type::f16x2 || t == Type::bf16 || t == Type::bf16x2 || t == Type::f32 ||
         t == Type::f64;
}
void two(Decoder& d, Alu op, int size, Kind kind = Kind::integer) {
  const Ref r = d.dst(d.operand(0), size);
  const Ref a = d.src(d.operand(1), size), b = d.src(d.operand(2), size);
  d.emit_alu(op, kind, r, a, b);
}
void scalar(Decoder& d, Scalar f, int size, int operands) {
  const Ref r = d.dst(d.operand(0), size);
  Ref s[3] = {kNoRef, kNoRef, kNoRef};
  for (int i = 0; i < operands; ++i) s[i] = d.src(d.operand(static_cast<std::size_t>(i) + 1), size);
  d.emit_scalar(f, Kind::integer, r, size, s[0], size, s[1], operands > 1 ? size : 0, s[2],
                operands > 2 ? size : 0);
}

void decode_add(Decoder& d) {
  if (d.has("cc")) return decode_carry(d);
  if (decode_integer_pairs(d)) return;
  const Type t = d.type();
  if (is_float(t)) {
    return float_binary(d);
  }
  const bool sub = d.in->opcode == "sub";
  if (d.has("sat") || d.has("cc") || t == Type::none) {
    if (d.has("sat")) {
      static const Scalar kAdd = [](const Op&, u64 a, u64 b, u64) -> u64 {
        const s64 r = sign_extend(a, 4) + sign_extend(b, 4);
        return static_cast<std::uint32_t>(r > 0x7fffffff      ? 0x7fffffff
                                          : r < -0x80000000ll ? -0x80000000ll
                                                              : r);
      };
      static const Scalar kSub = [](const Op&, u64 a, u64 b, u64) -> u64 {
        const s64 r = sign_extend(a, 4) - sign_extend(b, 4);
        return static_cast<std::uint32_t>(r > 0x7fffffff      ? 0x7fffffff
                                          : r < -0x80000000ll ? -0x80000000ll
                                                              : r);
      };
      return scalar(d, sub ? kSub : kAdd, 4, 2);
    }
    d.unsupported();
  }
  two(d,
      sub ? pick(d, t, Alu::sub16, Alu::sub32, Alu::sub64) : pick(d, t, Alu::add16, Alu::add32, Alu::add64),
      size_of(t));
}

u64 mul_hi(const Op& op, u64 a, u64 b, u64 c) {
  __extension__ typedef unsigned __int128 u128;
  __extension__ typedef __int128 s128;
  const int bytes = op.width;
  u64 hi;
  if (op.flags & 1) {
    const s128 p = static_cast<s128>(sign_extend(a, bytes)) * sign_extend(b, bytes);
    hi = static_cast<u64>(p >> (8 * bytes));
  } else {
    const u128 p = static_cast<u128>(a) * b;
    hi = static_cast<u64>(p >> (8 * bytes));
  }
  return hi + c;
}
u64 mul_wide16(const Op& op, u64 a, u64 b, u64 c) {
  return (op.flags & 1 ? static_cast<u64>(sign_extend(a, 2) * sign_extend(b, 2)) : a * b) + c;
}
u64 mul_24(const Op& op, u64 a, u64 b, u64 c) {
  const s64 x = op.flags & 1 ? static_cast<s64>(a << 40) >> 40 : static_cast<s64>(a & 0xffffff);
  const s64 y = op.flags & 1 ? static_cast<s64>(b << 40) >> 40 : static_cast<s64>(b & 0xffffff);
  const s64 product = op.flags & 2 ? (x * y) >> 16 : x * y;
  if (op.flags & 4) {  // .sat: s32 only
    const s64 sum = product + static_cast<std::int32_t>(c);
    return static_cast<u64>(std::clamp<s64>(sum, INT32_MIN, INT32_MAX));
  }
  return static_cast<u64>(product) + c;
}

/// mul and mad of integers: .wide, .hi or .lo.
struct Product {
  Type type;
  int size;  ///< of a factor
  bool mad;
  Ref r, a, b, c;
};
void emit_wide(Decoder& d, const Product& p) {
  if (p.size == 4) {
    const Alu op = p.mad ? (is_signed(p.type) ? Alu::madwide_s32 : Alu::madwide_u32)
                         : (is_signed(p.type) ? Alu::wide_s32 : Alu::wide_u32);
    d.emit_alu(op, Kind::integer, p.r, p.a, p.b, p.c);
    return;
  }
  if (p.size != 2) d.unsupported();
  d.emit_scalar(mul_wide16, Kind::integer, p.r, 4, p.a, 2, p.b, 2, p.c, p.mad ? 4 : 0).flags =
      is_signed(p.type);
}
void emit_hi(Decoder& d, const Product& p) {
  Op& op =
      d.emit_scalar(mul_hi, Kind::integer, p.r, p.size, p.a, p.size, p.b, p.size, p.c, p.mad ? p.size : 0);
  op.flags = is_signed(p.type);
  op.width = static_cast<std::uint8_t>(p.size);
}
void emit_lo(Decoder& d, const Product& p) {
  if (!p.mad)
    d.emit_alu(pick(d, p.type, Alu::mul16, Alu::mul32, Alu::mul64), Kind::integer, p.r, p.a, p.b);
  else if (p.size == 2)
    d.emit_scalar([](const Op&, u64 x, u64 y, u64 z) { return x * y + z; }, Kind::integer, p.r, 2, p.a, 2,
                  p.b, 2, p.c, 2);
  else
    d.emit_alu(pick(d, p.type, Alu::mad32, Alu::mad32, Alu::mad64), Kind::integer, p.r, p.a, p.b, p.c);
}

void decode_mul(Decoder& d) {
  const Type t = d.type();
  const bool mad = d.in->opcode == "mad";
  if (is_float(t)) {
    return mad ? float_fma(d) : float_binary(d);
  }
  if (mad && d.has("cc")) return decode_carry(d);
  if (mad && d.has("sat") && d.has("hi") && t == Type::s32) return decode_mad_saturated(d);
  if (d.has("cc") || d.has("sat")) d.unsupported();
  const int size = size_of(t), result = d.has("wide") ? 2 * size : size;
  Product p{
      t,     size, mad, d.dst(d.operand(0), result), d.src(d.operand(1), size), d.src(d.operand(2), size),
      kNoRef};
  if (mad) p.c = d.src(d.operand(3), result);
  if (result != size) return emit_wide(d, p);
  if (d.has("hi")) return emit_hi(d, p);
  if (!d.has("lo")) d.unsupported();
  emit_lo(d, p);
}
void decode_mul24(Decoder& d) {
  const bool mad = d.in->opcode == "mad24";
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
  const Ref c = mad ? d.src(d.operand(3), 4) : kNoRef;
  d.emit_scalar(mul_24, Kind::integer, r, 4, a, 4, b, 4, c, mad ? 4 : 0).flags = static_cast<std::uint16_t>(
      (d.type() == Type::s32 ? 1 : 0) | (d.has("hi") ? 2 : 0) | (d.has("sat") ? 4 : 0));
}

template <bool Rem>
u64 divide(const Op& op, u64 a, u64 b, u64) {
  const int n = op.width;
  if (op.flags & 1) {
    const s64 x = sign_extend(a, n), y = sign_extend(b, n);
    if (y == 0) return Rem ? a : ~u64{0};
    if (y == -1) return Rem ? 0 : u64{0} - a;
    return static_cast<u64>(Rem ? x % y : x / y);
  }
  if (b == 0) return Rem ? a : ~u64{0};
  return Rem ? a % b : a / b;
}
void decode_div(Decoder& d) {
  const Type t = d.type();
  if (is_float(t)) {
    return float_div(d);
  }
  const int size = size_of(t);
  scalar(d, d.in->opcode == "rem" ? divide<true> : divide<false>, size, 2);
  d.program.ops.back().flags = is_signed(t);
  d.program.ops.back().width = static_cast<std::uint8_t>(size);
}

void decode_logic(Decoder& d) {
  const Type t = d.type();
  const auto o = d.in->opcode;
  const bool no = o == "not";
  if (t == Type::pred) {
    const Ref r = d.dst(d.operand(0), 3), a = d.src(d.operand(1), 3),
              b = no ? kNoRef : d.src(d.operand(2), 3);
    d.emit_alu(o == "and"   ? Alu::and_pred
               : o == "or"  ? Alu::or_pred
               : o == "xor" ? Alu::xor_pred
                            : Alu::not_pred,
               Kind::predicate, r, a, b);
    return;
  }
  const int size = size_of(t);
  if (no) {
    const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size);
    d.emit_alu(pick(d, t, Alu::not16, Alu::not32, Alu::not64), Kind::integer, r, a);
    return;
  }
  const Alu op = o == "and"  ? pick(d, t, Alu::and16, Alu::and32, Alu::and64)
                 : o == "or" ? pick(d, t, Alu::or16, Alu::or32, Alu::or64)
                             : pick(d, t, Alu::xor16, Alu::xor32, Alu::xor64);
  two(d, op, size);
}
void decode_cnot(Decoder& d) {
  scalar(
      d, [](const Op&, u64 a, u64, u64) -> u64 { return a == 0; }, size_of(d.type()), 1);
}

void decode_shift(Decoder& d) {
  const Type t = d.type();
  const int size = size_of(t);
  const bool left = d.in->opcode == "shl";
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), 4);
  if (size == 2) {
    const Scalar f = left ? [](const Op&, u64 x, u64 n, u64) -> u64 { return n > 15 ? 0 : x << n; }
    : is_signed(t)
      ? static_cast<Scalar>([](const Op&, u64 x, u64 n, u64) -> u64 {
          return static_cast<u64>(sign_extend(x, 2) >> (n > 15 ? 15 : n));
        })
      : static_cast<Scalar>([](const Op&, u64 x, u64 n, u64) -> u64 { return n > 15 ? 0 : x >> n; });
    d.emit_scalar(f, Kind::integer, r, 2, a, 2, b, 4);
    return;
  }
  const Alu op = left           ? (size == 4 ? Alu::shl32 : Alu::shl64)
                 : is_signed(t) ? (size == 4 ? Alu::shr_s32 : Alu::shr_s64)
                                : (size == 4 ? Alu::shr_u32 : Alu::shr_u64);
  d.emit_alu(op, Kind::integer, r, a, b);
}

void decode_minmax(Decoder& d) {
  if (decode_integer_pairs(d)) return;
  const Type t = d.type();
  if (is_float(t)) {
    return float_minmax(d);
  }
  const bool min = d.in->opcode == "min";
  const int size = size_of(t);
  if (t == Type::s32 && d.has("relu")) d.unsupported();
  if (size == 2) {
    const Scalar f = min ? [](const Op& op, u64 a, u64 b, u64) -> u64 {
      return (op.flags ? sign_extend(a, 2) < sign_extend(b, 2) : a < b) ? a : b;
    }
    : static_cast<Scalar>([](const Op& op, u64 a, u64 b, u64) -> u64 {
        return (op.flags ? sign_extend(a, 2) > sign_extend(b, 2) : a > b) ? a : b;
      });
    scalar(d, f, 2, 2);
    d.program.ops.back().flags = is_signed(t);
    return;
  }
  Alu op =
      size == 4 ? (is_signed(t) ? Alu::min_s32 : Alu::min_u32) : (is_signed(t) ? Alu::min_s64 : Alu::min_u64);
  if (!min)
    op = size == 4 ? (is_signed(t) ? Alu::max_s32 : Alu::max_u32)
                   : (is_signed(t) ? Alu::max_s64 : Alu::max_u64);
  two(d, op, size);
}

void decode_negabs(Decoder& d) {
  const Type t = d.type();
  const bool neg = d.in->opcode == "neg";
  if (is_float(t)) {
    return float_negabs(d);
  }
  const int size = size_of(t);
  if (size == 2)
    return scalar(d,
                  neg ? static_cast<Scalar>([](const Op&, u64 a, u64, u64) -> u64 { return 0 - a; })
                      : static_cast<Scalar>(
                            [](const Op&, u64 a, u64, u64) -> u64 { return (a & 0x8000) != 0 ? 0 - a : a; }),
                  2, 1);
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size);
  d.emit_alu(neg ? (size == 4 ? Alu::neg32 : Alu::neg64) : (size == 4 ? Alu::abs32 : Alu::abs64),
             Kind::integer, r, a);
}

void decode_sad(Decoder& d) {
  const int size = size_of(d.type());
  scalar(
      d,
      [](const Op& op, u64 a, u64 b, u64 c) -> u64 {
        const bool less = op.flags ? sign_extend(a, op.width) < sign_extend(b, op.width) : a < b;
        return c + (less ? b - a : a - b);
      },
      size, 3);
  d.program.ops.back().flags = is_signed(d.type());
  d.program.ops.back().width = static_cast<std::uint8_t>(size);
}

void decode_selp(Decoder& d) {
  const int size = size_of(d.type());
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), size),
            p = d.src(d.operand(3), 3);
  d.emit_alu(pick(d, d.type(), Alu::selp16, Alu::selp32, Alu::selp64), Kind::integer, r, a, b, p);
}

/// Place of an instruction's comparison in the lists of decode_setp.
int comparison(Decoder& d) {
  static constexpr std::string_view kOps[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                              "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  const auto* const op =
      std::find_if(std::begin(kOps), std::end(kOps), [&](auto name) { return d.has(name); });
  if (op == std::end(kOps)) d.unsupported();
  return static_cast<int>(op - std::begin(kOps));
}

Alu float_comparison(Type t, int op) {
  static constexpr Alu kF32[] = {Alu::eq_f32,  Alu::ne_f32,  Alu::lt_f32,  Alu::le_f32,  Alu::gt_f32,
                                 Alu::ge_f32,  Alu::lt_f32,  Alu::le_f32,  Alu::gt_f32,  Alu::ge_f32,
                                 Alu::equ_f32, Alu::neu_f32, Alu::ltu_f32, Alu::leu_f32, Alu::gtu_f32,
                                 Alu::geu_f32, Alu::num_f32, Alu::nan_f32};
  const auto shift = static_cast<int>(Alu::eq_f64) - static_cast<int>(Alu::eq_f32);
  // The f32 and f64 lists start with lt; both have the same order.
  return t == Type::f32 ? kF32[op] : static_cast<Alu>(static_cast<int>(kF32[op]) + shift);
}

Alu integer_comparison(Decoder& d, Type t, int op) {
  static constexpr Alu kUnsigned[3][6] = {
      {Alu::eq16, Alu::ne16, Alu::lt_u16, Alu::le_u16, Alu::gt_u16, Alu::ge_u16},
      {Alu::eq32, Alu::ne32, Alu::lt_u32, Alu::le_u32, Alu::gt_u32, Alu::ge_u32},
      {Alu::eq64, Alu::ne64, Alu::lt_u64, Alu::le_u64, Alu::gt_u64, Alu::ge_u64}};
  static constexpr Alu kSigned[3][6] = {
      {Alu::eq16, Alu::ne16, Alu::lt_s16, Alu::le_s16, Alu::gt_s16, Alu::ge_s16},
      {Alu::eq32, Alu::ne32, Alu::lt_s32, Alu::le_s32, Alu::gt_s32, Alu::ge_s32},
      {Alu::eq64, Alu::ne64, Alu::lt_s64, Alu::le_s64, Alu::gt_s64, Alu::ge_s64}};
  const int size = size_of(t);
  if (op > 9 || (size != 2 && size != 4 && size != 8)) d.unsupported();
  const int row = size / 4;
  if (op > 5) return kUnsigned[row][op - 4];  // lo, ls, hi, hs
  return (is_signed(t) ? kSigned : kUnsigned)[row][op];
}

void decode_setp(Decoder& d) {
  const Type t = d.last_type();
  if (t == Type::f16 || t == Type::bf16 || t == Type::f16x2 || t == Type::bf16x2 || d.has("ftz"))
    return decode_setp_lanes(d);
  const int what = comparison(d);
  const Operand& first = d.operand(0);
  const Ref r = d.dst(first, 3), e = first.items.empty() ? kNoRef : d.dst(first.items[0], 3);
  const int size = size_of(t);
  const Ref a = d.src(d.operand(1), size), b = d.src(d.operand(2), size);
  Ref c = kNoRef;
  std::int64_t join = 0;
  if (d.operands() > 3) {
    Operand p = d.operand(3);
    const int how = d.which({"and", "or", "xor"});
    if (how < 0) d.unsupported();
    join = how | (p.negated ? 4 : 0);
    p.negated = false;
    c = d.src(p, 3);
  }
  const bool floating = t == Type::f32 || t == Type::f64;
  const Alu code = floating ? float_comparison(t, what) : integer_comparison(d, t, what);
  Op& o = d.emit_alu(code, Kind::predicate, r, a, b, c);
  o.e = e;
  o.imm = join;
}

}  // namespace

std::vector<DecodeEntry> integer_table() {
  return {{"add", decode_add},     {"sub", decode_add},     {"mul", decode_mul},    {"mad", decode_mul},
          {"mul24", decode_mul24}, {"mad24", decode_mul24}, {"div", decode_div},    {"rem", decode_div},
          {"and", decode_logic},   {"or", decode_logic},    {"xor", decode_logic},  {"not", decode_logic},
          {"cnot", decode_cnot},   {"shl", decode_shift},   {"shr", decode_shift},  {"min", decode_minmax},
          {"max", decode_minmax},  {"neg", decode_negabs},  {"abs", decode_negabs}, {"sad", decode_sad},
          {"selp", decode_selp},   {"setp", decode_setp}};
}

}  // namespace kiln::emulator::ptx
