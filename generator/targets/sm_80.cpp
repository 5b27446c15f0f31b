// A100: cp.async into shared memory, ldmatrix, mma.sync.
#include "generator/targets/target.hpp"

namespace kiln::targets {

const TargetInfo& sm_80() {
  static constexpr MatrixInstruction matrix[] = {
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", DType::bf16, 16, 8, 16},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", DType::fp16, 16, 8, 16},
  };
  static constexpr TargetInfo info{Target::sm_80, 32, 1024, 166912, 1024, 65536, 255, 0, false, matrix};
  return info;
}

}  // namespace kiln::targets
