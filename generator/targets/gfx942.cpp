// MI300, MI325: CDNA3. FP8 in the FNUZ encoding only.
#include "generator/targets/target.hpp"

namespace kiln::targets {

const TargetInfo& gfx942() {
  static constexpr MatrixInstruction matrix[] = {
      {"__builtin_amdgcn_mfma_f32_32x32x8bf16_1k", DType::bf16, 32, 32, 8, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_16x16x16bf16_1k", DType::bf16, 16, 16, 16, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_32x32x8f16", DType::fp16, 32, 32, 8, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_16x16x16f16", DType::fp16, 16, 16, 16, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8", DType::fp8_e4m3fnuz, 32, 32, 16, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8", DType::fp8_e4m3fnuz, 16, 16, 32, 0, 0, 64},
  };
  static constexpr TargetInfo info{Target::gfx942, 64, 1024, 65536, 0, 131072, 512, 4, false, matrix};
  return info;
}

}  // namespace kiln::targets
