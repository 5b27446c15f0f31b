// KVMmaOp on CDNA: owns the register tile of one role, K or V, every load from LDS into
// it, and the matrix products that consume it.
//
// K (load_prefill): register NAME_reg[vector][mma] is one ds_read_b128 of every lane, `k_group` fragments (or
// one of `packs` parts of a fragment); a lane's vector covers depth `vector_k * v + simd * group ..`, and Q
// is loaded in the same order. Where an element-space swizzle moves fragments inside vectors, it is two reads
// of 8 bytes (load_lds_fragment). Where a row ends inside a strip (depth 576 in strips of 128) there is
// nothing of the row in LDS past it: steps that lie wholly past it are left out, a missing upper part is zero
// (load_prefill_split without has_hi), and lanes past it get zeros (zero_partial_tile_pad; both 8.1, 8.2).
//
// V (load_v_bf16, load_v_fp8_strip): fragments NAME_reg[k_mma][mma] in the key
// order that the accumulators of S have, so that P goes to the product as it is:
//   gfx950          tr32, tr16: two ds_read_b64_tr_b16 a fragment; tr8_32, tr8_16: a ds_read_b64_tr_b8 for
//                   each 8 keys of a lane
//   gfx90a, gfx942  perm4x4: rows are read as they lie, four keys and `width` columns a lane, and turned by
//                   v_perm_b32; fragment f of such a group holds columns first + width * row + f. Bytes come
//                   four columns to a register, in two runs of four keys.
//   block           16-bit elements one by one: element e of a lane is key frag * (lane / M) + e of column
//                   lane % M, so that P comes with a lane's keys side by side, and columns in natural order
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/layout/proof.hpp"
#include "generator/systems/cdna/lds_tile.hpp"
#include "generator/systems/cdna/mfma.hpp"

namespace kiln::cdna {

/// Output columns of `width` neighbouring fragments: fragment f, accumulator row r is column `first` + width
/// * r + f. Width 1 is the natural order.
struct ColumnGroup {
  int first = 0, width = 1, mma = 0;
};

class KVMmaOp {
 public:
  struct Shape {
    Mfma mfma;
    int num_mmas = 0;     ///< fragments along keys (K) or output columns (V)
    int num_k_mmas = 0;   ///< instruction steps along k in one BK strip
    int num_k_tiles = 0;  ///< strips held in registers
    int BK = 0;
    bool transpose_b = true;  ///< true: K loads, false: V loads
    /// FP8: a lane's slots are neighbouring keys (P comes from LDS), not those of the accumulators of S.
    bool keys_in_order = false;
    bool block = false;  ///< V: the block form
    int waves = 1;       ///< V: waves whose columns lie side by side in one block of LDS
    /// K: columns that a row has; what a strip holds past them is made zero. 0: whole strips.
    int columns = 0;
    /// What emitted names begin with; empty: "k" or "v". A second K, with columns of its own, has another name.
    std::string tensor{};
  };
  KVMmaOp(const Shape& shape, const LdsTile& stage);

  /// K: the same registers and places, of a strip that has only `columns` columns of the row.
  KVMmaOp with_columns(int columns) const {
    KVMmaOp op = *this;
    op.shape_.columns = columns;
    return op;
  }

  /// V: output columns that are read together: whole groups are multiples of it.
  static int column_unit(const Mfma& mfma);
  /// V: `cols` output columns as groups, of the block form or not; empty when they do not divide.
  static std::vector<ColumnGroup> column_groups(const Mfma& mfma, int cols, bool block = false);

