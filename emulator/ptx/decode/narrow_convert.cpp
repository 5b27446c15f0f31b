// cvt to and from e2m1, e2m3, e3m2 and ue8m0, and with stochastic rounding (.rs).
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/tcgen05/elements.hpp"

namespace kiln::emulator::ptx {

bool decode_narrow_cvt(Decoder& d);

namespace {

using u64 = std::uint64_t;

/// A format with `exponent` and `mantissa` bits and no infinities.
struct Narrow {
  std::string_view name;
  int exponent, mantissa, bias, slot;  ///< slot: bits of an element in the packed result
  double largest;
};
constexpr Narrow kFormats[] = {{"e2m1", 2, 1, 1, 4, 6.0},          {"e2m3", 2, 3, 1, 8, 7.5},
                               {"e3m2", 3, 2, 3, 8, 28.0},         {"e4m3", 4, 3, 7, 8, 448.0},
                               {"e5m2", 5, 2, 15, 8, 57344.0},     {"f16", 5, 10, 15, 16, 65504.0},
                               {"bf16", 8, 7, 127, 16, 0x1.fep127}};

std::uint32_t nan_of(const Narrow& f) {
  // Formats of 4 and 6 bits have no NaN: it becomes the largest value.
  if (f.slot == 16) return 0x7fff;
  return f.name == "e4m3" || f.name == "e5m2" ? 0x7fu : (1u << (f.exponent + f.mantissa)) - 1;
}

/// Rounds to the nearest (even), or up where the bits that are cut off plus `dither` (a part of one unit) reach a unit.
std::uint32_t encode(const Narrow& f, double x, bool relu, std::optional<double> dither, bool satfinite) {
  if (std::isnan(x)) return nan_of(f);
  if (relu && (x < 0 || (x == 0 && std::signbit(x)))) x = 0;
  const std::uint32_t sign = std::signbit(x) ? 1u << (f.exponent + f.mantissa) : 0;
  const double size = std::abs(x);
  int e = size == 0 ? 1 - f.bias : std::ilogb(std::min(size, 0x1p200));
  e = std::max(e, 1 - f.bias);
  const double unit = std::ldexp(1.0, e - f.mantissa), units = size / unit;
  const double rounded = dither ? std::floor(units + *dither) : std::nearbyint(units);
  double value = rounded * unit;
  if (value > f.largest) {
    if (!satfinite && f.slot == 16) return sign | ((1u << f.exponent) - 1) << f.mantissa;  // infinity
    value = f.largest;
  }
  int at = value == 0 ? 1 - f.bias : std::max(std::ilogb(value), 1 - f.bias);
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(value, f.mantissa - at));
  const std::uint32_t hidden = 1u << f.mantissa;
  const auto biased = static_cast<std::uint32_t>(mantissa >= hidden ? at + f.bias : 0);
  return sign | biased << f.mantissa | (mantissa & (hidden - 1));
}

float f32_of(u64 bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

struct NarrowConversion {
  const Narrow* format = nullptr;
  bool relu = false, satfinite = false;
};

u64 run_to_pair(const Op& op, u64 a, u64 b, u64) {
  const auto& c = *reinterpret_cast<const NarrowConversion*>(op.imm);
  return u64{encode(*c.format, f32_of(a), c.relu, {}, true)} << c.format->slot |
         encode(*c.format, f32_of(b), c.relu, {}, true);
}

u64 run_from_pair(const Op& op, u64 a, u64, u64) {
  const auto& c = *reinterpret_cast<const NarrowConversion*>(op.imm);
  const auto one = [&](u64 bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    float x = c.format->mantissa == 1   ? tcgen05::e2m1_to_f32(byte)
              : c.format->exponent == 2 ? tcgen05::e2m3_to_f32(byte)
                                        : tcgen05::e3m2_to_f32(byte);
    if (c.relu && !(x > 0)) x = 0;
    return u64{f32_to_f16(x)};
  };
  return one(a >> c.format->slot) << 16 | one(a);
}

/// 2^n as its biased exponent: toward zero, or up.
u64 scale_code(float x, bool up, bool) {
  if (x != x) return 0xff;
  const double size = std::abs(static_cast<double>(x));
  if (size == 0) return 0;
  if (std::isinf(x)) return 0xfe;
  int e = std::ilogb(size);
  if (up && std::ldexp(1.0, e) < size) ++e;
  return static_cast<u64>(std::clamp(e + 127, 0, 254));
}
u64 run_to_scales(const Op& op, u64 a, u64 b, u64) {
  const bool up = (op.flags & 1) != 0;
  if (op.bsize == 0) {
    b = (a & 0xffff) << 16;
    a = a & 0xffff0000u;
  }
  return scale_code(f32_of(a), up, false) << 8 | scale_code(f32_of(b), up, false);
}
u64 run_from_scales(const Op&, u64 a, u64, u64) {
  const auto one = [](u64 byte) -> u64 {
    return byte == 0xff ? 0x7fff : byte == 0 ? 0x40 : byte << 7;  // 2^-127 is subnormal
  };
  return one(a >> 8 & 0xff) << 16 | one(a & 0xff);
}

/// Stochastic rounding of two f32: the halves of the random bits are added to what is cut off.
u64 run_dithered_pair(const Op& op, u64 a, u64 b, u64 random) {
  const auto& c = *reinterpret_cast<const NarrowConversion*>(op.imm);
  const double high = static_cast<double>(random >> 16 & 0xffff) / 65536,
               low = static_cast<double>(random & 0xffff) / 65536;
  return u64{encode(*c.format, f32_of(a), c.relu, high, c.satfinite)} << 16 |
         encode(*c.format, f32_of(b), c.relu, low, c.satfinite);
}

void run_dithered_four(Warp& w, const Op& op) {
  const auto& c = *static_cast<const NarrowConversion*>(op.aux);
  const Program& p = *w.block->cluster->program;
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const u64 random = w.value(op.b, 4, lane);
    u64 result = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const double dither = static_cast<double>(random >> 8 * (3 - i) & 0xff) / 256;
      const float x = f32_of(w.value(p.lists[op.target + i], 4, lane));
      result |= u64{encode(*c.format, x, c.relu, dither, true)}
                << static_cast<std::uint32_t>(c.format->slot) * (3 - i);
    }
    w.set(op.d, op.dsize, lane, result);
  }
}

