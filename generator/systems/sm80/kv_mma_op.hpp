// KVMmaOp on sm_80: owns the B-operand register tile of one role, K or V, every load from
// shared memory into it, and the mma.sync that consumes it.
//
// Register tile NAME_reg, `_total_rows` rows of `input_frag_size` 16-bit elements (two registers each),
// ordered [k_tile][k_mma][mma]. Fragments are those of m16n8k16:
//   K: n = key, k = depth: plain ldmatrix, two fragments (16 keys) an .x4
//   V: n = depth, k = key: ldmatrix.trans, two fragments (16 columns of depth) an .x4
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include <kiln/types.hpp>
#include "generator/emit/prelude.hpp"
#include "generator/systems/sm80/smem_tile.hpp"

namespace kiln::sm80 {

/// Some of a step's fragments: `count` from `first` on, both even; by default all.
struct FragmentRange {
  int first = 0, count = -1;
};

class KVMmaOp {
 public:
  using Range = FragmentRange;
  struct Shape {
    DType in_type = DType::bf16;
    int num_mmas = 0;     ///< fragments along keys (K) or depth (V)
    int num_k_mmas = 0;   ///< instruction steps along k in one BK strip
    int num_k_tiles = 0;  ///< strips held in registers
    int BN = 0, BK = 0;
    bool transpose_b = true;  ///< true: K loads, false: V loads
  };
  static constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;
  static constexpr int input_frag_size = MMA_K * MMA_N / 32;

  KVMmaOp(const Shape& shape, const SmemTile& stage);

  int rows_per_k_tile() const { return shape_.num_mmas * shape_.num_k_mmas; }
  int total_rows() const { return shape_.num_k_tiles * rows_per_k_tile(); }
  int num_registers() const { return total_rows() * input_frag_size / 2; }

  void use(Prelude& prelude) const;
  void emit_construct(Writer& w, const std::string& base) const { reader_.emit_construct(w, base); }
  void emit_registers(Writer& w) const;
  /// Loads step `k_mma` of strip `bk_tile`, from the stage at byte `stage_offset`.
  void emit_load(Writer& w, int bk_tile, int k_mma, int stage_offset, Range range = {}) const;
  /// mma_tile_at[bk_tile, kg]: first register of that row block.
  int mma_tile_at(int bk_tile, int k_mma) const {
    return (bk_tile % shape_.num_k_tiles * rows_per_k_tile() + k_mma * shape_.num_mmas) * input_frag_size / 2;
  }
  /// c += a * B for the fragments of one step. `a`: pointer expression of the A fragment; `first`: c is
  /// overwritten.
  void emit_mma(Writer& w, const std::string& a, const std::string& c, int bk_tile, int k_mma, bool first,
                Range range = {}) const;

  const FragmentReader& reader() const { return reader_; }
  nlohmann::ordered_json constants() const;

 private:
  std::string name() const { return shape_.transpose_b ? "k" : "v"; }
  int end_of(Range range) const { return range.count < 0 ? shape_.num_mmas : range.first + range.count; }

  Shape shape_;
  FragmentReader reader_;
};

}  // namespace kiln::sm80
