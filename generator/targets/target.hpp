// What a target can hold and what its matrix unit computes. One file per target fills these.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include <kiln/types.hpp>

namespace kiln {

/// One matrix instruction, or a family of them in N (wgmma, tcgen05): N is a multiple of `n_step` up to
/// `n_max`.
struct MatrixInstruction {
  std::string_view name;  ///< PTX mnemonic or compiler builtin
  DType dtype = DType::bf16;
  int m = 0, n = 0, k = 0;  ///< for a family `n` is the smallest
  int n_step = 0, n_max = 0;
  int lanes = 32;  ///< threads that hold one fragment: a warp, a warpgroup, a wave

  bool covers(DType type, const std::array<int, 3>& shape) const {
    const bool n_fits =
        n_step == 0 ? shape[1] == n : shape[1] >= n && shape[1] <= n_max && shape[1] % n_step == 0;
    return type == dtype && shape[0] == m && n_fits && shape[2] == k;
  }
  /// Elements a lane holds of A, B and C; C in f32.
  int a_elements() const { return m * k / lanes; }
  int b_elements(int columns) const { return columns * k / lanes; }
  int c_elements(int columns) const { return m * columns / lanes; }
};

struct TargetInfo {
  Target target = Target::sm_80;
  int wave_size = 32;
  int max_threads = 1024;   ///< of a block
  int smem_bytes = 0;       ///< dynamic shared memory or LDS a block may have
  int smem_reserved = 0;    ///< taken by the system per block, on top
  int registers = 0;        ///< 32-bit registers of a processor
  int max_registers = 255;  ///< of one thread
  int lds_dma_bytes = 0;    ///< bytes a lane copies from global memory to LDS; 0 where there is no such copy
  bool tensor_copies = false;  ///< TMA
  std::span<const MatrixInstruction> matrix;
  int ex2_per_clock = 0;  ///< results of the special-function units of a processor; 0 where nothing asks
  bool load_reduces =
      false;  ///< tcgen05.ld.red: the largest of the columns that a lane loads comes with them

  /// Shared memory of a processor, which one block may have but for what the system takes of each.
  int processor_smem() const { return smem_bytes + smem_reserved; }
};

const TargetInfo& target_info(Target target);

/// The instruction of this shape for operands of `dtype`, or nullptr.
const MatrixInstruction* find_matrix_instruction(Target target, DType dtype, const std::array<int, 3>& shape);

namespace targets {
const TargetInfo& sm_80();
const TargetInfo& sm_90a();
const TargetInfo& sm_100a();
const TargetInfo& sm_103a();
const TargetInfo& gfx90a();
const TargetInfo& gfx942();
const TargetInfo& gfx950();
}  // namespace targets

}  // namespace kiln
