// H100, H200: tensor copies (TMA), mbarriers, wgmma.
#include "generator/targets/target.hpp"

namespace kiln::targets {

const TargetInfo& sm_90a() {
  static constexpr MatrixInstruction matrix[] = {
      {"wgmma.mma_async.sync.aligned.m64nNk16.f32.bf16.bf16", DType::bf16, 64, 8, 16, 8, 256, 128},
      {"wgmma.mma_async.sync.aligned.m64nNk16.f32.f16.f16", DType::fp16, 64, 8, 16, 8, 256, 128},
      {"wgmma.mma_async.sync.aligned.m64nNk32.f32.e4m3.e4m3", DType::fp8_e4m3, 64, 8, 32, 8, 256, 128},
  };
  static constexpr TargetInfo info{Target::sm_90a, 32, 1024, 232448, 1024, 65536, 255, 0, true, matrix};
  return info;
}

}  // namespace kiln::targets
