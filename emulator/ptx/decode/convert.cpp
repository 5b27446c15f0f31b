// cvt in all its forms, and set.
#include <array>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;
using s64 = std::int64_t;

struct Number {
  bool floating = false, is_signed = false;
  FloatFormat format = FloatFormat::f32;
  int bytes = 0;  ///< of one element
  int pair = 1;   ///< elements in the operand
};

bool number_of(std::string_view m, Number& f) {
  struct Row {
    std::string_view name;
    FloatFormat format;
    int bytes, pair;
  };
  static constexpr Row kRows[] = {{"f16", FloatFormat::f16, 2, 1},     {"bf16", FloatFormat::bf16, 2, 1},
                                  {"tf32", FloatFormat::tf32, 4, 1},   {"f32", FloatFormat::f32, 4, 1},
                                  {"f64", FloatFormat::f64, 8, 1},     {"f16x2", FloatFormat::f16, 2, 2},
                                  {"bf16x2", FloatFormat::bf16, 2, 2}, {"e4m3x2", FloatFormat::e4m3, 1, 2},
                                  {"e5m2x2", FloatFormat::e5m2, 1, 2}};
  for (const Row& r : kRows)
    if (r.name == m) {
      f = {true, true, r.format, r.bytes, r.pair};
      return true;
    }
  const Type t = type_from(m);
  if (t == Type::none || t == Type::pred || m[0] == 'b') return false;
  f = {false, m[0] == 's', FloatFormat::f32, size_of(t), 1};
  return true;
}

struct Conversion {
  Number to, from;
  FloatOptions options;
  bool round_integral = false;
};

u64 convert_one(const Conversion& c, u64 v) {
  if (c.from.bytes < 8) v &= (u64{1} << (8 * c.from.bytes)) - 1;
  if (c.from.floating && c.to.floating) {
    if (c.round_integral) {
      const u64 r = round_to_integral(c.from.format, v, c.options);
      return c.from.format == c.to.format ? r : convert_float(c.to.format, c.from.format, r, c.options);
    }
    return convert_float(c.to.format, c.from.format, v, c.options);
  }
  if (c.from.floating) return float_to_integer(8 * c.to.bytes, c.to.is_signed, c.from.format, v, c.options);
  const u64 wide = c.from.is_signed ? static_cast<u64>(sign_extend(v, c.from.bytes)) : v;
  if (c.to.floating) return integer_to_float(c.to.format, c.from.is_signed, wide, c.options);
  u64 r = wide;
  if (c.options.sat) {
    const int bits = 8 * c.to.bytes;
    if (c.to.is_signed) {
      const s64 top = bits == 64 ? INT64_MAX : (s64{1} << (bits - 1)) - 1;
      if (!c.from.is_signed)
        r = std::min<u64>(wide, static_cast<u64>(top));
      else
        r = static_cast<u64>(std::min(top, std::max(-top - 1, static_cast<s64>(wide))));
    } else {
      const u64 top = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
      r = c.from.is_signed && static_cast<s64>(wide) < 0 ? 0 : std::min(wide, top);
    }
  }
  return r;
}

/// Two bytes of e4m3 or e5m2 as a pair of f16, as kernels with 8-bit caches do all the time.
template <FloatFormat From>
u64 widen_pair(const Op&, u64 a, u64, u64) {
  static const auto table = [] {
    std::array<std::uint16_t, 256> t{};
    for (std::size_t i = 0; i < t.size(); ++i)
      t[i] = static_cast<std::uint16_t>(convert_float(FloatFormat::f16, From, i));
    return t;
  }();
  return u64{table[a >> 8 & 0xff]} << 16 | table[a & 0xff];
}

/// Result extended to the destination register, which may be wider than the type.
u64 run_cvt(const Op& op, u64 a, u64 b, u64) {
  const auto& c = *reinterpret_cast<const Conversion*>(op.imm);
  if (c.to.pair == 2) {
    // Two sources: the first becomes the upper half. One packed source: element by element.
    if (op.bsize != 0) return convert_one(c, a) << (8 * c.to.bytes) | convert_one(c, b);
    const int step = 8 * c.from.bytes;
    return convert_one(c, a >> step) << (8 * c.to.bytes) | convert_one(c, a);
  }
  u64 r = convert_one(c, a);
  if (!c.to.floating)
    r = c.to.is_signed   ? static_cast<u64>(sign_extend(r, c.to.bytes))
        : c.to.bytes < 8 ? r & ((u64{1} << (8 * c.to.bytes)) - 1)
                         : r;
  return r;
}

