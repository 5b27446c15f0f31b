// wgmma with a sparse A, and of single bits: element by element, without the packed panels of the common forms.
#include <bit>
#include <cstring>
#include <vector>

#include "emulator/tensor/mma_elements.hpp"
#include "emulator/tensor/sparse.hpp"
#include "emulator/tensor/wgmma.hpp"
#include "emulator/tensor/wgmma_layout.hpp"

namespace kiln::emulator {
namespace {

/// The bytes of an operand in shared memory as a dense matrix: `extent` rows (columns of B) of `bytes` of k.
std::vector<std::uint8_t> gather(std::uint64_t descriptor, int extent, bool mn_major, bool wide,
                                 std::span<const std::uint8_t> shared) {
  const std::size_t bytes = wide ? 64 : 32;
  const std::uint32_t base = layout_base(descriptor);
  const std::vector<std::uint32_t>& chunks = operand_layout(descriptor, extent, mn_major, wide).chunks;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(extent) * bytes);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::uint32_t address = (base + chunks[i]) % kDescriptorSpace;
    std::uint8_t chunk[16] = {};
    if (address + 16 <= shared.size()) std::memcpy(chunk, shared.data() + address, 16);
    if (!mn_major) {
      std::memcpy(out.data() + 16 * i, chunk, 16);
      continue;
    }
    // 8 elements of 16 bits of column k.
    const std::size_t groups = static_cast<std::size_t>(extent) / 8, k = i / groups, group = i % groups;
    for (std::size_t e = 0; e < 8; ++e)
      std::memcpy(out.data() + (8 * group + e) * bytes + 2 * k, chunk + 2 * e, 2);
  }
  return out;
}

/// A from registers, as gather() would give it: the fragments of four warps.
std::vector<std::uint8_t> from_registers(const std::uint32_t* const* a) {
  std::vector<std::uint8_t> out(kWgmmaRows * 32);
  for (std::size_t j = 0; j < 16; ++j)
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t row = 16 * (j / 4) + 8 * (j % 2) + lane / 4, word = 4 * (j / 2 % 2) + lane % 4;
      std::memcpy(out.data() + row * 32 + 4 * word, &a[j][lane], 4);
    }
  return out;
}

float element(MatrixType type, const std::vector<std::uint8_t>& bytes, std::size_t row, std::size_t pitch,
              int k) {
  const int per = elements_per_register(type);
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + row * pitch + 4 * static_cast<std::size_t>(k / per), 4);
  return element_as_float(type, word, k % per);
}

/// Adds to (or sets) the accumulator of row `row` of 64 and a column.
void accumulate(const WgmmaOp& op, bool scale_d, std::uint32_t* const* d, int row, int column, auto sum) {
  const int registers = wgmma_d_registers(op), warp = row / 16, lane = 4 * (row % 8) + column % 8 / 2;
  const int i = 4 * (column / 8) + 2 * (row % 16 / 8) + column % 2;
  std::uint32_t* const at = &d[warp * registers + (op.d == MatrixType::f16 ? i / 2 : i)][lane];
  if (op.d == MatrixType::s32) {
    *at = accumulate_s32(scale_d ? *at : 0, static_cast<std::int64_t>(sum(0.f)), op.satfinite);
  } else if (op.d == MatrixType::f32) {
    *at = std::bit_cast<std::uint32_t>(canonicalize(sum(scale_d ? std::bit_cast<float>(*at) : 0.f)));
  } else {
    const std::uint32_t bits = f32_to_f16(sum(scale_d ? element_as_float(op.d, *at, i % 2) : 0.f));
    *at = i % 2 == 0 ? (*at & 0xffff0000u) | bits : (*at & 0xffffu) | bits << 16;
  }
}

void multiply_bits(const WgmmaOp& op, bool scale_d, std::uint32_t* const* d,
                   const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  for (int row = 0; row < kWgmmaRows; ++row)
    for (int column = 0; column < op.n; ++column) {
      int count = 0;
      for (std::size_t i = 0; i < 32; ++i)
        count += std::popcount(static_cast<std::uint8_t>(a[static_cast<std::size_t>(row) * 32 + i] &
                                                         b[static_cast<std::size_t>(column) * 32 + i]));
      accumulate(op, scale_d, d, row, column, [&](float) { return static_cast<float>(count); });
    }
}

}  // namespace

void wgmma_rare(const WgmmaOp& op, bool scale_d, std::uint32_t* const* d, const std::uint32_t* const* a,
                const std::uint32_t* metadata, std::uint64_t desc_a, std::uint64_t desc_b,
                std::span<const std::uint8_t> shared) {
  const auto left =
      op.a_in_registers ? from_registers(a) : gather(desc_a, kWgmmaRows, op.trans_a, false, shared);
  const auto right = gather(desc_b, op.n, op.trans_b, op.sparse, shared);
  if (op.a == MatrixType::b1) return multiply_bits(op, scale_d, d, left, right);
  const int stored = wgmma_k(op) / 2;
  const float sign = op.negate_a != op.negate_b ? -1.f : 1.f;
  for (int warp = 0; warp < 4; ++warp) {
    const SparseColumns columns = sparse_columns(op.a, wgmma_k(op), op.selector, false, metadata + 32 * warp);
    for (int r = 0; r < 16; ++r)
      for (int column = 0; column < op.n; ++column)
        accumulate(op, scale_d, d, 16 * warp + r, column, [&](float sum) {
          for (int s = 0; s < stored; ++s)
            sum += sign * element(op.a, left, static_cast<std::size_t>(16 * warp + r), 32, s) *
                   element(op.b, right, static_cast<std::size_t>(column), 64, columns.column[r][s]);
          return sum;
        });
  }
}

}  // namespace kiln::emulator