const Narrow* format_of(std::string_view m, std::string_view suffix) {
  if (!m.ends_with(suffix)) return nullptr;
  for (const Narrow& f : kFormats)
    if (m.substr(0, m.size() - suffix.size()) == f.name) return &f;
  return nullptr;
}

void decode_dithered(Decoder& d, std::string_view to, NarrowConversion c) {
  const auto last = [&](std::size_t i) { return d.src(d.operand(i), 4); };
  if ((c.format = format_of(to, "x2")) != nullptr && c.format->slot == 16) {
    const Ref r = d.dst(d.operand(0), 4), a = last(1), b = last(2), random = last(3);
    d.emit_scalar(run_dithered_pair, Kind::conversion, r, 4, a, 4, b, 4, random, 4).imm =
        reinterpret_cast<std::intptr_t>(d.own(c));
    return;
  }
  c.format = format_of(to, "x4");
  if (c.format == nullptr || c.format->slot == 16 || !c.satfinite || d.operand(1).items.size() != 4)
    d.unsupported();
  const int size = c.format->slot == 4 ? 2 : 4;
  std::vector<Ref> refs;
  for (const Operand& o : d.operand(1).items) refs.push_back(d.src(o, 4));
  const Ref r = d.dst(d.operand(0), size), random = last(2);
  const std::uint32_t at = d.list(refs);
  Op& op = d.emit(run_dithered_four, Kind::conversion);
  op.d = r, op.dsize = static_cast<std::uint8_t>(size), op.b = random, op.target = at, op.aux = d.own(c);
}

void decode_scales(Decoder& d, bool to_scales) {
  if (!to_scales) {
    const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 2);
    d.emit_scalar(run_from_scales, Kind::conversion, r, 4, a, 2);
    return;
  }
  if (d.has("rz") == d.has("rp")) d.fail("the rounding must be .rz or .rp in");
  const bool pair = d.has("f32");
  const Ref r = d.dst(d.operand(0), 2), a = d.src(d.operand(1), 4),
            b = pair ? d.src(d.operand(2), 4) : kNoRef;
  d.emit_scalar(run_to_scales, Kind::conversion, r, 2, a, 4, b, pair ? 4 : 0).flags = d.has("rp");
}

}  // namespace

bool decode_narrow_cvt(Decoder& d) {
  if (d.in->opcode != "cvt" || d.in->modifiers.size() < 2) return false;
  const std::string_view to = d.in->modifiers[d.in->modifiers.size() - 2], from = d.in->modifiers.back();
  NarrowConversion c;
  c.relu = d.has("relu");
  c.satfinite = d.has("satfinite");
  if (d.has("rs")) return decode_dithered(d, to, c), true;
  if (to == "ue8m0x2" || from == "ue8m0x2") return decode_scales(d, to == "ue8m0x2"), true;
  const auto narrow = [](const Narrow* f) {
    return f != nullptr && (f->slot == 4 || f->name[1] < '4') && f->slot < 16;
  };
  if (c.format = format_of(to, "x2"); narrow(c.format)) {
    if (!c.satfinite || !d.has("rn") || from != "f32") d.unsupported();
    const int size = c.format->slot == 4 ? 1 : 2;
    const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
    d.emit_scalar(run_to_pair, Kind::conversion, r, size, a, 4, b, 4).imm =
        reinterpret_cast<std::intptr_t>(d.own(c));
    return true;
  }
  if (c.format = format_of(from, "x2"); narrow(c.format)) {
    if (to != "f16x2" || !d.has("rn")) d.unsupported();
    const int size = c.format->slot == 4 ? 1 : 2;
    const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), size);
    d.emit_scalar(run_from_pair, Kind::conversion, r, 4, a, size).imm =
        reinterpret_cast<std::intptr_t>(d.own(c));
    return true;
  }
  return false;
}

}  // namespace kiln::emulator::ptx