Conversion conversion_of(Decoder& d) {
  Conversion c;
  int found = 0;
  for (const auto m : d.in->modifiers) {
    Number f;
    if (!number_of(m, f)) continue;
    (found == 0 ? c.to : c.from) = f;
    ++found;
  }
  if (found != 2 || d.has("rs") || d.has("scaled")) d.unsupported();
  const int rounding = d.which({"rn", "rz", "rm", "rp", "rna"});
  const int integral = d.which({"rni", "rzi", "rmi", "rpi"});
  c.options.rounding = static_cast<Rounding>(rounding >= 0 ? rounding : integral >= 0 ? integral : 0);
  c.round_integral = integral >= 0;
  c.options.ftz = d.has("ftz");
  c.options.sat = d.has("sat");
  c.options.satfinite = d.has("satfinite");
  c.options.relu = d.has("relu");
  return c;
}

struct CvtOperand {
  Ref ref;
  int size;  ///< of a lane
};
CvtOperand cvt_source(Decoder& d, const Operand& o, int bytes) {
  const int size = d.size_of_register(o, bytes);
  if (size < bytes || size == 3) d.fail("operand too small in");
  return {d.src(o, size), size};
}
CvtOperand cvt_result(Decoder& d, const Conversion& c) {
  const int bytes = c.to.bytes * c.to.pair;
  const int size = d.size_of_register(d.operand(0), bytes);
  if (size < bytes || size == 3) d.fail("register too small in");
  return {d.dst(d.operand(0), 0), size};
}

/// Two values to a pair.
void decode_cvt_two(Decoder& d, const Conversion& c, const CvtOperand& r) {
  const CvtOperand a = cvt_source(d, d.operand(1), c.from.bytes),
                   b = cvt_source(d, d.operand(2), c.from.bytes);
  if (c.to.format == FloatFormat::bf16 && c.to.pair == 2 && c.from.format == FloatFormat::f32 &&
      c.options.rounding == Rounding::rn && !c.options.relu && !c.options.satfinite && r.size == 4) {
    d.emit_alu(Alu::bf16x2_f32, Kind::conversion, r.ref, a.ref, b.ref);
    return;
  }
  d.emit_scalar(run_cvt, Kind::conversion, r.ref, r.size, a.ref, a.size, b.ref, b.size).imm =
      reinterpret_cast<std::intptr_t>(d.own(c));
}

/// Conversions that have operations of their own; false: not one of them.
bool decode_cvt_fast(Decoder& d, const Conversion& c, const CvtOperand& r, const CvtOperand& a) {
  const auto between = [&](int to, int from) {
    return r.size == to && a.size == from && c.from.bytes == from && c.to.bytes == to;
  };
  if (!c.from.floating && !c.to.floating && !c.options.sat) {
    if (between(8, 4)) {
      d.emit_alu(c.from.is_signed ? Alu::cvt_64_s32 : Alu::cvt_64_u32, Kind::conversion, r.ref, a.ref);
      return true;
    }
    if (between(4, 8)) {
      d.emit_alu(Alu::cvt_32_64, Kind::conversion, r.ref, a.ref);
      return true;
    }
  }
  if (c.to.pair != 2 || c.to.format != FloatFormat::f16 || c.from.bytes != 1 || c.options.relu || r.size != 4)
    return false;
  d.emit_scalar(
      c.from.format == FloatFormat::e4m3 ? widen_pair<FloatFormat::e4m3> : widen_pair<FloatFormat::e5m2>,
      Kind::conversion, r.ref, 4, a.ref, a.size);
  return true;
}

void decode_cvt(Decoder& d) {
  if (d.has("pack")) return decode_cvt_pack(d);
  const Conversion c = conversion_of(d);
  const CvtOperand r = cvt_result(d, c);
  if (d.operands() == 3) return decode_cvt_two(d, c, r);
  const CvtOperand a = cvt_source(d, d.operand(1), c.from.bytes * c.from.pair);
  if (decode_cvt_fast(d, c, r, a)) return;
  d.emit_scalar(run_cvt, Kind::conversion, r.ref, r.size, a.ref, a.size).imm =
      reinterpret_cast<std::intptr_t>(d.own(c));
}

}  // namespace

std::vector<DecodeEntry> convert_table() {
  return {{"cvt", decode_cvt}};
}

}  // namespace kiln::emulator::ptx
