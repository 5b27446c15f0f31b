// The matrix instruction of a kernel: its shape, the names around it, and how 16-byte LDS reads fill it.
//
// C += A B with A = K or V^T (rows: keys or output columns) and B = Q or P^T (columns: queries), so that a
// lane owns one query in S and in O (swap_a_b of the reference). A lane's operand is `frag` elements; a
// 16-byte vector holds `k_group` of them (gfx90a, gfx942: 2; gfx950: 1), or an operand is `packs` vectors
// (FP8 on gfx950: 2).
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include <kiln/config.hpp>
#include <kiln/types.hpp>
#include "generator/layout/mfma.hpp"
#include "generator/systems/score_layout.hpp"

namespace kiln::cdna {

struct Mfma {
  /// The instruction of a config that names its shape.
  static Mfma of(const Config& config) {
    const auto& [m, n, k] = *config.mma_shape;
    return {config.target, config.dtype, {m, n, k}};
  }

  Target target = Target::gfx90a;
  DType type = DType::bf16;
  layout::MfmaShape shape;

  int groups() const { return 64 / shape.m; }       ///< lane groups that share a query
  int frag() const { return shape.a_elements(); }   ///< elements of A or B in a lane
  int accum() const { return shape.c_elements(); }  ///< registers of C in a lane
  int frag_regs() const { return frag() * static_cast<int>(size_of(type)) / 4; }
  int simd() const { return 16 / static_cast<int>(size_of(type)); }
  int k_group() const { return std::max(1, simd() / frag()); }
  int packs() const { return std::max(1, frag() / simd()); }
  /// Depth that one 16-byte read of every lane covers.
  int vector_k() const { return groups() * simd(); }
  /// Lanes whose 16 bytes of a read lie within `columns`, a multiple of simd(): those below the number.
  int lanes_within(int columns) const { return std::clamp(columns / simd(), 0, groups()) * shape.m; }
  /// Rows (keys, or output columns of a natural-order tile) of accumulator register 0 .. accum() - 1 are
  /// 8 * (e / 4) + e % 4 + 4 * group, or 4 * group + e.
  int row(int element) const { return layout::mfma_c(shape)(0, element).row; }

  /// Scores of `tiles` accumulators of K Q': a lane has one row, and keys M * t + row(e) + 4 * (lane / M).
  ScoreLayout score_layout(int tiles) const;

  std::string accumulator() const { return accum() == 16 ? "f32x16" : "f32x4"; }
  /// "mfma_32x32x8_bf16": the wrapper in the prelude, and its section.
  std::string wrapper() const;
  /// What the disassembler calls it on this target.
  std::string mnemonic() const;
};

}  // namespace kiln::cdna
