// KVBuffer on CDNA: one of K or V on its way global memory -> LDS -> registers. Buffer
// loads with LDS destination bring BN rows at a time into one of `num_smem_stages` stages, 16 bytes a lane on
// gfx950 and 4 bytes on gfx90a and gfx942; its KVMmaOp reads fragments.
//
// Where direct copies cannot serve, or `dma` asks for it, rows pass through registers instead
// (RegStagedCopy).
//
// The buffer owns the iterator: `NAME_next` and `NAME_rows` always describe the next tile. Its descriptor
// ends with the sequence, so rows past the end become zeros and a masked score never meets a stale NaN.
//
// A load is cut into tiles of `warp_tile_rows` rows by `bk_smem` columns, dealt to the waves round-robin;
// with more waves than tiles several share one (`worker_base`). Every wave issues exactly `vm_exact`
// instructions, which is what its waits count; where the tiles do not divide evenly that is 0 and waits
// drain.
#pragma once

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generator/layout/proof.hpp"
#include "generator/systems/cdna/kv_mma_op.hpp"
#include "generator/systems/cdna/reg_staged_copy.hpp"
#include "generator/systems/kv_buffer_constants.hpp"

namespace kiln::cdna {

class KVBuffer {
 public:
  struct Shape {
    bool transpose = true;  ///< K; false: V
    Mfma mfma;
    int BN = 0, WN = 0, BK = 0;
    int depth = 0;
    int bk_smem = 0;
    int num_threads = 0;
    int num_smem_stages = 2;
    int dma_bytes = 4;  ///< bytes a lane copies with one instruction
    LdsSwizzle swizzle{};
    /// Columns (K) or keys (V) that registers hold at once; 0: all.
    int reg_chunk = 0;
    /// Column strips that make up a row in memory, loaded one at a time (streaming decode): `depth` is that
    /// of one strip.
    int strips = 1;
    int last_columns = 0;  ///< of K's last strip where the row ends within it; 0: it does not
    /// Output columns whose fragments one wave reads; 0: all of `depth`.
    int read_columns = 0;
    /// KVMmaOp::Shape::waves
    int read_waves = 1;
    /// Columns that a row has in memory; 0: `depth`. Columns of LDS past them hold what follows there.
    int row_columns = 0;
    /// KVMmaOp::Shape::keys_in_order
    bool keys_in_order = false;
    /// KVMmaOp::Shape::block
    bool block = false;
    /// Rows of a page; 0: the rows of a sequence follow each other.
    int page_size = 0;
    /// False: a stage holds one block of bk_smem columns, loaded as strip `block`.
    bool full_kv = true;
    /// Loads pass through registers (RegStagedCopy); `widens`: memory holds bytes, LDS the type of `mfma`.
    bool reg_staged = false, widens = false;
    DType stored = DType::fp8_e4m3;  ///< of what is widened
    int scale_columns = 0;           ///< RegStagedCopy::Shape::scale_columns
    bool v_in_rows = false;          ///< K whose stage V is read from, too
    /// Offsets of copies are computed anew for every tile. Else the compiler keeps all of them in registers.
    bool fresh_offsets = false;
    /// A buffer that only reads: the stage that another one fills (V in K's columns, 2.7).
    std::optional<LdsTile> reads{};
    /// KVMmaOp::Shape::tensor
    std::string tensor{};
  };
  explicit KVBuffer(const Shape& shape);
  /// Bytes a lane may copy at once: no copy instruction straddles two pages. 0 when not even words fit, and
  /// only registers serve.
  static int dma_bytes_for(int lds_dma_bytes, int row_bytes, int page_size);

  /// Of one load: a block's where full_kv is false.
  const KVBufferConstants& derived() const { return constants_; }
  /// Loads that make up a tile.
  int blocks() const { return shape_.strips; }
  int num_k_tiles() const { return constants_.num_k_tiles; }
  /// Strips whose fragments registers hold at once.
  int reg_num_k_tiles() const { return constants_.reg_num_k_tiles; }
  int stage_bytes() const { return stage_.bytes(); }
  int bytes() const { return shape_.num_smem_stages * stage_bytes(); }
  /// Loads that a wave has in flight after load_from_dram; 0 when waves differ.
  int vm_exact() const { return constants_.vm_exact; }
  /// Whether each wave copies the very columns of V that it reads, `columns` of them, wave after wave.
  bool own_columns(int columns) const;
  /// The way through registers, if it is taken.
  const std::optional<RegStagedCopy>& staged_copy() const { return copy_; }
  /// A load passes through registers: it is complete once written by emit_store.
  bool staged() const { return copy_.has_value(); }
  int staging_registers() const { return copy_ ? copy_->registers() : 0; }
  /// K: a wave copies the very rows that it reads, and nobody else's.
  bool own_rows() const;
  /// Copy instructions in the text of one load.
  int copies() const { return constants_.tiles_per_warp * instructions_; }

