// One operand's stages in shared memory, and who copies and reads what.
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

#include "generator/layout/fragment.hpp"
#include "generator/layout/mfma.hpp"
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
};

/// AMD LDS DMA of one 32-row tile: what lane `lane` of instruction `instr` copies. 16 bytes a lane.
struct DmaSource {
  int row = 0, col = 0;  ///< first element in the tile
};
struct DmaTile {
  int columns = 0, element_bytes = 2, rows = 32;
  Swizzle swizzle;  ///< vector domain
  int thread_rows() const { return columns * element_bytes / 4 <= 16 ? 16 : 8; }
  int thread_cols() const { return columns * element_bytes / 4 <= 16 ? 4 : 8; }
  int load_width() const { return columns / thread_cols(); }
  int instructions() const { return rows / thread_rows(); }
  DmaSource source(int instr, int lane) const;
  /// Linear element offset in the tile that the lane writes.
  int destination(int instr, int lane) const { return (instr * 64 + lane) * load_width(); }
};

/// AMD K fragment read: element `e` of lane `lane` for row strip `i`, K step `j` of a strip of BK columns.
struct KFragmentRead {
  MfmaShape shape;
  int BK = 0, simd = 8;
  int packs() const { return shape.a_elements() / simd; }
  /// Logical element offset of 16-byte pack `h` from the start of the MMA_M-row strip.
  int strip_element(int j, int h, int lane) const;
};

/// First element of the V sub-tile (strip bk_tile, K step k, fragment i) of a stage.
int v_subtile_offset(MfmaShape shape, int BN, int BK, int bk_tile, int k, int i);

/// Address of one transposing 8-bit read of V: key, depth inside the block, element offset in the stage.
struct Tr8Address {
  int key = 0, depth_in_block = 0;
  std::uint32_t offset = 0;
};
/// fp8 32x32x64 (tr8_32): fragment `dt` (32 depth), `key_base` = 16q; `swizzle` in the vector domain.
Tr8Address tr8_32_address(int lane, int dt, int key_base, int BN, int BK, Swizzle swizzle);
/// fp8 16x16x128 (tr8_16): fragment `dt` (16 depth), `key_base` = 8q.
Tr8Address tr8_16_address(int lane, int dt, int key_base, int BN, int bk_smem, Swizzle swizzle);

}  // namespace kiln::layout
