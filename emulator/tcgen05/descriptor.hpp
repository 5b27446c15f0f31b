// The two descriptors of tcgen05.mma: of the instruction (32 bits) and of a matrix in shared memory (64 bits), and what
// the hardware has of them (PTX ISA, "Instruction descriptor", "Shared memory descriptor", "Valid shapes").
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "emulator/tcgen05/elements.hpp"
#include "emulator/tensor/wgmma_layout.hpp"

namespace kiln::emulator::tcgen05 {

enum class MmaKind : std::uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };
const char* name_of(MmaKind kind);
inline bool is_block_scaled(MmaKind kind) {
  return kind >= MmaKind::mxf8f6f4;
}
inline bool is_four_bit(MmaKind kind) {
  return kind == MmaKind::mxf4 || kind == MmaKind::mxf4nvf4;
}
/// Elements of K that one instruction takes; of a sparse A those that are stored.
int k_of(MmaKind kind);

/// What the opcode says, before any descriptor.
struct MmaShape {
  MmaKind kind = MmaKind::f16;
  int group = 1;    ///< CTAs
  bool ws = false;  ///< weight-stationary
  bool a_in_tensor_memory = false;
  int factors = 0;      ///< block scales of a row: 1, 2 or 4
  bool sparse = false;  ///< half of A's elements are stored
};
/// Elements of K that one instruction takes.
inline int k_of(const MmaShape& shape) {
  return k_of(shape.kind) * (shape.sparse ? 2 : 1);
}

enum class Accumulator : std::uint8_t { f16, f32, s32 };
struct InstructionDescriptor {
  int m = 0, n = 0;
  Element a = Element::f16, b = Element::f16;
  Accumulator d = Accumulator::f32;
  bool negate_a = false, negate_b = false;
  bool mn_major_a = false, mn_major_b = false;
  bool saturate = false;
  bool ue8m0 = false;                        ///< type of block scales
  std::uint32_t factor_a = 0, factor_b = 0;  ///< first byte of the cell with a row's scales
  std::uint32_t most_shift = 0;              ///< of B's columns, with .ws
  std::uint32_t selector = 0;                ///< of a sparse A: which of two columns holds the metadata
  bool operator==(const InstructionDescriptor&) const = default;
};
/// Decodes; returns what is wrong with it, naming the field: empty if the hardware has it.
std::string decode_instruction(const MmaShape& shape, std::uint32_t bits, InstructionDescriptor& out);

/// How a matrix lies in shared memory.
enum class SmemSwizzle : std::uint8_t { none, b128_atom32, b128, b64, b32 };
struct MatrixDescriptor {
  std::uint32_t start = 0, leading_offset = 0, stride_offset = 0, base_offset = 0;
  SmemSwizzle swizzle = SmemSwizzle::none;
};
std::string decode_matrix(std::uint64_t bits, MatrixDescriptor& out);
/// What a matrix of this type and majorness may not have; empty: it may. `row_bytes` of K, if K-major.
std::string check_matrix(const MatrixDescriptor& d, Element type, bool mn_major,
                         std::uint32_t row_bytes = 32);

/// Extent of an operand, in chunks of 16 bytes. K-major: `outer` rows of `inner` chunks along K. MN-major: `outer`
/// elements of K of `inner` chunks of elements.
struct OperandExtent {
  std::uint32_t outer = 0, inner = 0;
  bool mn_major = false;
};
/// The chunks of an operand, chunk `outer_index * inner + inner_index`, relative to layout_base(descriptor). The
/// reference is valid until the thread's next call.
const OperandLayout& matrix_layout(std::uint64_t descriptor, const OperandExtent& extent);
/// Rows of a K-major operand as an instruction reads them, `chunks` of 16 bytes each, or its MN-major form.
OperandExtent extent_of(Element type, std::uint32_t rows, int k, bool mn_major, std::uint32_t chunks = 2);
/// Bytes of shared memory that an operand covers: sorted, disjoint; appended.
void matrix_footprint(std::uint64_t descriptor, const OperandExtent& extent, std::vector<ByteRange>& out);
/// The same of the chunks (outer, inner) that `counts` names.
void part_footprint(std::uint64_t descriptor, const OperandExtent& extent,
                    const std::function<bool(std::uint32_t, std::uint32_t)>& counts,
                    std::vector<ByteRange>& out);

}  // namespace kiln::emulator::tcgen05
