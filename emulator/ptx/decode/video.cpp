// Scalar video instructions: selected bytes and halves, saturation and a second operation. Those on two halves or
// four bytes at once are in packed_video.cpp.
#include <algorithm>
#include <cstdlib>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using s64 = std::int64_t;

enum class Do : std::uint8_t { add, sub, absdiff, min, max, shl, shr, mad, set };
constexpr std::pair<std::string_view, Do> kNames[] = {
    {"vadd", Do::add}, {"vsub", Do::sub}, {"vabsdiff", Do::absdiff}, {"vmin", Do::min}, {"vmax", Do::max},
    {"vshl", Do::shl}, {"vshr", Do::shr}, {"vmad", Do::mad},         {"vset", Do::set}};

/// A part of a 32-bit register: bits [first, first + bits).
struct Part {
  int first = 0, bits = 32;
};
Part part_of(const Operand& o) {
  if (o.value == 0 || o.value > 6) return {};
  return o.value <= 4 ? Part{8 * static_cast<int>(o.value - 1), 8}
                      : Part{16 * static_cast<int>(o.value - 5), 16};
}

struct Video {
  Do what = Do::add;
  Part d, a, b;
  bool signed_d = false, signed_a = false, signed_b = false, saturate = false, clamp = false;
  enum class Second : std::uint8_t { none, add, min, max, merge } second = Second::none;
  int compare = 0;  ///< eq, ne, lt, le, gt, ge
  int scale = 0;    ///< of vmad: bits to shift right
  bool plus_one = false, negate_product = false, negate_c = false;
};

s64 select(std::uint32_t word, Part p, bool is_signed) {
  const s64 v = static_cast<s64>(word) >> p.first & ((s64{1} << p.bits) - 1);
  return is_signed && (v >> (p.bits - 1) & 1) != 0 ? v - (s64{1} << p.bits) : v;
}

s64 saturated(s64 v, bool is_signed, int bits) {
  return is_signed ? std::clamp(v, -(s64{1} << (bits - 1)), (s64{1} << (bits - 1)) - 1)
                   : std::clamp(v, s64{0}, (s64{1} << bits) - 1);
}

bool compares(int how, s64 a, s64 b) {
  switch (how) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    default:
      return a >= b;
  }
}

s64 apply(const Video& v, s64 a, s64 b) {
  const s64 shift = v.clamp ? std::min<s64>(b, 32) : b & 31;
  switch (v.what) {
    case Do::add:
      return a + b;
    case Do::sub:
      return a - b;
    case Do::absdiff:
      return std::abs(a - b);
    case Do::min:
      return std::min(a, b);
    case Do::max:
      return std::max(a, b);
    case Do::shl:
      return a << shift;
    case Do::shr:
      return a >> shift;
    case Do::set:
      return compares(v.compare, a, b) ? 1 : 0;
    case Do::mad:
      break;
  }
  return 0;
}

std::uint32_t second(const Video& v, s64 result, std::uint32_t c) {
  const s64 limit = v.signed_d ? static_cast<std::int32_t>(c) : s64{c};
  const auto low = static_cast<std::uint32_t>(result);
  const s64 own = v.signed_d ? static_cast<std::int32_t>(low) : s64{low};
  switch (v.second) {
    case Video::Second::add:
      return low + c;
    case Video::Second::min:
      return static_cast<std::uint32_t>(std::min(own, limit));
    case Video::Second::max:
      return static_cast<std::uint32_t>(std::max(own, limit));
    case Video::Second::merge: {
      const std::uint32_t mask = static_cast<std::uint32_t>(((s64{1} << v.d.bits) - 1) << v.d.first);
      return (low << v.d.first & mask) | (c & ~mask);
    }
    case Video::Second::none:
      break;
  }
  return low;
}

std::uint32_t multiply_add(const Video& v, s64 a, s64 b, std::uint32_t word) {
  __extension__ typedef __int128 s128;
  s128 product = static_cast<s128>(a) * b, c = v.signed_d ? static_cast<std::int32_t>(word) : s64{word};
  const bool negated = v.negate_product || v.negate_c;
  if (v.negate_product) product = ~product;
  if (v.negate_c) c = ~c;
  const s128 sum = (product + c + (v.plus_one || negated ? 1 : 0)) >> v.scale;
  const s128 low = v.signed_d ? -(s64{1} << 31) : 0,
             high = v.signed_d ? (s64{1} << 31) - 1 : (s64{1} << 32) - 1;
  return static_cast<std::uint32_t>(v.saturate ? std::clamp(sum, low, high) : sum);
}

std::uint32_t run_lane(const Video& v, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const s64 x = select(a, v.a, v.signed_a), y = select(b, v.b, v.signed_b);
  if (v.what == Do::mad) return multiply_add(v, x, y, c);
  s64 r = apply(v, x, y);
  if (v.saturate) r = saturated(r, v.signed_d, v.d.bits);
  return second(v, r, c);
}

void run_video(Warp& w, const Op& op) {
  const auto& v = *static_cast<const Video*>(op.aux);
  const auto word = [&](Ref r, int l) {
    return r == kNoRef ? 0 : static_cast<std::uint32_t>(w.value(r, 4, l));
  };
  each_lane(w, [&](int l) { w.set(op.d, 4, l, run_lane(v, word(op.a, l), word(op.b, l), word(op.c, l))); });
}

Ref source(Decoder& d, Operand o) {
  o.value = o.kind == Operand::Kind::reg ? 0 : o.value;
  o.negated = false;
  return d.src(o, 4);
}

void read_second(Decoder& d, Video& v) {
  if (v.d.bits != 32)
    v.second = Video::Second::merge;
  else if (d.operands() > 3 && v.what != Do::mad)
    v.second = d.has("min") ? Video::Second::min : d.has("max") ? Video::Second::max : Video::Second::add;
}

void decode_video(Decoder& d) {
  Video v;
  v.what = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) {
             return n.first == d.in->opcode;
           })->second;
  const auto types = d.types();
  const bool sets = v.what == Do::set;
  if (types.size() != (sets ? 2 : 3) || d.operands() < 3) d.unsupported();
  v.signed_d = !sets && is_signed(types[0]);
  v.signed_a = is_signed(types[sets ? 0 : 1]);
  v.signed_b = is_signed(types[sets ? 1 : 2]);
  v.saturate = d.has("sat"), v.clamp = d.has("clamp"), v.plus_one = d.has("po");
  v.scale = d.has("shr7") ? 7 : d.has("shr15") ? 15 : 0;
  v.compare = std::max(0, d.which({"eq", "ne", "lt", "le", "gt", "ge"}));
  Operand to = d.operand(0);
  v.d = part_of(to), v.a = part_of(d.operand(1)), v.b = part_of(d.operand(2));
  v.negate_product = d.operand(1).negated != d.operand(2).negated;
  v.negate_c = d.operands() > 3 && d.operand(3).negated;
  read_second(d, v);
  to.value = 0;
  const Ref r = d.dst(to, 4), a = source(d, d.operand(1)), b = source(d, d.operand(2));
  const Ref c = d.operands() > 3 ? source(d, d.operand(3)) : kNoRef;
  Op& op = d.emit(run_video, Kind::integer);
  op.d = r, op.a = a, op.b = b, op.c = c;
  op.aux = d.own(v);
}

}  // namespace

std::vector<DecodeEntry> video_table() {
  std::vector<DecodeEntry> out;
  for (const auto& [name, what] : kNames) out.push_back({name, decode_video});
  return out;
}

}  // namespace kiln::emulator::ptx
