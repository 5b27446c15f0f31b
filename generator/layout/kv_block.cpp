#include "generator/layout/kv_block.hpp"

#include <vector>

#include "generator/layout/layout.hpp"

namespace kiln::layout {

std::uint32_t KvBlocks::offset_in(int block, int element) const {
  return static_cast<std::uint32_t>(block * block_elements()) +
         swizzled_element(swizzle, domain, static_cast<std::uint32_t>(element),
                          static_cast<std::uint32_t>(simd));
}

std::uint32_t KvBlocks::offset(int stage, int key, int depth) const {
  return offset_in(stage * blocks_per_stage + depth / bk_smem, key * bk_smem + depth % bk_smem);
}

bool KvBlocks::is_bijection() const {
  std::vector<int> offsets;
  offsets.reserve(static_cast<std::size_t>(blocks_per_stage * block_elements()));
  for (int block = 0; block < blocks_per_stage; ++block) {
    for (int element = 0; element < block_elements(); ++element)
      offsets.push_back(static_cast<int>(offset_in(block, element)));
  }
  return is_permutation(offsets);
}

}  // namespace kiln::layout
