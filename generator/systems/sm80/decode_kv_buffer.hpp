// DecodeStreamingKVBuffer on sm_80 (in the pipelined form): one of K or V on its way from
// an external tile iterator to the tensor cores, strip by strip. Every warp has stages of its own and takes
// its own keys of each tile, so the main loop has no block barrier:
//
//   rows of a warp's WN keys --cp.async--> stage s of the warp --ldmatrix--> fragments --> mma.sync m16n8k16
//
// 8-bit rows are copied as they are and widened between ldmatrix and mma.sync. One ldmatrix register holds
// four neighbouring bytes of a key (K), or two of each of two keys (V, transposed as 16-bit units); `widen`
// gives its even and its odd bytes as two registers of 16-bit values. For K that permutes the depth inside
// each group of four, which Q's fragments follow; for V even and odd columns become tiles of their own, which
// the output follows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/layout/proof.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/sm80/kv_mma_op.hpp"

namespace kiln::sm80 {

class DecodeStreamingKVBuffer {
 public:
  struct Shape {
    bool transpose = true;  ///< K; false: V
    DType compute = DType::bf16, stored = DType::bf16;
    int WN = 16;                 ///< keys of a warp's tile
    int depth = 0;               ///< of the operand
    int columns = 0;             ///< of a block of shared memory, in 16-bit units
    int group = 0;               ///< elements of depth with a scale of their own; 0: one scale for a row
    bool q_in_registers = true;  ///< K: else A fragments are read from `smem_q` for every tile
    layout::Swizzle swizzle{};
  };
  DecodeStreamingKVBuffer(const Shape& shape, const MHAOperand& operand);

  bool bytes() const { return size_of(shape_.stored) == 1; }
  int stage_bytes() const { return tile_.bytes(); }
  int groups() const { return shape_.group == 0 ? 1 : (shape_.depth + shape_.group - 1) / shape_.group; }

  void use(Prelude& prelude) const;
  /// Once: this lane's place in a copy.
  void emit_lane(Writer& w) const;
  /// Starts the copies of a tile into the stage at address `stage`: `base` points at the lane's column of row
  /// 0 (MHAOperand::base), `page` holds populate's result, `first_row` and `length` are int expressions.
  void emit_copy(Writer& w, const std::string& stage, const std::string& page, const std::string& first_row,
                 const std::string& length) const;
  /// K: s_acc = Q K' of the stage at `stage`. With scale groups: s_acc += scale * partial products, and
  /// `scale(n, e, group)` gives the scale of column e of key tile n.
  void emit_qk(Writer& w, const std::string& stage) const;
  /// V: o_acc += P V; p holds P as A fragments, or with scale groups p_GROUP.
  void emit_pv(Writer& w, const std::string& stage) const;

  /// Depth of element e (0, 1) of the pair that C register pair `pair` (of n-tile `tile`) holds for a lane
  /// with lane & 3 == t: a literal plus `t_factor` * t.
  struct Column {
    int literal, t_factor;
  };
  Column output_column(int tile, int e) const;
  /// Depths of the four elements of Q that lane t needs for step `step`, in order a0 lo, a0 hi, a2 lo, a2 hi,
  /// when t == 0; add 2 t (16-bit) or 4 t (8-bit).
  std::array<int, 4> query_columns(int step) const;
  int output_tiles() const { return shape_.depth / 8; }
  int steps() const { return shape_.depth / 16; }

  /// Of 16-bit rows; bytes are widened between its load and its product.
  const std::optional<KVMmaOp>& kv_mma_op() const { return op_; }
  const SmemTile& tile() const { return tile_; }
  nlohmann::ordered_json constants() const;
  std::vector<layout::Proof> proofs() const;

 private:
  std::string name() const { return shape_.transpose ? "k" : "v"; }
  std::string widen() const;
  void emit_qk_bytes(Writer& w) const;
  /// Expression of Q's A fragment of a step, read from shared memory first where it lies there.
  std::string emit_query(Writer& w, int step) const;
  void emit_pv_bytes(Writer& w) const;

  Shape shape_;
  MHAOperand operand_;
  SmemTile tile_;
  std::optional<KVMmaOp> op_;
  FragmentReader reader_;
  LaneAddress address_;  ///< of this lane's copies
};

}  // namespace kiln::sm80
