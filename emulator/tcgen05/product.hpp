// The product of one tcgen05.mma: which cells and bytes it uses, and its arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/tcgen05/descriptor.hpp"
#include "emulator/tcgen05/memory.hpp"
#include "emulator/tcgen05/zero_columns.hpp"

namespace kiln::emulator::tcgen05 {

/// What one tcgen05.mma was issued with. `d`, `a`, `scale_a`, `scale_b` and `metadata` are
/// addresses of tensor memory.
struct MmaCall {
  MmaShape shape;
  InstructionDescriptor i;
  bool accumulate = true;
  bool shift_a = false;  ///< then the rows of A move down in tensor memory, as tcgen05.shift moves them
  int scale_d = 0;       ///< D * 2^-scale_d before the sum
  std::uint32_t d = 0, a = 0, scale_a = 0, scale_b = 0, metadata = 0;
  std::uint64_t desc_a = 0, desc_b = 0;
  ZeroColumns zero_columns;
  std::array<LaneMask, 2> disabled{};  ///< lanes of D that are not written, by CTA of the pair
};

/// Lanes that hold consecutive rows of D, and the first column of the product in their first cell.
struct Segment {
  std::uint32_t lane = 0, lanes = 0, row = 0, column = 0;
};
/// Where D lies in one CTA: layouts A to G of the PTX ISA. `columns` are those of tensor memory.
struct Placement {
  std::vector<Segment> segments;
  std::uint32_t columns = 0;
  LaneMask lanes() const;
};
Placement placement_of(const MmaCall& c);
/// Rows of A that a CTA holds.
std::uint32_t rows_of(const MmaCall& c);
/// What is wrong with the tensor-memory addresses of a call; empty: nothing.
std::string check_addresses(const MmaCall& c);

/// Cells that are read and written, and bytes of shared memory of one CTA.
Rectangle cells_of_d(const MmaCall& c, int cta);
Rectangle cells_of_a(const MmaCall& c);
Rectangle cells_of_scales(const MmaCall& c, bool of_a);
Rectangle cells_of_metadata(const MmaCall& c);
OperandExtent extent_of_a(const MmaCall& c);
OperandExtent extent_of_b(const MmaCall& c);
/// Bytes of shared memory with the columns of B that count.
void footprint_of_b(const MmaCall& c, std::vector<ByteRange>& out);

/// One CTA of the group: its tensor memory and the shared memory that descriptors address.
struct Cta {
  Memory* tensor = nullptr;
  std::span<const std::uint8_t> shared;
};
/// The metadata of a sparse A for the row in `lane`: 4 bits for each chunk of `chunk_of` elements, chunk 0 lowest.
std::uint64_t metadata_of(const MmaCall& c, const Memory& tensor, std::uint32_t lane);
/// Elements of K in a chunk: 2 of tf32, 8 of 4-bit kinds, else 4. Half of them are stored.
int chunk_of(MmaKind kind);
/// What metadata of one CTA means nothing; empty: all is well.
std::string check_metadata(const MmaCall& c, const Memory& tensor);
/// A row of A as it is stored becomes one of all its elements.
void expand_row(MmaKind kind, std::uint64_t metadata, const float* stored, float* dense);

/// D (+)= A * B in every CTA of the group. Products are exact; sums run in f32 over ascending k from D on, of scaled
/// kinds block by block. Integer kinds are exact.
void multiply(const MmaCall& c, std::span<const Cta> ctas);

}  // namespace kiln::emulator::tcgen05
