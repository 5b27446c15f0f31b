// sm80_decode and sm80_wide_prefill over wide rows: a latent cache (MLA: `v_from_k`, V is the first ov_depth
// columns of K's rows), and depths over 256 with a V of its own.
//
// Rows are so wide that warps cannot have tiles of their own: a tile of K, and of V where it is not part of
// K, belongs to the block. A pair of warps owns 16 packed query rows: both compute S and P of all keys of the
// tile, and each half of the output's columns, so nothing crosses between warps, and one barrier a tile is
// enough.
//
//   wait K(n), barrier | start K(n + stages - 1) | S = Q K(n)' | softmax | O[half] += P K(n)[half]
//
// Q stays in shared memory, as fragments: beside half of O there are no registers for it.
#pragma once

#include <optional>

#include "generator/schedules/sm80_decode/base.hpp"
#include "generator/systems/sm80/kv_mma_op.hpp"

namespace kiln::sm80 {

struct WidePlan : DecodeBase {
  static constexpr int kBlockColumns = 64;  ///< of a block of shared memory: rows of 128 bytes
  static constexpr int kChunk = 4;  ///< fragments of V that are loaded together: few registers are left
  int smem_k = 0;                   ///< Q lies at 0

  bool v_in_k = false;
  SmemTile tile;  ///< of K, and of V, whose rows are as wide where it is not part of K
  std::optional<TileCopy> copy;
  std::optional<KVMmaOp> k, v;  ///< V: of the columns of a block

  int steps() const { return depth / KVMmaOp::MMA_K; }
  int half() const { return ov_depth / 2; }
  int stage_bytes() const { return tile.bytes() * (v_in_k ? 1 : 2); }
  /// From a stage's start to V.
  int v_offset() const { return v_in_k ? 0 : tile.bytes(); }
  /// Emitted: that, as the first terms of a sum.
  std::string to_v() const { return v_in_k ? "" : fmt::format("{} + ", v_offset()); }
  /// What copies bring: K, and V where it is not part of K; and where to, emitted.
  struct Tensor {
    std::string name, slot;
  };
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> out{{"k", "slot"}};
    if (!v_in_k) out.push_back({"v", fmt::format("slot + {}", v_offset())});
    return out;
  }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<WidePlan> plan_wide(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_wide(const WidePlan& plan);

}  // namespace kiln::sm80
