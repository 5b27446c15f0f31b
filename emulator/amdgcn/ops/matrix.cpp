// MFMA: matrix multiplication of one wave, from the register layouts of matrix.hpp. EXEC is ignored, as by
// the hardware. Products are exact and are added in order of k, in f32 (f64 and i32 for those types).
#include "emulator/amdgcn/ops/matrix.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "emulator/amdgcn/ops/matrix_kernel.hpp"
#include "emulator/amdgcn/ops/minifloat.hpp"
#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/tensor/multiversion.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
constexpr std::size_t kMaxA = 32 * 64, kMaxD = 2 * 32 * 32;
static_assert(16 * 128 <= kMaxA);

using E = Element;
const std::span<const MatrixShape> kShapes = matrix_shapes();

int element_bits(Element e) {
  switch (e) {
    case E::f64:
      return 64;
    case E::f32:
    case E::xf32:
      return 32;
    case E::bf16:
    case E::f16:
      return 16;
    default:
      return 8;
  }
}
/// The format codes of the f8f6f4 instructions.
Mini coded(unsigned code) {
  static constexpr Mini formats[] = {Mini::e4m3, Mini::e5m2, Mini::e2m3, Mini::e3m2, Mini::e2m1};
  return formats[code < 5 ? code : 0];
}

/// The lane that BLGP makes lane `lane` of B read.
int blgp_lane(unsigned blgp, int lane) {
  switch (blgp) {
    case 1:
      return lane & 31;
    case 2:
      return (lane & 31) + 32;
    case 3:
      return (lane + 16) & 63;
    case 4:
      return lane & 15;
    case 5:
      return (lane & 15) + 16;
    case 6:
      return (lane & 15) + 32;
    case 7:
      return (lane & 15) + 48;
    default:
      return lane;
  }
}

KILN_MULTIVERSION void multiply(const float* a, const float* b, float* d, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    float* row = d + i * n;
    for (int kk = 0; kk < k; ++kk) {
      const float x = a[i * k + kk];
      const float* col = b + kk * n;
      for (int j = 0; j < n; ++j) row[j] = __builtin_fmaf(x, col[j], row[j]);
    }
  }
}
// Lambdas and templates cannot be cloned; the 4-wide shapes and f64, i32 are rare enough for plain loops.
template <class T>
void multiply_plain(const T* a, const T* b, T* d, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    for (int kk = 0; kk < k; ++kk) {
      for (int j = 0; j < n; ++j) d[i * n + j] = static_cast<T>(d[i * n + j] + a[i * k + kk] * b[kk * n + j]);
    }
  }
}

/// Bits of element `e` of a lane's operand.
u64 element(const Wave& w, const Operand& o, int lane, int e, int bits) {
  const std::size_t first = static_cast<std::size_t>(e) * static_cast<std::size_t>(bits) / 32;
  const int shift = e * bits % 32;
  const auto reg = [&](std::size_t i) { return w.v[o.reg + i].l[lane]; };
  u64 value = reg(first);
  if (bits == 64) return value | u64{reg(first + 1)} << 32;
  if (shift + bits > 32) value |= u64{reg(first + 1)} << 32;
  return value >> shift & ((u64{1} << bits) - 1);
}

float decode(const Wave& w, Element kind, Mini mini, u64 bits) {
  switch (kind) {
    case E::f32:
      return as_f32(static_cast<u32>(bits));
    case E::xf32:
      return tf32_to_f32(static_cast<u32>(bits));
    case E::bf16:
      return bf16_to_f32(static_cast<std::uint16_t>(bits));
    case E::f16:
      return f16_to_f32(static_cast<std::uint16_t>(bits));
    case E::fp8:
      return mini_to_f32(w.grid.target == Target::gfx950 ? Mini::e4m3 : Mini::e4m3fnuz,
                         static_cast<std::uint8_t>(bits));
    case E::bf8:
      return mini_to_f32(w.grid.target == Target::gfx950 ? Mini::e5m2 : Mini::e5m2fnuz,
                         static_cast<std::uint8_t>(bits));
    default:
      return mini_to_f32(mini, static_cast<std::uint8_t>(bits));
  }
}

/// E8M0 block scale of the row or column that `lane` carries.
float scale_value(Wave& w, const Inst& in, int which, int lane) {
  Lanes buffer;
  const View v = w.raw(in.ops[static_cast<std::size_t>(4 + which)], 0, buffer);
  const unsigned byte = (in.mod.op_sel >> which & 1U) | (in.mod.op_sel_hi >> which & 1U) << 1;
  const unsigned e = v.l[lane] >> 8 * byte & 0xff;
  return e == 0xff ? std::nanf("") : std::ldexp(1.0F, static_cast<int>(e) - 127);
}

