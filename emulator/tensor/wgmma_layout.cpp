// Shared-memory descriptors and the canonical operand layouts of wgmma (PTX ISA, "Shared Memory Matrix
// Layout").
//
// In units of 16-byte chunks (T elements), span S = 2, 4 or 8 chunks for the 32, 64 and 128 byte swizzles:
//            K-major  row r, chunk c                        MN-major  element group g, column k
//   none     (r % 8) * 16 + (r / 8) * SBO + c * LBO         (k % 8) * 16 + (k / 8) * LBO + g * SBO
//   swizzled (r % 8) * 16S + (r / 8) * SBO + c * 16         (k % 8) * 16S + (k / 8) * SBO + (g % S) * 16 + (g
//   / S) * LBO
// and the swizzle is applied to the final address, its row phase counted from the descriptor's base offset.
#include "emulator/tensor/wgmma_layout.hpp"

#include <algorithm>
#include <unordered_map>

namespace kiln::emulator {

namespace {

std::uint32_t chunk_address(const MatrixDescriptor& d, bool mn_major, std::uint32_t outer,
                            std::uint32_t inner) {
  // K-major: outer = row, inner = chunk. MN-major: outer = column k, inner = element group.
  const std::uint32_t in_group = outer % 8, group = outer / 8;
  std::uint32_t address = d.start;
  if (d.swizzle == Swizzle::none) {
    address += in_group * 16;
    address += mn_major ? group * d.leading_offset + inner * d.stride_offset
                        : group * d.stride_offset + inner * d.leading_offset;
    return address % kDescriptorSpace;
  }
  const std::uint32_t span = 1u << static_cast<unsigned>(d.swizzle);
  address += in_group * span * 16 + group * d.stride_offset;
  // Beyond the swizzle's span (64 bytes of k with the 32-byte one) the leading offset leads on.
  address += (inner % span) * 16 + (inner / span) * d.leading_offset;
  const std::uint32_t phase = (address >> 7) - d.base_offset;
  return (address ^ ((phase & (span - 1)) << 4)) % kDescriptorSpace;
}

OperandLayout build(std::uint64_t descriptor, int extent, bool mn_major, bool wide) {
  MatrixDescriptor d = decode_descriptor(descriptor);
  d.start %= 1024;
  const std::uint32_t outer = mn_major ? (wide ? 32 : 16) : static_cast<std::uint32_t>(extent);
  const std::uint32_t inner = mn_major ? static_cast<std::uint32_t>(extent) / 8 : wide ? 4 : 2;
  OperandLayout layout;
  layout.chunks.reserve(outer * inner);
  for (std::uint32_t i = 0; i < outer; ++i) {
    for (std::uint32_t j = 0; j < inner; ++j) layout.chunks.push_back(chunk_address(d, mn_major, i, j));
  }
  std::vector<std::uint32_t> sorted = layout.chunks;
  std::sort(sorted.begin(), sorted.end());
  for (const std::uint32_t chunk : sorted) {
    if (!layout.ranges.empty() && layout.ranges.back().end >= chunk) {
      layout.ranges.back().end = std::max(layout.ranges.back().end, chunk + 16);
    } else {
      layout.ranges.push_back({chunk, chunk + 16});
    }
  }
  return layout;
}

constexpr std::uint64_t kStartMask = 0x3fffull,
                        kStartInPattern = 0x3full;              // start addresses are in units of 16 bytes
constexpr std::uint64_t kFieldMask = 0xc00e'3fff'3fff'3fffull;  // every bit that a descriptor field uses
constexpr std::size_t kMaxCached = 512;

}  // namespace

MatrixDescriptor decode_descriptor(std::uint64_t descriptor) {
  const auto field = [&](int shift) {
    return static_cast<std::uint32_t>((descriptor >> shift) & 0x3fff) << 4;
  };
  // The layout field counts down: 1 = 128 bytes, 2 = 64, 3 = 32.
  constexpr Swizzle kModes[4] = {Swizzle::none, Swizzle::b128, Swizzle::b64, Swizzle::b32};
  return {field(0), field(16), field(32), static_cast<std::uint32_t>((descriptor >> 49) & 7),
          kModes[descriptor >> 62]};
}

std::uint64_t encode_descriptor(const MatrixDescriptor& d) {
  constexpr std::uint64_t kCodes[4] = {0, 3, 2, 1};
  const auto field = [](std::uint32_t bytes, int shift) {
    return static_cast<std::uint64_t>((bytes >> 4) & 0x3fff) << shift;
  };
  return field(d.start, 0) | field(d.leading_offset, 16) | field(d.stride_offset, 32) |
         static_cast<std::uint64_t>(d.base_offset & 7) << 49 |
         kCodes[static_cast<std::size_t>(d.swizzle)] << 62;
}

const OperandLayout& operand_layout(std::uint64_t descriptor, int extent, bool mn_major, bool wide) {
  thread_local std::unordered_map<std::uint64_t, OperandLayout> cache;
  // Extent, major and width fill bits 52..59, which no descriptor field uses.
  const std::uint64_t key = (descriptor & kFieldMask & ~(kStartMask ^ kStartInPattern)) |
                            static_cast<std::uint64_t>(extent / 8) << 52 |
                            static_cast<std::uint64_t>(mn_major) << 58 |
                            static_cast<std::uint64_t>(wide) << 59;
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() >= kMaxCached) cache.clear();
  return cache.emplace(key, build(descriptor, extent, mn_major, wide)).first->second;
}

void add_footprint(const OperandLayout& layout, std::uint32_t base, std::vector<ByteRange>& out) {
  const std::size_t first = out.size();
  for (const ByteRange& range : layout.ranges) {
    const std::uint32_t begin = base + range.begin, end = base + range.end;
    if (end <= kDescriptorSpace) {
      out.push_back({begin, end});
    } else if (begin >= kDescriptorSpace) {
      out.push_back({begin - kDescriptorSpace, end - kDescriptorSpace});
    } else {
      out.push_back({begin, kDescriptorSpace});
      out.push_back({0, end - kDescriptorSpace});
    }
  }
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
  const auto before = [](const ByteRange& x, const ByteRange& y) { return x.begin < y.begin; };
  if (!std::is_sorted(begin, out.end(), before)) std::sort(begin, out.end(), before);
}

void wgmma_footprint(const WgmmaOp& op, WgmmaOperand operand, std::uint64_t descriptor,
                     std::vector<ByteRange>& out) {
  const bool is_a = operand == WgmmaOperand::a;
  const OperandLayout& layout =
      operand_layout(descriptor, is_a ? 64 : op.n, is_a ? op.trans_a : op.trans_b, !is_a && op.sparse);
  add_footprint(layout, layout_base(descriptor), out);
}

}  // namespace kiln::emulator
