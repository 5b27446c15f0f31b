#include "generator/layout/kv_block.hpp"

#include <vector>

#include "generator/layout/layout.hpp"

namespace kiln::layout {

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

}  // namespace kiln::layout