/// Lanes in which each of an operand's registers is defined, joined.
u64 all_defined(const Wave& w, const Operand& o) {
  u64 d = ~u64{0};
  if (o.kind != Operand::Kind::vgpr) return d;
  for (int i = 0; i < o.dwords; ++i) d &= w.defined[o.reg + i];
  return d;
}

/// Which results depend on undefined operands. Rare, so exact rather than fast.
void define_results(Wave& w, const Inst& in, const MatrixShape& s, u64 a, u64 b, int dwords_per_result) {
  std::vector<char> rows(static_cast<std::size_t>(s.m * s.blocks)),
      columns(static_cast<std::size_t>(s.n * s.blocks));
  for (int lane = 0; lane < kLanes; ++lane) {
    const Coordinate ca = a_coordinate(s, lane, 0), cb = b_coordinate(s, lane, 0);
    if (!(a >> lane & 1)) rows[static_cast<std::size_t>(ca.block * s.m + ca.row)] = 1;
    if (!(b >> lane & 1)) columns[static_cast<std::size_t>(cb.block * s.n + cb.column)] = 1;
  }
  const Operand& c = in.ops[3];
  for (int r = 0; r < s.results() * dwords_per_result; ++r) {
    u64 d = c.kind == Operand::Kind::vgpr ? w.defined[c.reg + r] : ~u64{0};
    for (int lane = 0; lane < kLanes; ++lane) {
      const Coordinate cd = d_coordinate(s, lane, r / dwords_per_result);
      if (rows[static_cast<std::size_t>(cd.block * s.m + cd.row)] ||
          columns[static_cast<std::size_t>(cd.block * s.n + cd.column)]) {
        d &= ~(u64{1} << lane);
      }
    }
    w.defined[in.ops[0].reg + r] = d;
  }
}

void note_flops(const MatrixShape& s) {
  tally().matrix_flops += 2ULL * static_cast<u64>(s.m) * static_cast<u64>(s.n) * static_cast<u64>(s.k) *
                          static_cast<u64>(s.blocks);
}
void define(Wave& w, const Inst& in, const MatrixShape& s, int wide) {
  const u64 da = all_defined(w, in.ops[1]), db = all_defined(w, in.ops[2]), dc = all_defined(w, in.ops[3]);
  if ((da & db & dc) != ~u64{0})
    define_results(w, in, s, da, db, wide);
  else
    for (int r = 0; r < s.results() * wide; ++r) w.defined[in.ops[0].reg + r] = ~u64{0};
}

/// One block of 16 x 16 or 32 x 32 whose operands lie row by row in registers.
bool lies_in_rows(const Inst& in, const MatrixShape& s) {
  return s.blocks == 1 && s.m >= 16 && s.a != E::f64 && s.a != E::i8 && s.a != E::f8f6f4 &&
         in.mod.cbsz == 0 && in.mod.blgp == 0;
}

void decode_operand(const Wave& w, const MatrixShape& s, Element kind, const Operand& o, float* out) {
  const int per_lane = s.elements(), per_register = 32 / element_bits(kind);
  const bool ocp = w.grid.target == Target::gfx950;
  for (int e = 0; e < per_lane; e += per_register) {
    u32 masked[kLanes];
    const u32* reg = w.v[o.reg + static_cast<std::size_t>(e / per_register)].l;
    if (kind == E::fp8 || kind == E::bf8) {
      const Mini format = kind == E::fp8 ? (ocp ? Mini::e4m3 : Mini::e4m3fnuz)
                          : ocp          ? Mini::e5m2
                                         : Mini::e5m2fnuz;
      decode_bytes(mini_values(format).data(), reg, s.m, per_lane, e, out);
      continue;
    }
    if (kind == E::xf32) {
      for (int l = 0; l < kLanes; ++l) masked[l] = std::bit_cast<u32>(tf32_to_f32(reg[l]));
      reg = masked;
    }
    const RowFormat format = kind == E::bf16  ? RowFormat::bf16
                             : kind == E::f16 ? RowFormat::f16
                                              : RowFormat::f32;
    decode_rows(format, reg, s.m, per_lane, e, out);
  }
}

