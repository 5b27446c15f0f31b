// A sparse A of tcgen05.mma.sp: half of its elements are stored, and metadata in tensor memory tell which (PTX ISA, "Sparse
// matrices"). A chunk has four bits: two 2-bit indices, of elements or (4-bit kinds) of pairs of them.
//
// Where metadata lie is shown in figures only; what is here follows the layouts of CuTe. Kinds of 8 and 4 bits: 64 bits in
// two columns of the row's own lane. f16 and tf32: 32 bits in the column that the sparsity selector names, spread over 16
// lanes as over the lanes of mma.sp: lane 8 h + i of the 16 has half h of row i in its low 16 bits and of row i + 8 in the
// high ones. Layouts C and F, whose figures CuTe does not cover, are taken alike, within the lanes that they use.
#include <algorithm>

#include "emulator/tcgen05/product.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

bool is_spread_over_lanes(MmaKind kind) {
  return kind == MmaKind::f16 || kind == MmaKind::tf32;
}

/// Four bits that the ISA lists: two different indices.
bool is_meaningful(MmaKind kind, std::uint32_t bits) {
  static constexpr std::uint32_t kPairs[] = {0x4, 0x8, 0xc, 0x9, 0xd, 0x6, 0xe};
  if (kind == MmaKind::tf32) return bits == 0x4 || bits == 0xe;
  return std::find(std::begin(kPairs), std::end(kPairs), bits) != std::end(kPairs);
}

}  // namespace

int chunk_of(MmaKind kind) {
  return kind == MmaKind::tf32 ? 2 : is_four_bit(kind) ? 8 : 4;
}

std::uint64_t metadata_of(const MmaCall& c, const Memory& tensor, std::uint32_t lane) {
  const std::uint32_t column = (c.metadata & 0xffff) + c.i.selector;
  if (!is_spread_over_lanes(c.shape.kind))
    return tensor.lane(lane)[column] | static_cast<std::uint64_t>(tensor.lane(lane)[column + 1]) << 32;
  const std::uint32_t first = lane / 16 * 16 + lane % 8, shift = lane % 16 / 8 * 16;
  return (tensor.lane(first)[column] >> shift & 0xffff) | (tensor.lane(first + 8)[column] >> shift & 0xffff)
                                                              << 16;
}

std::string check_metadata(const MmaCall& c, const Memory& tensor) {
  const int chunks = k_of(c.shape) / chunk_of(c.shape.kind);
  for (const Segment& s : placement_of(c).segments)
    for (std::uint32_t lane = s.lane; lane < s.lane + s.lanes; ++lane) {
      const std::uint64_t bits = metadata_of(c, tensor, lane);
      for (int i = 0; i < chunks; ++i)
        if (const auto one = static_cast<std::uint32_t>(bits >> 4 * i & 0xf);
            !is_meaningful(c.shape.kind, one))
          return "metadata of row " + std::to_string(s.row + lane - s.lane) + ", chunk " + std::to_string(i) +
                 " are " + std::to_string(one) + ", which mean nothing" +
                 (c.shape.kind == MmaKind::tf32 ? ": tf32 has 4 and 14" : "");
    }
  return {};
}

void expand_row(MmaKind kind, std::uint64_t metadata, const float* stored, float* dense) {
  const int chunk = chunk_of(kind), chunks = 2 * k_of(kind) / chunk;
  std::fill_n(dense, static_cast<std::size_t>(2) * static_cast<std::size_t>(k_of(kind)), 0.0F);
  for (int i = 0; i < chunks; ++i) {
    const auto bits = static_cast<std::uint32_t>(metadata >> 4 * i & 0xf);
    const std::uint32_t index[2] = {bits & 3, bits >> 2};
    float* const to = dense + std::ptrdiff_t{chunk} * i;
    const float* const from = stored + std::ptrdiff_t{chunk} / 2 * i;
    if (chunk == 2) {
      to[index[0] >> 1] = from[0];  // the indices name halves of an element's 32 bits
    } else if (chunk == 4) {
      to[index[0]] = from[0];
      to[index[1]] = from[1];
    } else {
      std::copy_n(from, 2, to + std::size_t{2} * index[0]);
      std::copy_n(from + 2, 2, to + std::size_t{2} * index[1]);
    }
  }
}

}  // namespace kiln::emulator::tcgen05
