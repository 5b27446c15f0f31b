// The rarer arithmetic: carries, packed 16-bit integers, comparisons into registers, masks, packing
// conversions.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;
using s64 = std::int64_t;

// --- carries: the condition code is one bit a lane ---
enum CarryFlag : std::uint16_t { kSubtract = 1, kIn = 2, kOut = 4, kHigh = 8, kSigned = 16 };

void run_carry(Warp& w, const Op& op) {
  __extension__ typedef unsigned __int128 u128;
  __extension__ typedef __int128 s128;
  const int bits = 8 * op.width;
  const u64 mask = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  each_lane(w, [&](int l) {
    u64 a = w.value(op.a, op.width, l), b = w.value(op.b, op.width, l);
    if (op.c != kNoRef) {  // mad: the product's half, then c
      const u128 product =
          (op.flags & kSigned) != 0
              ? static_cast<u128>(static_cast<s128>(sign_extend(a, op.width)) * sign_extend(b, op.width))
              : static_cast<u128>(a) * b;
      a = static_cast<u64>((op.flags & kHigh) != 0 ? product >> bits : product) & mask;
      b = w.value(op.c, op.width, l);
    }
    // A subtraction adds the complement and 1: its carry says that nothing was borrowed. The compiler's division of 128
    // bits reads it so (addc after subc.cc).
    const bool subtract = (op.flags & kSubtract) != 0;
    const u64 in = (op.flags & kIn) != 0 ? w.carry >> l & 1 : subtract ? 1 : 0;
    const u128 sum = static_cast<u128>(a) + (subtract ? ~b & mask : b) + in;
    w.set(op.d, op.width, l, static_cast<u64>(sum) & mask);
    if ((op.flags & kOut) != 0) {
      const std::uint32_t out = (sum >> bits) != 0 ? 1 : 0;
      w.carry = (w.carry & ~(1u << l)) | out << l;
    }
  });
}

}  // namespace

void decode_carry(Decoder& d) {
  const Type t = d.last_type();
  const int size = size_of(t);
  const auto o = d.in->opcode;
  const bool mad = o.starts_with("mad");
  if (size != 4 && size != 8) d.unsupported();
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), size);
  const Ref c = mad ? d.src(d.operand(3), size) : kNoRef;
  Op& op = d.emit(run_carry, Kind::integer);
  op.d = r, op.a = a, op.b = b, op.c = c, op.width = static_cast<std::uint8_t>(size);
  op.flags = static_cast<std::uint16_t>((o.starts_with("sub") ? kSubtract : 0) |
                                        (o.ends_with("c") ? kIn : 0) | (d.has("cc") ? kOut : 0) |
                                        (d.has("hi") ? kHigh : 0) | (is_signed(t) ? kSigned : 0));
}

namespace {

// --- packed pairs of 16-bit integers ---
u64 run_pairs(const Op& op, u64 a, u64 b, u64) {
  u64 r = 0;
  for (int i = 0; i < 2; ++i) {
    const u64 x = a >> (16 * i) & 0xffff, y = b >> (16 * i) & 0xffff;
    u64 v = x + y;
    if (op.imm != 0) {
      const bool less = (op.flags & 1) != 0 ? sign_extend(x, 2) < sign_extend(y, 2) : x < y;
      v = less == (op.imm == 1) ? x : y;
      if ((op.flags & 2) != 0 && sign_extend(v, 2) < 0) v = 0;
    }
    r |= (v & 0xffff) << (16 * i);
  }
  return r;
}

}  // namespace

