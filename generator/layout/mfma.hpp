// Fragments of AMD MFMA instructions, as attention uses them. Wave of
// 64 lanes.
//
//   A: row = l % M, k = (l / M) * E + e      B: the same with columns     E = M*K/64 elements a lane
//   C 32x32: col = l % 32, row = 8*(p/4) + 4*(l/32) + p%4     C 16x16: col = l % 16, row = 4*(l/16) + p
//
//   C 32x32, rows held by registers 0..15:      lanes 0..31    0 1 2 3   8 9 10 11  16 17 18 19  24 25 26 27
//                                               lanes 32..63   4 5 6 7  12 13 14 15  20 21 22 23  28 29 30 31
#pragma once

#include "generator/layout/fragment.hpp"

namespace kiln::layout {

struct MfmaShape {
  int m = 0, n = 0, k = 0;
  bool operator==(const MfmaShape&) const = default;
  int a_elements() const { return m * k / 64; }
  int b_elements() const { return n * k / 64; }
  int c_elements() const { return m * n / 64; }
};

/// A (rows = m, cols = k) with k contiguous in a lane; B is the same map over n.
FragmentMap mfma_a(MfmaShape shape);
/// A or B of the 8-bit f8f6f4 shapes (32x32x64, 16x16x128) as two 16-byte loads leave it: two runs of 16 k.
FragmentMap mfma_a_two_half(MfmaShape shape);
/// C and D, rows = m, cols = n; 32x32 and 16x16.
FragmentMap mfma_c(MfmaShape shape);

/// V as loaded from LDS for PV: rows = keys, cols = depth of one MFMA K step.
enum class VForm {
  tr32,     ///< 16 keys x 32: two ds_read_b64_tr_b16, bf16 32x32x16
  tr16,     ///< 32 keys x 16: two ds_read_b64_tr_b16, bf16 16x16x32
  tr8_32,   ///< 64 keys x 32: four ds_read_b64_tr_b8, fp8 32x32x64
  tr8_16,   ///< 128 keys x 16: four ds_read_b64_tr_b8, fp8 16x16x128
  block32,  ///< scalar reads, fp16/bf16 32x32xK
  block16,  ///< scalar reads, 16x16xK
};
/// `k` is the MFMA K of the block forms; the others imply it.
FragmentMap v_fragment(VForm form, int k = 0);

/// Key that slot (lane group g, element) of P stands for when S^T goes to PV in registers: the order V must
/// share. `registers` consecutive accumulator registers per slot group come from one key tile of `m` rows.
int p_slot_key(MfmaShape qk, MfmaShape pv, int group, int element);

}  // namespace kiln::layout
