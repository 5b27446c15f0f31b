#include "generator/layout/kv_block.hpp"

#include <vector>

#include "generator/layout/layout.hpp"

namespace kiln::layout {
namespace {

std::uint32_t tr8_offset(const Tr8Address& at, int block, int BN, int width, Swizzle swizzle) {
  const auto e = static_cast<std::uint32_t>(at.key * width + at.depth_in_block);
  return static_cast<std::uint32_t>(block * BN * width) +
         swizzled_element(swizzle, SwizzleDomain::vector, e, 16);
}

}  // namespace

std::uint32_t KvBlocks::offset(int stage, int key, int depth) const {
  const int block = stage * blocks_per_stage + depth / bk_smem;
  const auto e = static_cast<std::uint32_t>(key * bk_smem + depth % bk_smem);
  return static_cast<std::uint32_t>(block * block_elements()) +
         swizzled_element(swizzle, domain, e, static_cast<std::uint32_t>(simd));
}

bool KvBlocks::is_bijection() const {
  std::vector<int> offsets;
  for (int key = 0; key < BN; ++key) {
    for (int depth = 0; depth < blocks_per_stage * bk_smem; ++depth) {
      offsets.push_back(static_cast<int>(offset(0, key, depth)));
    }
  }
  return is_permutation(offsets);
}

DmaSource DmaTile::source(int instr, int lane) const {
  const auto vector = static_cast<std::uint32_t>(lane + 64 * instr);
  const int s = static_cast<int>(swizzle(vector) % 64);
  return {instr * thread_rows() + s / thread_cols(), s % thread_cols() * load_width()};
}

int KFragmentRead::strip_element(int j, int h, int lane) const {
  const int kk = shape.k / packs();
  return lane % shape.m * BK + (j * packs() + h) * kk + lane / shape.m * simd;
}

int v_subtile_offset(MfmaShape shape, int BN, int BK, int bk_tile, int k, int i) {
  const int per_block = BK / shape.m;
  return bk_tile * BK * BK + k * shape.k * BK + i / per_block * BN * BK + i % per_block * shape.m;
}

Tr8Address tr8_32_address(int lane, int dt, int key_base, int BN, int BK, Swizzle swizzle) {
  const int p = lane % 16 / 2, octet = lane % 2;
  Tr8Address at;
  at.key = key_base + p % 4 + 8 * (p / 4) + 4 * (lane / 32);
  at.depth_in_block = dt * 32 % BK + 16 * (lane / 16 % 2) + 8 * octet;
  at.offset = tr8_offset(at, dt * 32 / BK, BN, BK, swizzle);
  return at;
}

Tr8Address tr8_16_address(int lane, int dt, int key_base, int BN, int bk_smem, Swizzle swizzle) {
  const int p = lane % 16 / 2, octet = lane % 2;
  Tr8Address at;
  at.key = 32 * (lane / 16) + key_base + p;
  at.depth_in_block = dt * 16 % bk_smem + 8 * octet;
  at.offset = tr8_offset(at, dt * 16 / bk_smem, BN, bk_smem, swizzle);
  return at;
}

}  // namespace kiln::layout
