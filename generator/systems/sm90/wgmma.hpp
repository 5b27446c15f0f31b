// wgmma as emitted code: wrappers with their operand lists, and SMEM matrix descriptors.
#pragma once

#include <string>
#include <vector>

#include <kiln/config.hpp>
#include "generator/emit/prelude.hpp"
#include "generator/layout/proof.hpp"
#include "generator/layout/tma.hpp"

namespace kiln::sm90 {

/// Where a matrix operand's rows lie in shared memory: panels whose row is one swizzle span.
struct SmemTile {
  int rows = 0;
  int span_bytes = 128;  ///< swizzle span: 32, 64 or 128 bytes
  int element_bytes = 2;
  int fold = 1;  ///< panels whose eights of rows lie side by side (layout/tma.hpp)

  int panel_bytes() const { return rows * span_bytes; }
  int panel_columns() const { return span_bytes / element_bytes; }
  /// Of a panel's first row, and of row `row`, a multiple of 8, behind the first.
  int panel_offset(int panel) const { return layout::panel_byte(panel, rows, span_bytes, fold); }
  int row_offset(int row) const { return row / 8 * layout::eight_rows_bytes(span_bytes, fold); }
  SwizzleMode mode() const {
    return span_bytes == 128 ? SwizzleMode::b128 : span_bytes == 64 ? SwizzleMode::b64 : SwizzleMode::b32;
  }
};

/// Constant parts of descriptors. `low` is what is added to (address >> 4); `high` the upper word.
struct DescriptorFields {
  unsigned low = 0, high = 0;
};
/// K-major operand (Q, K): rows along M or N, contiguous along the contraction.
DescriptorFields k_major_descriptor(const SmemTile& tile);
/// MN-major operand (V): rows along the contraction, contiguous along N; panels follow each other along N.
DescriptorFields mn_major_descriptor(const SmemTile& tile);

/// Emitted expression of the address field (address >> 4). In a cluster a shared address carries the rank of
/// its block from bit 24 on, which would run into the leading byte offset of a descriptor.
std::string descriptor_base(const std::string& address, int cluster);

/// What the swizzle of a span XORs into the 16-byte chunk of row `row`, an expression of its low bits.
inline std::string swizzle_bits(int span_bytes, const std::string& row) {
  if (span_bytes == 128) return "(" + row + " & 7)";
  return "((" + row + (span_bytes == 64 ? " >> 1) & 3)" : " >> 2) & 1)");
}

/// Descriptor step (in 16-byte units) of contraction step `step` (16 two-byte or 32 one-byte elements each).
int k_major_step(const SmemTile& tile, int step);
int mn_major_step(const SmemTile& tile, int step);

/// L1 proofs of a tile of `columns` columns: the tensor copy fills it and the descriptors of every
/// contraction step find its elements. `mn_major`: rows lie along the contraction (V).
std::vector<layout::Proof> operand_proofs(const std::string& name, const SmemTile& tile, int columns,
                                          bool mn_major);

/// One wgmma instruction form; emits its wrappers into the prelude.
class Wgmma {
 public:
  enum class A { smem, registers };
  /// `n`: columns of B; `b_mn_major`, `a_mn_major`: B is contiguous along N, A in shared memory along M
  /// (16-bit types only).
  Wgmma(DType dtype, int n, A a, bool b_mn_major, bool a_mn_major = false);

  /// The name says the type, where a kernel has the same form of another one.
  void name_type() { names_type_ = true; }
  /// Name of the wrapper; `first` overwrites the accumulator instead of adding to it.
  std::string name(bool first) const;
  void add_to(Prelude& prelude, bool first) const;
  int k() const { return is_fp8(dtype_) ? 32 : 16; }

 private:
  DType dtype_;
  int n_;
  A a_;
  bool b_mn_major_, a_mn_major_, names_type_ = false;
};

}  // namespace kiln::sm90
