#include "generator/targets/target.hpp"

namespace kiln {

const TargetInfo& target_info(Target target) {
  switch (target) {
    case Target::sm_80:
      return targets::sm_80();
    case Target::sm_90a:
      return targets::sm_90a();
    case Target::sm_100a:
      return targets::sm_100a();
    case Target::sm_103a:
      return targets::sm_103a();
    case Target::gfx90a:
      return targets::gfx90a();
    case Target::gfx942:
      return targets::gfx942();
    case Target::gfx950:
      return targets::gfx950();
  }
  return targets::sm_80();
}

const MatrixInstruction* find_matrix_instruction(Target target, DType dtype,
                                                 const std::array<int, 3>& shape) {
  for (const MatrixInstruction& instruction : target_info(target).matrix) {
    if (instruction.covers(dtype, shape)) return &instruction;
  }
  return nullptr;
}

}  // namespace kiln
