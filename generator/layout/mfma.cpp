#include "generator/layout/mfma.hpp"

namespace kiln::layout {

FragmentMap mfma_a(MfmaShape s) {
  const int elements = s.a_elements();
  return {s.m, s.k, 64, elements, [m = s.m, elements](int lane, int e) {
            return Coord{lane % m, lane / m * elements + e};
          }};
}

FragmentMap mfma_a_two_half(MfmaShape s) {
  return {s.m, s.k, 64, s.a_elements(), [m = s.m, half = s.k / 2](int lane, int e) {
            return Coord{lane % m, half * (e / 16) + 16 * (lane / m) + e % 16};
          }};
}

FragmentMap mfma_c(MfmaShape s) {
  if (s.m == 32) {
    return {32, 32, 64, 16, [](int lane, int p) {
              return Coord{8 * (p / 4) + 4 * (lane / 32) + p % 4, lane % 32};
            }};
  }
  return {16, 16, 64, 4, [](int lane, int p) { return Coord{4 * (lane / 16) + p, lane % 16}; }};
}

FragmentMap v_fragment(VForm form, int k) {
  switch (form) {
    case VForm::tr32:
      return {16, 32, 64, 8, [](int l, int e) { return Coord{8 * (e / 4) + 4 * (l / 32) + e % 4, l % 32}; }};
    case VForm::tr16:
      return {32, 16, 64, 8, [](int l, int e) { return Coord{16 * (e / 4) + 4 * (l / 16) + e % 4, l % 16}; }};
    case VForm::tr8_32:
      return {64, 32, 64, 32, [](int l, int e) {
                constexpr int kRow[8] = {0, 1, 2, 3, 8, 9, 10, 11};
                return Coord{16 * (e / 8) + kRow[e % 8] + 4 * (l / 32), l % 16 + 16 * ((l / 16) % 2)};
              }};
    case VForm::tr8_16:
      return {128, 16, 64, 32, [](int l, int e) { return Coord{32 * (l / 16) + e, l % 16}; }};
    case VForm::block32:
    case VForm::block16: {
      const int n = form == VForm::block32 ? 32 : 16;
      const int elements = n * k / 64;
      return {k, n, 64, elements, [n, elements](int l, int e) {
                return Coord{elements * (l / n) + e, l % n};
              }};
    }
  }
  return {};
}

int p_slot_key(MfmaShape qk, MfmaShape pv, int group, int element) {
  // Registers of S^T are consumed in order, so slot element e is register e % c of key tile e / c.
  const int per_tile = qk.c_elements();
  const int lane = group * pv.n;
  return qk.m * (element / per_tile) + mfma_c(qk)(lane, element % per_tile).row;
}

}  // namespace kiln::layout
