#include "generator/layout/tcgen05.hpp"

namespace kiln::layout {
namespace {

constexpr SwizzleMode kModes[] = {SwizzleMode::none, SwizzleMode::none, SwizzleMode::b128, SwizzleMode::none,
                                  SwizzleMode::b64,  SwizzleMode::none, SwizzleMode::b32,  SwizzleMode::none};

std::uint64_t swizzle_code(SwizzleMode mode) {
  std::uint64_t code = 0;
  for (std::uint64_t i = 0; i < std::size(kModes); ++i)
    if (mode != SwizzleMode::none && kModes[i] == mode) code = i;
  return code;
}

}  // namespace

std::uint64_t encode_tcgen05(const SmemDescriptor& d) {
  const auto field = [](std::uint32_t bytes) {
    return static_cast<std::uint64_t>((bytes >> 4) & kDescriptorField);
  };
  constexpr std::uint64_t kVersion = 1;
  return field(d.address) | field(d.lbo) << 16 | field(d.sbo) << 32 | kVersion << 46 |
         static_cast<std::uint64_t>(d.base_offset & 7) << 49 | swizzle_code(d.mode) << 61;
}

SmemDescriptor decode_tcgen05(std::uint64_t bits) {
  const auto field = [bits](int low) {
    return static_cast<std::uint32_t>((bits >> low) & kDescriptorField) << 4;
  };
  return {field(0), field(16), field(32), static_cast<int>((bits >> 49) & 7), kModes[bits >> 61]};
}

std::uint32_t tcgen05_instruction(DType type, int m, int n, bool b_mn_major, bool a_mn_major) {
  constexpr std::uint32_t kF32 = 1;
  const std::uint32_t operand = type == DType::bf16 ? 1 : 0;  // f16 and e4m3: 0, each of its kind
  return kF32 << 4 | operand << 7 | operand << 10 | static_cast<std::uint32_t>(a_mn_major) << 15 |
         static_cast<std::uint32_t>(b_mn_major) << 16 | static_cast<std::uint32_t>(n >> 3) << 17 |
         static_cast<std::uint32_t>(m >> 4) << 24;
}

}  // namespace kiln::layout