  void use(Prelude& prelude) const;
  /// Addresses of this lane; `base` is the byte offset of stage 0 in LDS, `wave_col` the first column of V
  /// that this wave reads.
  void emit_construct(Writer& w, const std::string& base, const std::string& wave_col = "") const;
  void emit_registers(Writer& w) const;
  /// K: all its registers have arrived, and no memory access crosses that.
  void emit_arrived(Writer& w) const;
  /// Steps of one strip: 16-byte vectors, or fragments of several, along depth (K), or instructions along
  /// keys (V).
  int steps() const { return shape_.transpose_b ? vectors() / shape_.mfma.packs() : shape_.num_k_mmas; }
  int strip_columns() const { return shape_.BK; }
  int registers_per_step() const {
    return shape_.num_mmas * (shape_.transpose_b ? 4 * shape_.mfma.packs() : shape_.mfma.frag_regs());
  }
  /// Step `step` of load_prefill[bk_tile] or load_v_bf16[bk_tile], from the stage at byte `stage_offset`.
  void emit_load(Writer& w, int bk_tile, int step, int stage_offset) const;
  /// mma: C += A B over that step. `b` names the registers of Q (vectors) or P (pairs of elements); `first`:
  /// the strip's first step overwrites C.
  /// `first_operand`: where in `b` the strips begin; `first_output`: where in `c` the fragments do.
  void emit_mma(Writer& w, const std::string& b, const std::string& c, int bk_tile, int step, bool first,
                int first_operand = 0, int first_output = 0) const;
  /// Products of one strip, which are fewer where K's columns end within it.
  int products() const { return shape_.num_mmas * shape_.num_k_mmas; }
  int products(int bk_tile) const;
  /// load_prefill_split's has_hi: the part of the strip's last fragments past the first 16 bytes exists.
  bool has_part(int bk_tile, int step, int part) const { return column(bk_tile, step, part) < columns(); }

  /// Fragments of one step: along keys (K) or the columns that a wave reads (V).
  int num_mmas() const { return shape_.num_mmas; }
  const std::vector<ColumnGroup>& groups() const { return groups_; }
  std::string tensor() const {
    return !shape_.tensor.empty() ? shape_.tensor : shape_.transpose_b ? "k" : "v";
  }
  /// V: the key, counted from an instruction's first, that element `element` of a lane's fragment holds.
  int slot_key(int lane, int element) const;
  nlohmann::ordered_json constants() const;
  std::vector<layout::Proof> proofs(Target target) const;

 private:
  // What fragments are read from: the addresses and literals of each.
  void want_keys();
  void want_blocks();
  void want_columns(int width);
  int wave_columns() const { return shape_.num_mmas * shape_.mfma.shape.n; }
  bool transposing() const { return !shape_.block && shape_.mfma.target == Target::gfx950; }
  int slot(int bk_tile) const { return bk_tile % shape_.num_k_tiles; }
  /// 16-byte registers of K.
  int k_registers() const { return shape_.num_k_tiles * vectors() * shape_.num_mmas; }
  int vectors() const { return shape_.BK / shape_.mfma.vector_k(); }  ///< of a K strip
  int columns() const { return shape_.columns > 0 ? shape_.columns : 1 << 30; }
  /// First column of K that part `part` of the fragments of a step holds.
  int column(int bk_tile, int step, int part) const {
    return bk_tile * shape_.BK + (step * shape_.mfma.packs() + part) * shape_.mfma.vector_k();
  }
  const LaneAddress& address(const ColumnGroup& group) const;
  void emit_load_k(Writer& w, int bk_tile, int vector, int stage_offset) const;
  void emit_load_v_transposing(Writer& w, int bk_tile, int k, int stage_offset) const;
  void emit_load_v_perm(Writer& w, int bk_tile, int k, int stage_offset) const;
  void emit_load_v_block(Writer& w, int bk_tile, int k, int stage_offset) const;
  void emit_load_v_perm_bytes(Writer& w, const ColumnGroup& group, int row, int key, int stage_offset) const;
  /// K: vectors are read in two parts, which the swizzle may part.
  bool parted() const { return stage_.unit_bytes() == 8; }
  bool bytes() const { return shape_.mfma.simd() == 16; }
  /// Keys of one lane run or transposing read, from the step's first: how far the next one is.
  int key_stride() const;
  layout::LdsAccess access(std::size_t i) const;

  Shape shape_;
  LdsTile stage_;
  std::vector<ColumnGroup> groups_;
  std::vector<LaneAddress> addresses_;  ///< K: one; V: one per distinct width
  std::vector<int> widths_;
};

}  // namespace kiln::cdna