/// The same as run<float>, on whole registers.
void run_rows(Wave& w, const Inst& in, const MatrixShape& s) {
  alignas(64) float a[kMaxA], b[kMaxA], d[16][kLanes];
  decode_operand(w, s, s.a, in.ops[1], a);
  decode_operand(w, s, s.b, in.ops[2], b);
  const Operand& c = in.ops[3];
  const auto results = static_cast<std::size_t>(s.results());
  for (std::size_t r = 0; r < results; ++r) {
    if (c.kind == Operand::Kind::vgpr)
      std::memcpy(d[r], w.v[c.reg + r].l, sizeof d[r]);
    else
      for (float& x : d[r]) x = as_f32(static_cast<u32>(c.literal));
  }
  multiply_registers(s.m, s.k, a, b, d);
  define(w, in, s, 1);
  for (std::size_t r = 0; r < results; ++r) std::memcpy(w.v[in.ops[0].reg + r].l, d[r], sizeof d[r]);
  note_flops(s);
}

/// Where the elements of a lane lie in the matrices; by lane, then element.
struct Layout {
  std::vector<std::uint16_t> a, b, d;
};
Layout make_layout(const MatrixShape& s, int bits) {
  Layout out;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int e = 0; e < s.elements(); ++e) {
      const Coordinate ca = a_coordinate(s, lane, e, bits), cb = b_coordinate(s, lane, e, bits);
      out.a.push_back(static_cast<std::uint16_t>((ca.block * s.m + ca.row) * s.k + ca.column));
      out.b.push_back(static_cast<std::uint16_t>((cb.block * s.k + cb.row) * s.n + cb.column));
    }
    for (int r = 0; r < s.results(); ++r) {
      const Coordinate cd = d_coordinate(s, lane, r);
      out.d.push_back(static_cast<std::uint16_t>((cd.block * s.m + cd.row) * s.n + cd.column));
    }
  }
  return out;
}
/// Of a shape whose f8f6f4 operands (if it has any) are `bits` wide; made once.
const Layout& layout(const MatrixShape& s, int bits) {
  static const auto all = [] {
    std::vector<std::array<Layout, 2>> layouts;
    for (const MatrixShape& shape : kShapes)
      layouts.push_back({make_layout(shape, 8), shape.a == E::f8f6f4 ? make_layout(shape, 4) : Layout{}});
    return layouts;
  }();
  return all[static_cast<std::size_t>(&s - kShapes.data())][s.a == E::f8f6f4 && bits != 8 ? 1 : 0];
}

/// How an instruction's operands are read: a shape's own types, or the formats that f8f6f4 codes in CBSZ and BLGP.
struct Reading {
  bool coded;  ///< f8f6f4
  Mini a, b;
  int bits_a, bits_b;
};
Reading reading(const Inst& in, const MatrixShape& s) {
  if (s.a != E::f8f6f4) return {false, Mini::e4m3, Mini::e4m3, element_bits(s.a), element_bits(s.b)};
  const Mini a = coded(in.mod.cbsz), b = coded(in.mod.blgp);
  return {true, a, b, mini_bits(a), mini_bits(b)};
}

template <class T>
T value(const Wave& w, Element kind, Mini mini, u64 bits) {
  if constexpr (std::is_same_v<T, double>)
    return as_f64(bits);
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return static_cast<std::int8_t>(bits);
  else
    return decode(w, kind, mini, bits);
}

template <class T>
void gather(const Wave& w, const Inst& in, const MatrixShape& s, const Reading& r, T* a, T* b) {
  const std::uint16_t *at_a = layout(s, r.bits_a).a.data(), *at_b = layout(s, r.bits_b).b.data();
  for (int lane = 0; lane < kLanes; ++lane) {
    const int b_lane = r.coded || s.a == E::f64 ? lane : blgp_lane(in.mod.blgp, lane);
    for (int e = 0; e < s.elements(); ++e) {
      a[*at_a++] = value<T>(w, s.a, r.a, element(w, in.ops[1], lane, e, r.bits_a));
      b[*at_b++] = value<T>(w, s.b, r.b, element(w, in.ops[2], b_lane, e, r.bits_b));
    }
  }
}

/// What an instruction does to A and B before it multiplies: BLGP negates f64, f8f6f4 has scales.
void adjust(Wave&, const Inst& in, const MatrixShape& s, const Reading&, double* a, double* b) {
  const int modifiers = in.mod.blgp | in.mod.neg_lo;
  for (int i = 0; i < s.m * s.k * s.blocks; ++i) {
    if (modifiers & 1) a[i] = -a[i];
    if (modifiers & 2) b[i] = -b[i];
  }
}
void adjust(Wave& w, const Inst& in, const MatrixShape& s, const Reading& r, float* a, float* b) {
  if (!r.coded || in.operands < 6) return;
  for (int lane = 0; lane < kLanes; ++lane) {  // the lane's row (column) and the 32 k of its group
    const int row = lane % s.m, group = lane / s.m;
    const float sa = scale_value(w, in, 0, lane), sb = scale_value(w, in, 1, lane);
    for (int k = 32 * group; k < 32 * group + 32; ++k) {
      a[row * s.k + k] *= sa;
      b[k * s.n + row] *= sb;
    }
  }
}
void adjust(Wave&, const Inst&, const MatrixShape&, const Reading&, std::int32_t*, std::int32_t*) {}

