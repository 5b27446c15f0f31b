// sm80_decode over a latent cache (MLA: `v_from_k`, V is the first ov_depth columns of K's rows).
//
// Rows are so wide that warps cannot have tiles of their own: K's tile belongs to the block, which copies it
// once for S and for V. A pair of warps owns 16 packed query rows: both compute S and P of all keys of the
// tile, and each half of the output's columns, so nothing crosses between warps, and one barrier a tile is
// enough.
//
//   wait K(n), barrier | start K(n + stages - 1) | S = Q K(n)' | softmax | O[half] += P K(n)[half]
//
// Q stays in shared memory, as fragments: beside half of O there are no registers for it.
#pragma once

#include <optional>

#include "generator/schedules/sm80_decode_base.hpp"
#include "generator/systems/sm80/kv_mma_op.hpp"

namespace kiln::sm80 {

struct LatentPlan : DecodeBase {
  static constexpr int kBlockColumns = 64;  ///< of a block of shared memory: rows of 128 bytes
  static constexpr int kChunk = 4;  ///< fragments of V that are loaded together: few registers are left
  int smem_k = 0;                   ///< Q lies at 0

  SmemTile tile;  ///< of K
  std::optional<TileCopy> copy;
  std::optional<KVMmaOp> k, v;  ///< V: of the columns of a block

  int steps() const { return depth / KVMmaOp::MMA_K; }
  int half() const { return ov_depth / 2; }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<LatentPlan> plan_decode_latent(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_decode_latent(const LatentPlan& plan);

}  // namespace kiln::sm80
