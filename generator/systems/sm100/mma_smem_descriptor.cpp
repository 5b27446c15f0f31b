#include "generator/systems/sm100/mma_smem_descriptor.hpp"

#include "generator/layout/tcgen05.hpp"
#include "generator/layout/tma.hpp"

namespace kiln::sm100 {
namespace {

std::uint64_t bits_of(const SmemTile& tile, bool k_major, std::uint32_t address) {
  return layout::encode_tcgen05(k_major ? layout::k_major_descriptor(tile.mode(), address, tile.rows)
                                        : *layout::mn_major_descriptor(tile.mode(), address, tile.rows));
}

}  // namespace

unsigned MMASmemDescriptor::low() const {
  return static_cast<unsigned>(bits_of(tile_, is_k_major_, 0));
}

unsigned MMASmemDescriptor::high() const {
  return static_cast<unsigned>(bits_of(tile_, is_k_major_, 0) >> 32);
}

int MMASmemDescriptor::step(int step) const {
  return is_k_major_ ? sm90::k_major_step(tile_, step)
                     : sm90::mn_major_step(tile_, step * step_elements() / 16);
}

void MMASmemDescriptor::add_proofs(std::vector<layout::Proof>& out, const std::string& name,
                                   int columns) const {
  const auto swizzle = layout::byte_swizzle(tile_.mode());
  const int length = step_elements(), steps = (is_k_major_ ? columns : tile_.rows) / length;
  bool agree = true;
  for (int i = 0; i < steps; ++i) {
    const auto d =
        layout::decode_tcgen05(bits_of(tile_, is_k_major_, static_cast<std::uint32_t>(step(i)) << 4));
    for (int mn = 0; mn < (is_k_major_ ? tile_.rows : columns); ++mn) {
      for (int k = 0; k < length; ++k) {
        const int row = is_k_major_ ? mn : length * i + k, column = is_k_major_ ? length * i + k : mn;
        const auto there =
            layout::panel_tile_byte(row, column, tile_.rows, tile_.element_bytes, tile_.span_bytes, swizzle);
        agree &= there == (is_k_major_ ? layout::k_major_address(d, mn, k, tile_.element_bytes)
                                       : layout::mn_major_address(d, mn, k, tile_.element_bytes));
      }
    }
  }
  out.push_back({name + ": tcgen05 descriptors read what the tensor copy wrote", agree, 0});
}

}  // namespace kiln::sm100