  void use(Prelude& prelude) const;
  /// `base`: byte offset of stage 0 in LDS; `first`: pointer to row 0 of the sequence and head (paged: of
  /// page 0 and head); `row_bytes`: expression of the byte distance of rows; `rows`: of the sequence's
  /// length. Paged operands also need `pages` (the sequence's row of the table, in constant memory),
  /// `num_pages` and NAME_stride_page.
  /// `first_row`: expression of the first key loaded; `own`: byte offset, from `base`, of what this wave
  /// reads.
  void emit_construct(Writer& w, int base, const std::string& first, const std::string& row_bytes,
                      const std::string& rows, const std::string& first_row = "0",
                      const std::string& own_bytes = "", const std::string& own_col = "") const;
  /// The reading half alone, of a buffer whose `reads` is set.
  void emit_construct_reader(Writer& w, int base, const std::string& own_col = "") const {
    op_.emit_construct(w, std::to_string(base), own_col);
  }
  /// load_from_dram[stage]: starts the copies of strip `strip` of the iterator's tile; the last one advances.
  void emit_load_from_dram(Writer& w, int stage, int strip = 0) const;
  /// Staged: writes what was loaded last into the stage, which every wave has finished with.
  void emit_store(Writer& w, int stage) const { copy_->emit_store(w, stage * stage_bytes()); }
  /// Step `step` of load_from_shared[bk_tile] of the stage.
  void emit_load_from_shared(Writer& w, int stage, int bk_tile, int step) const;

  const KVMmaOp& kv_mma_op() const { return op_; }
  const LdsTile& stage() const { return stage_; }
  /// Matrix instructions with all strips of a stage.
  int products() const;
  nlohmann::ordered_json constants() const;
  std::vector<layout::Proof> proofs() const;

 private:
  std::string name() const { return op_.tensor(); }
  std::string title() const;  ///< in comments and proofs
  int units_per_copy() const { return 64 * shape_.dma_bytes / stage_.unit_bytes(); }
  /// Lane part and literal part of the source unit of copy `j`: their XOR, over disjoint bits but `low`.
  struct Copy {
    int low = 0, row = 0, unit = 0;
    bool operator==(const Copy&) const = default;
  };
  /// Rows of one copy tile that lie in one page.
  int rows_per_descriptor() const;
  void emit_first_row(Writer& w, const std::string& first, const std::string& rows,
                      const std::string& first_row) const;
  void emit_lane_offsets(Writer& w) const;
  void emit_copy_tile(Writer& w, int base, int t) const;
  int worker_rows() const;  ///< rows of a tile that one of its waves copies
  void emit_copies(Writer& w, int stage, int strip, int t, int first_copy, int last_copy,
                   int first_row) const;
  Copy copy(int j) const;
  int lane_unit_bits() const;
  bool copies_prove() const;

  KVBufferConstants documented_;  ///< of the whole tile, under the documented parameters
  Shape shape_;
  KVBufferConstants constants_;
  LdsTile stage_;
  KVMmaOp op_;
  std::optional<RegStagedCopy> copy_;
  int share_ = 1;         ///< waves that share one copy tile
  int instructions_ = 0;  ///< copies of one wave in one tile
};

/// Loads of a wave that a tile of K takes with its rotary columns where they have a tensor of their own; 0 where waves
/// differ.
inline int loads_of(const KVBuffer& k, const std::optional<KVBuffer>& k_rope) {
  if (!k_rope) return k.vm_exact();
  return k.vm_exact() > 0 && k_rope->vm_exact() > 0 ? k.vm_exact() + k_rope->vm_exact() : 0;
}

/// Tiles of so many blocks until the stages of a ring repeat.
inline int tiles_of_ring(int stages, int tile_blocks) {
  return stages / std::gcd(stages, tile_blocks);
}

}  // namespace kiln::cdna
