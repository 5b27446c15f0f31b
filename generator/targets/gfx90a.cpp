// MI210, MI250: CDNA2. No FP8, LDS copies of 4 bytes a lane.
#include "generator/targets/target.hpp"

namespace kiln::targets {

const TargetInfo& gfx90a() {
  static constexpr MatrixInstruction matrix[] = {
      {"__builtin_amdgcn_mfma_f32_32x32x8bf16_1k", DType::bf16, 32, 32, 8, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_16x16x16bf16_1k", DType::bf16, 16, 16, 16, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_32x32x8f16", DType::fp16, 32, 32, 8, 0, 0, 64},
      {"__builtin_amdgcn_mfma_f32_16x16x16f16", DType::fp16, 16, 16, 16, 0, 0, 64},
  };
  static constexpr TargetInfo info{Target::gfx90a, 64, 1024, 65536, 0, 131072, 512, 4, false, matrix};
  return info;
}

}  // namespace kiln::targets