/// Registers of a lane that a result takes.
template <class T>
constexpr int kWide = std::is_same_v<T, double> ? 2 : 1;

/// C as it is added; BLGP may negate that of f64, too.
template <class T>
void gather_c(const Wave& w, const Inst& in, const MatrixShape& s, const std::uint16_t* at_d, T* d) {
  const Operand& c = in.ops[3];
  const bool negate = kWide<T> == 2 && (in.mod.blgp & 4 || in.mod.neg_lo & 4);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < s.results(); ++r) {
      T& out = d[*at_d++];
      u64 bits = c.literal;
      if (c.kind == Operand::Kind::vgpr) {
        const std::size_t reg = c.reg + static_cast<std::size_t>(r * kWide<T>);
        bits = w.v[reg].l[lane];
        if constexpr (kWide<T> == 2) bits |= u64{w.v[reg + 1].l[lane]} << 32;
      }
      if constexpr (kWide<T> == 2)
        out = negate ? -as_f64(bits) : as_f64(bits);
      else
        out = std::bit_cast<T>(static_cast<u32>(bits));
    }
  }
}

/// D += A B, block by block. CBSZ and ABID let several blocks of B meet one of A.
template <class T>
void multiply_blocks(const Inst& in, const MatrixShape& s, bool coded, const T* a, const T* b, T* d) {
  const int broadcast = coded ? 0 : in.mod.cbsz;
  for (int block = 0; block < s.blocks; ++block) {
    const int from = broadcast == 0 ? block : (block & ~((1 << broadcast) - 1)) + in.mod.abid;
    const T* pa = a + static_cast<std::ptrdiff_t>(from) * s.m * s.k;
    const T* pb = b + static_cast<std::ptrdiff_t>(block) * s.k * s.n;
    T* pd = d + static_cast<std::ptrdiff_t>(block) * s.m * s.n;
    if constexpr (std::is_same_v<T, float>)
      multiply(pa, pb, pd, s.m, s.n, s.k);
    else
      multiply_plain(pa, pb, pd, s.m, s.n, s.k);
  }
}

template <class T>
void scatter(Wave& w, const Inst& in, const MatrixShape& s, const std::uint16_t* at_d, const T* d) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int r = 0; r < s.results(); ++r) {
      const T out = d[*at_d++];
      const std::size_t reg = in.ops[0].reg + static_cast<std::size_t>(r * kWide<T>);
      if constexpr (kWide<T> == 2) {
        w.v[reg].l[lane] = static_cast<u32>(bits_of(out));
        w.v[reg + 1].l[lane] = static_cast<u32>(bits_of(out) >> 32);
      } else {
        w.v[reg].l[lane] = std::bit_cast<u32>(out);
      }
    }
  }
}

/// Gathers A, B and C as matrices of T, multiplies, scatters D.
template <class T>
void run(Wave& w, const Inst& in, const MatrixShape& s) {
  static thread_local T a[kMaxA * 2], b[kMaxA * 2], d[kMaxD];
  const Reading r = reading(in, s);
  const std::uint16_t* const at_d = layout(s, r.bits_a).d.data();
  gather(w, in, s, r, a, b);
  adjust(w, in, s, r, a, b);
  gather_c(w, in, s, at_d, d);
  multiply_blocks(in, s, r.coded, a, b, d);
  define(w, in, s, kWide<T>);
  scatter(w, in, s, at_d, d);
  note_flops(s);
}

template <class T>
void mfma(Wave& w, const Inst& in) {
  const MatrixShape& s = kShapes[in.sub];
  if constexpr (std::is_same_v<T, float>)
    if (lies_in_rows(in, s)) return run_rows(w, in, s);
  run<T>(w, in, s);
}

}  // namespace

void add_matrix_ops(OpTable& t) {
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const MatrixShape& s = kShapes[i];
    const bool integer = s.a == E::i8, wide = s.a == E::f64;
    t[std::string(s.name)] = {.exec = wide      ? mfma<double>
                                      : integer ? mfma<std::int32_t>
                                                : mfma<float>,
                              .cls = Class::mfma,
                              .num = wide      ? Num::f64
                                     : integer ? Num::b32
                                               : Num::f32,
                              .sub = static_cast<std::uint8_t>(i)};
  }
}

}  // namespace kiln::emulator::amdgcn
