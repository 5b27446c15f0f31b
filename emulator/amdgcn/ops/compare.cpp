// v_cmp_* and v_cmpx_*: lane masks from comparisons.
#include <cmath>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

/// Condition codes in the order of the encoding; the low three bits are "less", "equal", "greater" for
/// numbers.
enum Condition : std::uint8_t {
  kF,
  kLt,
  kEq,
  kLe,
  kGt,
  kLg,
  kGe,
  kO,
  kU,
  kNge,
  kNlg,
  kNgt,
  kNle,
  kNeq,
  kNlt,
  kTru
};
constexpr const char* kFloatNames[] = {"f", "lt",  "eq",  "le",  "gt",  "lg",  "ge",  "o",
                                       "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"};
constexpr struct {
  const char* name;
  Condition condition;
} kIntegerNames[] = {{"f", kF},   {"lt", kLt}, {"eq", kEq}, {"le", kLe},
                     {"gt", kGt}, {"ne", kLg}, {"ge", kGe}, {"t", kTru}};

struct Half {};  // 16 bits of a register, compared as numbers

template <class T>
bool holds(unsigned condition, T a, T b) {
  // Ordered: bits 0..2 of the condition; unordered values satisfy exactly those from kU on.
  if (a != a || b != b) return condition >= kU;
  const unsigned relation = a < b ? 1 : a == b ? 2 : 4;
  return (condition & relation) != 0;
}

template <class T>
auto read(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, double>)
    return as_f64(bits);
  else if constexpr (std::is_same_v<T, float>)
    return as_f32(static_cast<std::uint32_t>(bits));
  else if constexpr (std::is_same_v<T, Half>)
    return f16_to_f32(static_cast<std::uint16_t>(bits));
  else
    return static_cast<T>(bits);
}

void finish(Wave& w, const Inst& in, std::uint64_t mask, std::uint64_t defined, bool to_exec) {
  const std::uint64_t exec = w.exec();
  if ((defined & exec) != exec && w.grid.launch.findings) {
    w.report("uninitialized-register", in, std::countr_zero(exec & ~defined),
             "the comparison depends on a register or memory that was never written");
  }
  w.put_mask(in.ops[0], mask & exec);
  if (to_exec) w.set_s64(kExec, mask & exec);
}

template <class T, bool ToExec>
void compare(Wave& w, const Inst& in) {
  // _e64 names its destination, and so do the shorter encodings ("vcc").
  std::uint64_t mask = 0, defined;
  if constexpr (sizeof(T) == 8) {
    const Wide a(w, in, 1), b(w, in, 2);
    for (int l = 0; l < kLanes; ++l) mask |= std::uint64_t{holds(in.sub, read<T>(a[l]), read<T>(b[l]))} << l;
    defined = a.defined() & b.defined();
  } else {
    Lanes ba, bb;
    const View a = w.source(in, 1, ba), b = w.source(in, 2, bb);
    for (int l = 0; l < kLanes; ++l)
      mask |= std::uint64_t{holds(in.sub, read<T>(a.l[l]), read<T>(b.l[l]))} << l;
    defined = a.defined & b.defined;
  }
  finish(w, in, mask, defined, ToExec);
}

/// Bits of the class mask: sNaN, qNaN, -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf.
template <class T>
unsigned class_bit(T x, bool subnormal, bool quiet) {
  const bool negative = std::signbit(x);
  if (x != x) return quiet ? 2 : 1;
  if (std::isinf(x)) return negative ? 4 : 512;
  if (x == 0) return negative ? 32 : 64;
  if (subnormal) return negative ? 16 : 128;
  return negative ? 8 : 256;
}

template <int Bits, bool ToExec>
void compare_class(Wave& w, const Inst& in) {
  std::uint64_t mask = 0, defined = 0;
  Lanes bb;
  const View b = w.source(in, 2, bb);
  if constexpr (Bits == 64) {
    const Wide a(w, in, 1);
    for (int l = 0; l < kLanes; ++l) {
      const bool sub = (a[l] >> 52 & 0x7ff) == 0;
      mask |= std::uint64_t{(class_bit(as_f64(a[l]), sub, a[l] >> 51 & 1) & b.l[l]) != 0} << l;
    }
    defined = a.defined();
  } else {
    Lanes ba;
    const View a = w.source(in, 1, ba);
    for (int l = 0; l < kLanes; ++l) {
      const std::uint32_t x = a.l[l];
      const unsigned bit =
          Bits == 32 ? class_bit(as_f32(x), (x >> 23 & 0xff) == 0, x >> 22 & 1)
                     : class_bit(f16_to_f32(static_cast<std::uint16_t>(x)), (x >> 10 & 31) == 0, x >> 9 & 1);
      mask |= std::uint64_t{(bit & b.l[l]) != 0} << l;
    }
    defined = a.defined;
  }
  finish(w, in, mask, defined & b.defined, ToExec);
}

template <class T>
void add_type(OpTable& t, const char* suffix, Num num, bool floating) {
  const auto add = [&](const std::string& condition, std::uint8_t code) {
    t["v_cmp_" + condition + "_" + suffix] = {.exec = compare<T, false>, .num = num, .sub = code};
    t["v_cmpx_" + condition + "_" + suffix] = {.exec = compare<T, true>, .num = num, .sub = code};
  };
  if (floating) {
    for (std::uint8_t i = 0; i < 16; ++i) add(kFloatNames[i], i);
  } else {
    for (const auto& n : kIntegerNames) add(n.name, n.condition);
  }
}

}  // namespace

void add_compare_ops(OpTable& t) {
  add_type<float>(t, "f32", Num::f32, true);
  add_type<double>(t, "f64", Num::f64, true);
  add_type<Half>(t, "f16", Num::f16, true);
  add_type<std::int32_t>(t, "i32", Num::b32, false);
  add_type<std::uint32_t>(t, "u32", Num::b32, false);
  add_type<std::int16_t>(t, "i16", Num::b32, false);
  add_type<std::uint16_t>(t, "u16", Num::b32, false);
  add_type<std::int64_t>(t, "i64", Num::i64, false);
  add_type<std::uint64_t>(t, "u64", Num::b64, false);
  t["v_cmp_class_f32"] = {.exec = compare_class<32, false>, .num = Num::f32};
  t["v_cmp_class_f64"] = {.exec = compare_class<64, false>, .num = Num::f64};
  t["v_cmp_class_f16"] = {.exec = compare_class<16, false>, .num = Num::f16};
  t["v_cmpx_class_f32"] = {.exec = compare_class<32, true>, .num = Num::f32};
  t["v_cmpx_class_f64"] = {.exec = compare_class<64, true>, .num = Num::f64};
  t["v_cmpx_class_f16"] = {.exec = compare_class<16, true>, .num = Num::f16};
}

}  // namespace kiln::emulator::amdgcn
