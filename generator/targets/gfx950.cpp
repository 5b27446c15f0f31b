// MI350, MI355: CDNA4. OCP FP8, transposing LDS reads, LDS copies of 16 bytes a lane.
#include "generator/targets/target.hpp"

namespace kiln::targets {

const TargetInfo& gfx950() {
  static constexpr MatrixInstruction matrix[] = {
      {"__builtin_amdgcn_mfma_f32_32x32x16_bf16", DType::bf16, 32, 32, 16, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_16x16x32_bf16", DType::bf16, 16, 16, 32, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_32x32x16_f16", DType::fp16, 32, 32, 16, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_16x16x32_f16", DType::fp16, 16, 16, 32, 0, 0, 64},
      {"__builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4", DType::fp8_e4m3, 32, 32, 64, 0, 0, 64},
      {"__builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4", DType::fp8_e4m3, 16, 16, 128, 0, 0, 64},
      // At half the rate: for tiles that the wider ones do not divide.
      {"__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8", DType::fp8_e4m3, 16, 16, 32, 0, 0, 64},
  };
  static constexpr TargetInfo info{Target::gfx950, 64, 1024, 163840, 0, 131072, 512, 16, false, matrix};
  return info;
}

}  // namespace kiln::targets
