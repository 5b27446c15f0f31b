// Video instructions on the two halves or four bytes of a register (vadd2, vabsdiff4, vset4 and the like): elements
// chosen from both sources, results merged into c under a mask, or summed up and added to it.
#include <algorithm>
#include <array>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using s64 = std::int64_t;
using u64 = std::uint64_t;

enum class PackedDo : std::uint8_t { add, sub, avrg, absdiff, min, max, eq, ne, lt, le, gt, ge };

struct Packed {
  PackedDo what = PackedDo::add;
  int count = 2;  ///< elements: 2 halves or 4 bytes
  bool signed_d = false, signed_a = false, signed_b = false, saturate = false, sum = false;
  /// Element i of a source: of a, or (from `count` on) of b.
  std::array<int, 4> a{}, b{};
  std::uint32_t mask = 0;  ///< elements of d that are written or summed
};

s64 compute(PackedDo what, s64 x, s64 y) {
  switch (what) {
    case PackedDo::add:
      return x + y;
    case PackedDo::sub:
      return x - y;
    case PackedDo::avrg:
      return (x + y + (x + y >= 0 ? 1 : 0)) >> 1;
    case PackedDo::absdiff:
      return x > y ? x - y : y - x;
    case PackedDo::min:
      return std::min(x, y);
    case PackedDo::max:
      return std::max(x, y);
    case PackedDo::eq:
      return x == y;
    case PackedDo::ne:
      return x != y;
    case PackedDo::lt:
      return x < y;
    case PackedDo::le:
      return x <= y;
    case PackedDo::gt:
      return x > y;
    case PackedDo::ge:
      return x >= y;
  }
  return 0;
}

std::uint32_t packed(const Packed& p, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const int bits = 32 / p.count;
  const u64 all = (u64{1} << bits) - 1;
  const s64 low = p.signed_d ? -(s64{1} << (bits - 1)) : 0,
            high = (s64{1} << (bits - (p.signed_d ? 1 : 0))) - 1;
  const auto element = [&](int index, bool is_signed) {
    const std::uint32_t word = index < p.count ? a : b;
    const u64 v = word >> (bits * (index % p.count)) & all;
    return is_signed ? sign_extend(v << (64 - bits) >> (64 - bits), bits / 8) : static_cast<s64>(v);
  };
  std::uint32_t merged = c;
  s64 sum = static_cast<s64>(c);
  for (int i = 0; i < p.count; ++i) {
    if ((p.mask >> i & 1) == 0) continue;
    const auto k = static_cast<std::size_t>(i);
    s64 r = compute(p.what, element(p.a[k], p.signed_a), element(p.b[k], p.signed_b));
    if (p.saturate) r = std::clamp(r, low, high);
    sum += r;
    const auto field = static_cast<std::uint32_t>(all << (bits * i));
    merged = (merged & ~field) | (static_cast<std::uint32_t>(static_cast<u64>(r) << (bits * i)) & field);
  }
  return p.sum ? static_cast<std::uint32_t>(sum) : merged;
}

void run_packed(Warp& w, const Op& op) {
  const auto& p = *static_cast<const Packed*>(op.aux);
  each_lane(w, [&](int l) {
    w.set(op.d, 4, l,
          packed(p, static_cast<std::uint32_t>(w.value(op.a, 4, l)),
                 static_cast<std::uint32_t>(w.value(op.b, 4, l)),
                 static_cast<std::uint32_t>(w.value(op.c, 4, l))));
  });
}

/// The digits of .h10 or .b7654, last digit first; none: no selector.
std::vector<int> digits(const Operand& o) {
  std::vector<int> out;
  if (o.value == 0) return out;
  if (o.value <= 6) return {static_cast<int>(o.value <= 4 ? o.value - 1 : o.value - 5)};
  for (int i = 0; i < static_cast<int>(o.value >> 24 & 0xf); ++i)
    out.push_back(static_cast<int>(o.value >> (4 * i) & 0xf));
  return out;
}

Operand whole(Operand o) {
  o.value = 0;
  return o;
}

void select(Decoder& d, const Operand& o, int count, int first, std::array<int, 4>& out) {
  const auto chosen = digits(o);
  for (int i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = first + i;
  if (chosen.empty()) return;
  if (static_cast<int>(chosen.size()) != count) d.fail("selector of the wrong length in");
  for (int i = 0; i < count; ++i) {
    if (chosen[static_cast<std::size_t>(i)] >= 2 * count) d.fail("no such element in");
    out[static_cast<std::size_t>(i)] = chosen[static_cast<std::size_t>(i)];
  }
}

void decode_packed(Decoder& d) {
  static constexpr std::string_view kOps[] = {"add", "sub", "avrg", "absdiff", "min", "max"};
  const std::string_view name = d.in->opcode.substr(1, d.in->opcode.size() - 2);
  const bool set = name == "set";  // has no type of its own: 0 or 1
  auto t = d.types();
  if (set) t.insert(t.begin(), Type::u32);
  const int compare = d.which({"eq", "ne", "lt", "le", "gt", "ge"});
  if (t.size() != 3 || d.operands() != 4 || (set && compare < 0)) d.unsupported();
  const auto is_signed = [](Type type) { return type == Type::s32; };
  Packed p;
  p.count = d.in->opcode.back() == '2' ? 2 : 4;
  p.what = set ? static_cast<PackedDo>(static_cast<int>(PackedDo::eq) + compare)
               : static_cast<PackedDo>(std::find(std::begin(kOps), std::end(kOps), name) - std::begin(kOps));
  p.signed_d = is_signed(t[0]), p.signed_a = is_signed(t[1]), p.signed_b = is_signed(t[2]);
  p.saturate = d.has("sat"), p.sum = d.has("add");
  select(d, d.operand(1), p.count, 0, p.a);
  select(d, d.operand(2), p.count, p.count, p.b);
  for (const int i : digits(d.operand(0))) {
    if (i >= p.count) d.fail("no such element in");
    p.mask |= 1u << i;
  }
  if (p.mask == 0) p.mask = (1u << p.count) - 1;
  const Ref r = d.dst(whole(d.operand(0)), 4), a = d.src(whole(d.operand(1)), 4),
            b = d.src(whole(d.operand(2)), 4), c = d.src(d.operand(3), 4);
  Op& op = d.emit(run_packed, Kind::integer);
  op.d = r, op.a = a, op.b = b, op.c = c;
  op.aux = d.own(p);
}

}  // namespace

std::vector<DecodeEntry> packed_video_table() {
  std::vector<DecodeEntry> table;
  static constexpr std::string_view kNames[] = {"vadd2",     "vsub2", "vavrg2", "vabsdiff2", "vmin2",
                                                "vmax2",     "vset2", "vadd4",  "vsub4",     "vavrg4",
                                                "vabsdiff4", "vmin4", "vmax4",  "vset4"};
  for (const std::string_view name : kNames) table.push_back({name, decode_packed});
  return table;
}

}  // namespace kiln::emulator::ptx
