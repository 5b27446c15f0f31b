// KVBuffer on sm_80: one of K or V on its way global memory -> shared memory ->
// registers. cp.async brings BN rows at a time into one of `num_smem_stages` stages; its KVMmaOp reads
// fragments with ldmatrix.
//
// The buffer owns the iterator: `NAME_src` and `NAME_rows` always describe the next tile. Rows at or past the
// end of the sequence become zeros, so a masked score never meets a stale NaN. Constants keep their
// documented names.
//
// Rows of bytes have stages of their own, and one tile of 16-bit elements: emit_widen fills it from a stage,
// for the fragments to be read from.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "generator/layout/proof.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/sm80/kv_mma_op.hpp"
#include "generator/systems/sm80/tile_widening.hpp"

namespace kiln::sm80 {

class KVBuffer {
 public:
  struct Shape {
    bool transpose = true;  ///< K; false: V
    DType in_type = DType::bf16;
    int BN = 0, WN = 0, BK = 0;
    int depth = 0;
    int bk_smem = 0;
    int num_threads = 0;
    int num_smem_stages = 2;
    layout::Swizzle swizzle{};   ///< vector domain
    int page_size = 0;           ///< rows of a page; 0: rows follow each other
    DType stored = DType::bf16;  ///< in memory: in_type, or 8 bits
  };
  explicit KVBuffer(const Shape& shape);

  // Derived constants (W = 32, fragments of m16n8k16).
  int num_mmas() const { return constants_.num_mmas; }
  int num_k_mmas2() const { return constants_.num_k_mmas2; }
  int num_k_tiles() const { return constants_.num_k_tiles; }
  /// Rows are bytes, to be widened.
  bool narrow() const { return size_of(shape_.stored) == 1; }
  int tile_bytes() const { return constants_.smem_stage_bytes; }  ///< 16-bit elements, for ldmatrix
  int stage_bytes() const { return narrow() ? tile_bytes() / 2 : tile_bytes(); }  ///< as copied
  /// Steps of 16 along k in strip `bk_tile`: fewer in the last strip of a depth that BK does not divide.
  int k_steps(int bk_tile) const;

  void use(Prelude& prelude) const;
  /// Addresses of this thread; `base` is the shared-memory address of stage 0 (of bytes: that of the 16-bit
  /// tile, and BASE_bytes that of stage 0), `stride` the element distance of rows, `first` a pointer to row 0
  /// of the sequence and head, `rows` the expression of its length.
  void emit_construct(Writer& w, const std::string& base, const std::string& first, const std::string& stride,
                      const std::string& rows) const;
  /// Of pages: declares `page_row`, the first row of the tile to load next (`first`), and populates
  /// `page_PASS`:
  /// the page of each of this thread's rows. K and V share them; K(n) is loaded before V(n), which looks up
  /// tile n + 1, so that the table's latency is hidden.
  void emit_pages(Writer& w, const std::string& first) const;
  /// load_from_dram[stage]: starts the copies of the iterator's tile and advances it.
  void emit_load_from_dram(Writer& w, int stage) const;
  /// The 16-bit tile from this thread's bytes of a stage, which have landed.
  void emit_widen(Writer& w, int stage) const;
  /// load_from_shared[bk_tile] restricted to step `k_mma`, and get_mma_tile through mma(). `stage`: of 16-bit
  /// rows.
  void emit_load_from_shared(Writer& w, int stage, int bk_tile, int k_mma, KVMmaOp::Range range = {}) const;

  const KVMmaOp& kv_mma_op() const { return op_; }
  const SmemTile& stage() const { return stage_; }
  const TileCopy& copy() const { return copy_; }
  nlohmann::ordered_json constants() const;
  std::vector<layout::Proof> proofs() const;

 private:
  std::string name() const { return shape_.transpose ? "k" : "v"; }
  void emit_populate(Writer& w) const;

  Shape shape_;
  MHAOperand operand_;
  KVBufferConstants constants_;
  SmemTile stage_;
  KVMmaOp op_;
  TileCopy copy_;
  std::optional<TileWidening> widening_;
};

}  // namespace kiln::sm80