bool decode_integer_pairs(Decoder& d) {
  const int kind = d.which({"u16x2", "s16x2"});
  const bool relu32 = d.has("relu") && d.has("s32");
  if (kind < 0 && !relu32) return false;
  const auto o = d.in->opcode;
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
  if (relu32) {
    Op& op = d.emit_scalar(
        [](const Op& p, u64 x, u64 y, u64) -> u64 {
          const s64 u = sign_extend(x, 4), v = sign_extend(y, 4);
          return static_cast<std::uint32_t>(std::max<s64>(0, p.imm == 1 ? std::min(u, v) : std::max(u, v)));
        },
        Kind::integer, r, 4, a, 4, b, 4);
    op.imm = o == "min" ? 1 : 2;
    return true;
  }
  if (o != "add" && o != "min" && o != "max") d.unsupported();
  Op& op = d.emit_scalar(run_pairs, Kind::integer, r, 4, a, 4, b, 4);
  op.imm = o == "add" ? 0 : o == "min" ? 1 : 2;
  op.flags = static_cast<std::uint16_t>((kind == 1 ? 1 : 0) | (d.has("relu") ? 2 : 0));
  return true;
}

namespace {

// --- comparisons ---
constexpr std::string_view kCompare[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                         "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
int pair_comparison(Decoder& d) {
  for (int i = 0; i < static_cast<int>(std::size(kCompare)); ++i)
    if (d.has(kCompare[i])) return i;
  d.unsupported();
}
template <class T>
bool compare(int op, T x, T y) {
  const bool nan = x != x || y != y;
  switch (op) {
    case 0:
      return x == y;
    case 1:
      return !nan && x != y;
    case 2:
    case 6:
      return x < y;
    case 3:
    case 7:
      return x <= y;
    case 4:
    case 8:
      return x > y;
    case 5:
    case 9:
      return x >= y;
    case 16:
      return !nan;
    case 17:
      return nan;
    default:
      return nan || compare(op - 10, x, y);
  }
}
struct PairSet {
  int op = 0;
  Type source = Type::none, result = Type::none;
  bool ftz = false;
  int join = -1;  ///< and, or, xor with a predicate
  bool negated = false;
};
bool compare_bits(const PairSet& s, u64 a, u64 b) {
  switch (s.source) {
    case Type::f16:
    case Type::f16x2:
      a = flush_operand(FloatFormat::f16, a & 0xffff, s.ftz);
      b = flush_operand(FloatFormat::f16, b & 0xffff, s.ftz);
      return compare(s.op, to_double(FloatFormat::f16, a), to_double(FloatFormat::f16, b));
    case Type::bf16:
    case Type::bf16x2:
      return compare(s.op, to_double(FloatFormat::bf16, a & 0xffff),
                     to_double(FloatFormat::bf16, b & 0xffff));
    case Type::f32: {
      float x = std::bit_cast<float>(static_cast<std::uint32_t>(a)),
            y = std::bit_cast<float>(static_cast<std::uint32_t>(b));
      if (s.ftz) x = flush_subnormal(x), y = flush_subnormal(y);
      return compare(s.op, x, y);
    }
    case Type::f64:
      return compare(s.op, std::bit_cast<double>(a), std::bit_cast<double>(b));
    default: {
      const int n = size_of(s.source);
      if (is_signed(s.source) && s.op < 6) return compare(s.op, sign_extend(a, n), sign_extend(b, n));
      return compare(s.op, a, b);
    }
  }
}
bool joined(const PairSet& s, bool r, u64 p) {
  const bool q = (p != 0) != s.negated;
  return s.join == 0 ? r && q : s.join == 1 ? r || q : s.join == 2 ? r != q : r;
}
u64 run_set(const Op& op, u64 a, u64 b, u64 c) {
  const auto& s = *reinterpret_cast<const PairSet*>(op.imm);
  if (s.source == Type::f16x2 || s.source == Type::bf16x2) {
    const u64 one = s.result == Type::f16x2 ? 0x3c00 : s.result == Type::bf16x2 ? 0x3f80 : 0xffff;
    return (joined(s, compare_bits(s, a, b), c) ? one : 0) |
           (joined(s, compare_bits(s, a >> 16, b >> 16), c) ? one << 16 : 0);
  }
  if (!joined(s, compare_bits(s, a, b), c)) return 0;
  switch (s.result) {
    case Type::f32:
      return 0x3f800000u;
    case Type::f16:
      return 0x3c00;
    case Type::bf16:
      return 0x3f80;
    default:
      return ~u64{0};
  }
}
void decode_set(Decoder& d) {
  PairSet s;
  s.op = pair_comparison(d);
  s.ftz = d.has("ftz");
  const auto t = d.types();
  if (t.size() != 2) d.unsupported();
  s.result = t[0], s.source = t[1];
  s.join = d.operands() > 3 ? d.which({"and", "or", "xor"}) : -1;
  const int rs = size_of(s.result), size = size_of(s.source);
  const Ref r = d.dst(d.operand(0), rs), a = d.src(d.operand(1), size), b = d.src(d.operand(2), size);
  Ref c = kNoRef;
  if (s.join >= 0) {
    Operand p = d.operand(3);
    s.negated = p.negated;
    p.negated = false;
    c = d.src(p, 3);
  }
  d.emit_scalar(run_set, Kind::predicate, r, rs, a, size, b, size, c, c == kNoRef ? 0 : 3).imm =
      reinterpret_cast<std::intptr_t>(d.own(s));
}

/// Two results: of the halves, or of one comparison and its complement.
void run_setp(Warp& w, const Op& op) {
  const auto& s = *static_cast<const PairSet*>(op.aux);
  const bool pair = s.source == Type::f16x2 || s.source == Type::bf16x2;
  const auto size = static_cast<std::uint8_t>(size_of(s.source));
  std::uint32_t lo = 0, hi = 0;
  each_lane(w, [&](int l) {
    const u64 a = w.value(op.a, size, l), b = w.value(op.b, size, l),
              c = op.c == kNoRef ? 0 : w.value(op.c, 3, l);
    const bool first = compare_bits(s, a, b), second = pair ? compare_bits(s, a >> 16, b >> 16) : !first;
    lo |= joined(s, first, c) ? 1u << l : 0;
    hi |= joined(s, second, c) ? 1u << l : 0;
  });
  const auto store = [&](Ref r, std::uint32_t v) {
    std::uint32_t& p = *w.out<std::uint32_t>(r);
    p = (p & ~w.exec) | (v & w.exec);
  };
  store(op.d, lo);
  if (op.e != kNoRef) store(op.e, hi);
}

}  // namespace

void decode_setp_lanes(Decoder& d) {
  PairSet s;
  s.op = pair_comparison(d);
  s.ftz = d.has("ftz");
  s.source = d.last_type();
  s.join = d.operands() > 3 ? d.which({"and", "or", "xor"}) : -1;
  const Operand& first = d.operand(0);
  const Ref r = d.dst(first, 3), e = first.items.empty() ? kNoRef : d.dst(first.items[0], 3);
  const int size = size_of(s.source);
  const Ref a = d.src(d.operand(1), size), b = d.src(d.operand(2), size);
  Ref c = kNoRef;
  if (s.join >= 0) {
    Operand p = d.operand(3);
    s.negated = p.negated;
    p.negated = false;
    c = d.src(p, 3);
  }
  Op& op = d.emit(run_setp, Kind::predicate);
  op.d = r, op.e = e, op.a = a, op.b = b, op.c = c;
  op.aux = d.own(s);
}

namespace {

void decode_slct(Decoder& d) {
  const auto t = d.types();
  if (t.size() != 2 || (t[1] != Type::s32 && t[1] != Type::f32)) d.unsupported();
  const int size = size_of(t[0]);
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size), b = d.src(d.operand(2), size),
            c = d.src(d.operand(3), 4);
  Op& op = d.emit_scalar(
      [](const Op& p, u64 x, u64 y, u64 z) {
        if (p.flags == 0) return sign_extend(z, 4) >= 0 ? x : y;
        float f = std::bit_cast<float>(static_cast<std::uint32_t>(z));
        if (p.flags == 2) f = flush_subnormal(f);
        return f >= 0 ? x : y;
      },
      Kind::integer, r, size, a, size, b, size, c, 4);
  op.flags = t[1] == Type::s32 ? 0 : d.has("ftz") ? 2 : 1;
}
u64 run_bmsk(const Op& op, u64 a, u64 b, u64) {
  if (op.flags != 0) a &= 31, b &= 31;
  const u64 from = std::min<u64>(a, 32), count = std::min<u64>(b, 32);
  return (((u64{1} << count) - 1) << from) & 0xffffffffu;
}
u64 run_szext(const Op& op, u64 a, u64 b, u64) {
  const u64 n = (op.flags & 1) != 0 ? b & 31 : std::min<u64>(b, 32);
  if (n == 32) return a;
  if (n == 0) return 0;
  const u64 low = a & ((u64{1} << n) - 1);
  return (op.flags & 2) != 0 && (low >> (n - 1) & 1) != 0 ? low | ~((u64{1} << n) - 1) : low;
}
void decode_masks(Decoder& d) {
  const bool bmsk = d.in->opcode == "bmsk";
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
  Op& op = d.emit_scalar(bmsk ? run_bmsk : run_szext, Kind::integer, r, 4, a, 4, b, 4);
  op.flags = static_cast<std::uint16_t>((d.has("wrap") ? 1 : 0) | (!bmsk && d.type() == Type::s32 ? 2 : 0));
}
u64 run_fns(const Op&, u64 mask, u64 base, u64 offset) {
  // The offset-th set bit at or after (offset > 0) or at or before (offset < 0) base; offset 0: base itself.
  const s64 n = sign_extend(offset, 4);
  const s64 start = static_cast<s64>(base);
  if (n == 0) return start < 32 && (mask >> start & 1) != 0 ? base : 0xffffffffu;
  s64 left = n > 0 ? n : -n;
  for (s64 at = start; at >= 0 && at<32; at += n> 0 ? 1 : -1)
    if ((mask >> at & 1) != 0 && --left == 0) return static_cast<u64>(at);
  return 0xffffffffu;
}
void decode_fns(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4),
            c = d.src(d.operand(3), 4);
  d.emit_scalar(run_fns, Kind::integer, r, 4, a, 4, b, 4, c, 4);
}

