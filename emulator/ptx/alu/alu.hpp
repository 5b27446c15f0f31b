// Handlers of the hot arithmetic: loops over 32 lanes that the compiler turns into vector code, built once
// for any x86-64 and once for AVX2 + FMA, chosen when a program is decoded.
#pragma once

#include "emulator/machine/program.hpp"

namespace kiln::emulator {

// clang-format off
#define KILN_ALU_OPS(X) \
  X(mov16) X(mov32) X(mov64) X(mov_pred) X(add16) X(add32) X(add64) X(sub16) X(sub32) X(sub64) \
  X(mul16) X(mul32) X(mul64) X(mad32) X(mad64) X(and16) X(and32) X(and64) X(or16) X(or32) X(or64) \
  X(xor16) X(xor32) X(xor64) X(not16) X(not32) X(not64) X(and_pred) X(or_pred) X(xor_pred) X(not_pred) \
  X(shl32) X(shl64) X(shr_u32) X(shr_s32) X(shr_u64) X(shr_s64) X(min_s32) X(min_u32) X(max_s32) \
  X(max_u32) X(min_s64) X(min_u64) X(max_s64) X(max_u64) X(wide_u32) X(wide_s32) X(madwide_u32) \
  X(madwide_s32) X(neg32) X(neg64) X(abs32) X(abs64) X(selp16) X(selp32) X(selp64) X(lop3) \
  X(shf_l_wrap) X(shf_r_wrap) X(shf_l_clamp) X(shf_r_clamp) X(cvt_64_u32) X(cvt_64_s32) X(cvt_32_64) \
  X(fadd) X(fsub) X(fmul) X(ffma) X(fadd_ftz) X(fsub_ftz) X(fmul_ftz) X(ffma_ftz) X(fmin) X(fmax) \
  X(fneg) X(fabs) X(bf16x2_f32) X(eq32) X(ne32) X(lt_s32) X(le_s32) X(gt_s32) X(ge_s32) X(lt_u32) \
  X(le_u32) X(gt_u32) X(ge_u32) X(eq64) X(ne64) X(lt_s64) X(le_s64) X(gt_s64) X(ge_s64) X(lt_u64) \
  X(le_u64) X(gt_u64) X(ge_u64) X(eq16) X(ne16) X(lt_s16) X(le_s16) X(gt_s16) X(ge_s16) X(lt_u16) \
  X(le_u16) X(gt_u16) X(ge_u16) X(eq_f32) X(ne_f32) X(lt_f32) X(le_f32) X(gt_f32) X(ge_f32) X(equ_f32) \
  X(neu_f32) X(ltu_f32) X(leu_f32) X(gtu_f32) X(geu_f32) X(num_f32) X(nan_f32) X(eq_f64) X(ne_f64) \
  X(lt_f64) X(le_f64) X(gt_f64) X(ge_f64) X(equ_f64) X(neu_f64) X(ltu_f64) X(leu_f64) X(gtu_f64) \
  X(geu_f64) X(num_f64) X(nan_f64)
// clang-format on

enum class Alu : std::uint16_t {
#define KILN_ALU_ENUM(name) name,
  KILN_ALU_OPS(KILN_ALU_ENUM)
#undef KILN_ALU_ENUM
      count
};

/// The handler of `op` for this machine.
Handler alu(Alu op);
const Handler* alu_table_baseline();
const Handler* alu_table_v3();

}  // namespace kiln::emulator
