// One operand's stages in shared memory.
//
// A stage is `blocks_per_stage` dense blocks of BN rows (keys) x bk_smem columns (depth), one after the
// other:
//
//   stage 0: | block 0: BN x bk_smem | block 1 | ... |  stage 1: | ...
//   element (stage, key, depth): block = stage*blocks_per_stage + depth/bk_smem, e = key*bk_smem +
//   depth%bk_smem physical = block*BN*bk_smem + swizzle(e), the swizzle seen from the start of the block on
//   both sides
#pragma once

#include <cstdint>

#include "generator/layout/swizzle.hpp"

namespace kiln::layout {

struct KvBlocks {
  int BN = 0, bk_smem = 0, blocks_per_stage = 1;
  int simd = 8;  ///< elements of a 16-byte vector
  Swizzle swizzle;
  SwizzleDomain domain = SwizzleDomain::vector;

  int block_elements() const { return BN * bk_smem; }
  /// Element offset from the start of the buffer.
  std::uint32_t offset(int stage, int key, int depth) const;
  /// All `keys x depth` elements of a stage land on different offsets inside it.
  bool is_bijection() const;

 private:
  /// Of an element of a block, counted along depth, then keys.
  std::uint32_t offset_in(int block, int element) const;
};

}  // namespace kiln::layout
