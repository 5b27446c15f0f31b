// Where a matrix lies in shared memory, as chunks of 16 bytes (PTX ISA, "Canonical layouts"). With span S = 2, 4 or 8
// chunks of the 32, 64 and 128 byte swizzles:
//            K-major  row r, chunk c                        MN-major  k, chunk of elements g
//   none     (r % 8) * 16 + (r / 8) * SBO + c * LBO         (k % 8) * 16 + (k / 8) * LBO + g * SBO
//   swizzled (r % 8) * 16S + (r / 8) * SBO + c * 16         (k % 8) * 16S + (k / 8) * SBO + (g % S) * 16 + (g / S) * LBO
// With atoms of 32 bytes four k make a group instead of eight, and the swizzle moves pairs of chunks.
#include <algorithm>
#include <unordered_map>

#include "emulator/tcgen05/descriptor.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

std::uint32_t span_of(SmemSwizzle s) {
  return s == SmemSwizzle::b32 ? 2 : s == SmemSwizzle::b64 ? 4 : 8;
}

std::uint32_t swizzled(const MatrixDescriptor& d, std::uint32_t address) {
  const std::uint32_t row = (address >> 7) - d.base_offset;
  switch (d.swizzle) {
    case SmemSwizzle::none:
      return address;
    case SmemSwizzle::b128_atom32:
      return address ^ (row & 3) << 5;
    default:
      return address ^ (row & (span_of(d.swizzle) - 1)) << 4;
  }
}

std::uint32_t chunk_address(const MatrixDescriptor& d, bool mn_major, std::uint32_t outer,
                            std::uint32_t inner) {
  if (d.swizzle == SmemSwizzle::none) {
    const std::uint32_t group = outer / 8;
    return (d.start + outer % 8 * 16 +
            (mn_major ? group * d.leading_offset + inner * d.stride_offset
                      : group * d.stride_offset + inner * d.leading_offset)) %
           kDescriptorSpace;
  }
  const std::uint32_t span = span_of(d.swizzle), rows = d.swizzle == SmemSwizzle::b128_atom32 ? 4 : 8;
  std::uint32_t address = d.start + outer % rows * span * 16 + outer / rows * d.stride_offset;
  address += mn_major ? inner % span * 16 + inner / span * d.leading_offset : inner * 16;
  return swizzled(d, address) % kDescriptorSpace;
}

std::vector<ByteRange> merged(std::vector<std::uint32_t> chunks) {
  std::sort(chunks.begin(), chunks.end());
  std::vector<ByteRange> ranges;
  for (const std::uint32_t chunk : chunks)
    if (!ranges.empty() && ranges.back().end >= chunk)
      ranges.back().end = std::max(ranges.back().end, chunk + 16);
    else
      ranges.push_back({chunk, chunk + 16});
  return ranges;
}

OperandLayout build(std::uint64_t descriptor, const OperandExtent& extent) {
  MatrixDescriptor d;
  (void)decode_matrix(descriptor, d);
  d.start %= 1024;
  OperandLayout layout;
  layout.chunks.reserve(std::size_t{extent.outer} * extent.inner);
  for (std::uint32_t i = 0; i < extent.outer; ++i)
    for (std::uint32_t j = 0; j < extent.inner; ++j)
      layout.chunks.push_back(chunk_address(d, extent.mn_major, i, j));
  layout.ranges = merged(layout.chunks);
  return layout;
}

struct Key {
  std::uint64_t descriptor;
  std::uint32_t extent;
  bool operator==(const Key&) const = default;
};
struct Hash {
  std::size_t operator()(const Key& k) const {
    return (k.descriptor ^ k.extent) * 0x9e3779b97f4a7c15ull >> 17;
  }
};

}  // namespace

const OperandLayout& matrix_layout(std::uint64_t descriptor, const OperandExtent& extent) {
  thread_local std::unordered_map<Key, OperandLayout, Hash> cache;
  constexpr std::uint64_t kStart = 0x3fff, kInPattern = 0x3f;
  const Key key{descriptor & ~(kStart ^ kInPattern),
                extent.outer << 10 | extent.inner << 1 | static_cast<std::uint32_t>(extent.mn_major)};
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() >= 512) cache.clear();
  return cache.emplace(key, build(descriptor, extent)).first->second;
}

OperandExtent extent_of(Element type, std::uint32_t rows, int k, bool mn_major, std::uint32_t chunks) {
  if (!mn_major) return {rows, chunks, false};
  const auto per_chunk = static_cast<std::uint32_t>(128 / bits_of(type));
  return {static_cast<std::uint32_t>(k), (rows + per_chunk - 1) / per_chunk, true};
}

void matrix_footprint(std::uint64_t descriptor, const OperandExtent& extent, std::vector<ByteRange>& out) {
  add_footprint(matrix_layout(descriptor, extent), layout_base(descriptor), out);
}

void part_footprint(std::uint64_t descriptor, const OperandExtent& extent,
                    const std::function<bool(std::uint32_t, std::uint32_t)>& counts,
                    std::vector<ByteRange>& out) {
  const OperandLayout& whole = matrix_layout(descriptor, extent);
  OperandLayout part;
  for (std::uint32_t outer = 0; outer < extent.outer; ++outer)
    for (std::uint32_t inner = 0; inner < extent.inner; ++inner)
      if (counts(outer, inner))
        part.chunks.push_back(whole.chunks[std::size_t{outer} * extent.inner + inner]);
  part.ranges = merged(part.chunks);
  add_footprint(part, layout_base(descriptor), out);
}

}  // namespace kiln::emulator::tcgen05
