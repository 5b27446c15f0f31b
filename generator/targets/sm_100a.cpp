// B200: tensor copies, tcgen05 with tensor memory (512 columns).
#include "generator/targets/target.hpp"

namespace kiln::targets {

const TargetInfo& sm_100a() {
  // M 64 and 128 run on one block, 256 on a pair; the accumulators lie in tensor memory.
  static constexpr MatrixInstruction matrix[] = {
      {"tcgen05.mma.cta_group::1.kind::f16", DType::bf16, 64, 8, 16, 8, 256, 128},
      {"tcgen05.mma.cta_group::1.kind::f16", DType::bf16, 128, 16, 16, 16, 256, 128},
      {"tcgen05.mma.cta_group::2.kind::f16", DType::bf16, 256, 16, 16, 16, 256, 256},
      {"tcgen05.mma.cta_group::1.kind::f16", DType::fp16, 64, 8, 16, 8, 256, 128},
      {"tcgen05.mma.cta_group::1.kind::f16", DType::fp16, 128, 16, 16, 16, 256, 128},
      {"tcgen05.mma.cta_group::2.kind::f16", DType::fp16, 256, 16, 16, 16, 256, 256},
      {"tcgen05.mma.cta_group::1.kind::f8f6f4", DType::fp8_e4m3, 64, 8, 32, 8, 256, 128},
      {"tcgen05.mma.cta_group::1.kind::f8f6f4", DType::fp8_e4m3, 128, 16, 32, 16, 256, 128},
      {"tcgen05.mma.cta_group::2.kind::f8f6f4", DType::fp8_e4m3, 256, 16, 32, 16, 256, 256},
  };
  static constexpr TargetInfo info{Target::sm_100a, 32, 1024, 232448, 1024, 65536, 255, 0, true, matrix, 16};
  return info;
}

}  // namespace kiln::targets