u64 run_pack(const Op& op, u64 a, u64 b, u64 c) {
  const int bits = op.count;
  const auto clamp = [&](u64 v) {
    const s64 x = sign_extend(v, 4);
    const s64 low = op.flags != 0 ? -(s64{1} << (bits - 1)) : 0,
              high = op.flags != 0 ? (s64{1} << (bits - 1)) - 1 : (s64{1} << bits) - 1;
    return static_cast<u64>(std::clamp(x, low, high)) & ((u64{1} << bits) - 1);
  };
  return (op.csize != 0 ? c << (2 * bits) : 0) | clamp(a) << bits | clamp(b);
}

}  // namespace

void decode_cvt_pack(Decoder& d) {
  const int kind = d.which({"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"});
  if (kind < 0 || !d.has("sat") || !d.has("s32")) d.unsupported();
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
  const Ref c = d.operands() > 3 ? d.src(d.operand(3), 4) : kNoRef;
  Op& op = d.emit_scalar(run_pack, Kind::conversion, r, 4, a, 4, b, 4, c, c == kNoRef ? 0 : 4);
  op.count = static_cast<std::uint8_t>(16 >> (kind / 2));
  op.flags = static_cast<std::uint16_t>(kind % 2);
}

void decode_mad_saturated(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4),
            c = d.src(d.operand(3), 4);
  d.emit_scalar(
      [](const Op&, u64 x, u64 y, u64 z) -> u64 {
        const s64 sum = ((sign_extend(x, 4) * sign_extend(y, 4)) >> 32) + sign_extend(z, 4);
        return static_cast<std::uint32_t>(std::clamp<s64>(sum, INT32_MIN, INT32_MAX));
      },
      Kind::integer, r, 4, a, 4, b, 4, c, 4);
}

std::vector<DecodeEntry> extended_table() {
  return {{"addc", decode_carry}, {"subc", decode_carry}, {"madc", decode_carry},  {"set", decode_set},
          {"slct", decode_slct},  {"bmsk", decode_masks}, {"szext", decode_masks}, {"fns", decode_fns}};
}

}  // namespace kiln::emulator::ptx
