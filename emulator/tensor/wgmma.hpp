// Warpgroup matrix multiply (wgmma.mma_async) of sm_90a: shared-memory descriptors and the 64 x N x K
// product.
//
// Shared memory is the window of the executing CTA: byte 0 is shared address 0, and descriptor addresses (18
// bits) index it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kiln/emulator/tensor_map.hpp>

#include "emulator/tensor/mma.hpp"

namespace kiln::emulator {

/// Applies the swizzle to a shared-memory byte address.
inline std::uint32_t swizzle_address(Swizzle swizzle, std::uint32_t address) {
  const std::uint32_t line = address >> 7;
  if (swizzle == Swizzle::b128_atom64) return address ^ (line & 1) << 6;
  if (swizzle > Swizzle::b128)
    return address ^ (line & 3) << 5 ^ (swizzle == Swizzle::b128_atom32_flip8 ? (line & 1) << 3 : 0);
  const std::uint32_t mask = (1u << static_cast<unsigned>(swizzle)) - 1u;
  return address ^ (((address >> 7) & mask) << 4);
}

/// The 64-bit matrix descriptor of wgmma, decoded; offsets in bytes.
struct MatrixDescriptor {
  std::uint32_t start = 0;
  std::uint32_t leading_offset = 0;  ///< LBO
  std::uint32_t stride_offset = 0;   ///< SBO
  std::uint32_t base_offset = 0;     ///< row phase (0..7) at which the swizzle pattern starts
  Swizzle swizzle = Swizzle::none;
};
MatrixDescriptor decode_descriptor(std::uint64_t descriptor);
std::uint64_t encode_descriptor(const MatrixDescriptor& descriptor);

/// One wgmma form. k follows from the element type: 32 bytes (f16/bf16 16, tf32 8, fp8 and s8/u8 32, bits 256), of
/// sparse forms 64.
struct WgmmaOp {
  int n = 8;
  MatrixType a = MatrixType::bf16, b = MatrixType::bf16;
  MatrixType d = MatrixType::f32;  ///< f32, f16 or s32
  bool a_in_registers = false;
  bool trans_a = false, trans_b = false;    ///< MN-major operand; 16-bit types only
  bool negate_a = false, negate_b = false;  ///< imm-scale-a, imm-scale-b == -1
  bool satfinite = false;                   ///< s32 only
  bool sparse = false;                      ///< half of A's elements are stored (see sparse.hpp)
  int selector = 0;                         ///< of sparse forms: which lanes hold metadata
};
int wgmma_k(const WgmmaOp& op);
/// 32-bit accumulator registers per lane: n / 2, or n / 4 for f16.
int wgmma_d_registers(const WgmmaOp& op);
/// Empty if the form exists; else what is wrong, one line.
std::string wgmma_check(const WgmmaOp& op);

/// D = A * B (+ D when scale_d) for the four warps of a warpgroup.
/// `d[w * wgmma_d_registers(op) + i]` points to the 32 lanes of accumulator register i of warp w; `a`
/// likewise with 4 registers a warp, null when A comes from descriptor `desc_a`. Addresses beyond `shared`
/// read zeros: call wgmma_footprint first and report them. Sums run in f32 over ascending k starting from D.
void wgmma(const WgmmaOp& op, bool scale_d, std::uint32_t* const* d, const std::uint32_t* const* a,
           std::uint64_t desc_a, std::uint64_t desc_b, std::span<const std::uint8_t> shared);

/// The same of sparse forms and single bits; `metadata`: 32 words of each warp.
void wgmma_rare(const WgmmaOp& op, bool scale_d, std::uint32_t* const* d, const std::uint32_t* const* a,
                const std::uint32_t* metadata, std::uint64_t desc_a, std::uint64_t desc_b,
                std::span<const std::uint8_t> shared);

/// A half-open range of shared-memory bytes.
struct ByteRange {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};
/// Which operand of a wgmma.
enum class WgmmaOperand : std::uint8_t { a, b };
/// Bytes that one operand's descriptor makes the instruction read: sorted, disjoint, merged; appended to
/// `out`.
void wgmma_footprint(const WgmmaOp& op, WgmmaOperand operand, std::uint64_t descriptor,
                     std::vector<ByteRange>& out);

}  // namespace kiln::emulator
