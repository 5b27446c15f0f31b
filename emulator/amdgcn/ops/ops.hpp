// The instruction table's parts, one function per family, and what their handlers share. Internal.
#pragma once

#include <string>
#include <unordered_map>

#include "emulator/amdgcn/machine/machine.hpp"

namespace kiln::emulator::amdgcn {

using OpTable = std::unordered_map<std::string, OpInfo>;

void add_scalar_ops(OpTable& table);          // ops_scalar.cpp
void add_control_ops(OpTable& table);         // ops_control.cpp
void add_scalar_memory_ops(OpTable& table);   // ops_smem.cpp
void add_integer_ops(OpTable& table);         // ops_integer.cpp
void add_compare_ops(OpTable& table);         // ops_compare.cpp
void add_float_ops(OpTable& table);           // ops_float.cpp
void add_half_ops(OpTable& table);            // ops_half.cpp
void add_convert_ops(OpTable& table);         // ops_convert.cpp
void add_narrow_convert_ops(OpTable& table);  // ops_narrow.cpp
void add_packed_ops(OpTable& table);          // ops_packed.cpp
void add_lane_ops(OpTable& table);            // ops_lane.cpp
void add_vector_memory_ops(OpTable& table);   // ops_vmem.cpp
void add_lds_ops(OpTable& table);             // ops_lds.cpp
void add_matrix_ops(OpTable& table);          // matrix.cpp

inline float as_f32(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline double as_f64(std::uint64_t bits) {
  return std::bit_cast<double>(bits);
}
inline std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

// Vector instructions on one register per operand: D = F(S0), F(S0, S1), F(S0, S1, S2) lane by lane.
template <auto F>
void v1(Wave& w, const Inst& in) {
  Lanes ba, out;
  const View a = w.source(in, 1, ba);
  for (int l = 0; l < kLanes; ++l) out.l[l] = F(a.l[l]);
  w.put(in, 0, out, a.defined);
}
template <auto F>
void v2(Wave& w, const Inst& in) {
  Lanes ba, bb, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb);
  for (int l = 0; l < kLanes; ++l) out.l[l] = F(a.l[l], b.l[l]);
  w.put(in, 0, out, a.defined & b.defined);
}
template <auto F>
void v3(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.source(in, 3, bc);
  for (int l = 0; l < kLanes; ++l) out.l[l] = F(a.l[l], b.l[l], c.l[l]);
  w.put(in, 0, out, a.defined & b.defined & c.defined);
}
// The same on f32 values, with output modifiers.
template <auto F>
void f1(Wave& w, const Inst& in) {
  Lanes ba, out;
  const View a = w.source(in, 1, ba);
  for (int l = 0; l < kLanes; ++l) out.l[l] = bits_of(F(as_f32(a.l[l])));
  w.put_f32(in, 0, out, a.defined);
}
template <auto F>
void f2(Wave& w, const Inst& in) {
  Lanes ba, bb, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb);
  for (int l = 0; l < kLanes; ++l) out.l[l] = bits_of(F(as_f32(a.l[l]), as_f32(b.l[l])));
  w.put_f32(in, 0, out, a.defined & b.defined);
}
template <auto F>
void f3(Wave& w, const Inst& in) {
  Lanes ba, bb, bc, out;
  const View a = w.source(in, 1, ba), b = w.source(in, 2, bb), c = w.source(in, 3, bc);
  for (int l = 0; l < kLanes; ++l) out.l[l] = bits_of(F(as_f32(a.l[l]), as_f32(b.l[l]), as_f32(c.l[l])));
  w.put_f32(in, 0, out, a.defined & b.defined & c.defined);
}

/// A 64-bit source, both registers of a lane.
struct Wide {
  Lanes bl, bh;
  View low, high;
  Wide(const Wave& w, const Inst& in, int i) : low(w.source(in, i, bl, 0)), high(w.source(in, i, bh, 1)) {}
  std::uint64_t operator[](int l) const { return low.l[l] | std::uint64_t{high.l[l]} << 32; }
  std::uint64_t defined() const { return low.defined & high.defined; }
};
inline void split(Lanes& low, Lanes& high, int l, std::uint64_t value) {
  low.l[l] = static_cast<std::uint32_t>(value);
  high.l[l] = static_cast<std::uint32_t>(value >> 32);
}

/// maxNum and minNum of IEEE 754-2008, as CDNA computes them: a NaN gives the other operand, -0 < +0.
template <class T>
T max_num(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T>
T min_num(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T med3(T a, T b, T c) {
  if (a != a || b != b || c != c) return min_num(min_num(a, b), c);
  const T high = max_num(max_num(a, b), c);
  if (high == a) return max_num(b, c);
  if (high == b) return max_num(a, c);
  return max_num(a, b);
}

}  // namespace kiln::emulator::amdgcn
