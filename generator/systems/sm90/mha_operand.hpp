// MHAOperand on sm_90a: where the rows of a KV tile lie, as coordinates of a tensor map.
// K and V are two tensors that share table and lengths.
//
//   kind        tensor map axes                      coordinates of row t of sequence b
//   contiguous  depth, seq, head, batch              d, t, h, b
//   ragged      depth, seq (all rows), head, batch   d, k_start + t, h, 0
//   paged       depth, seq (rows of a page), head, page   d, t % page_size, h, page_table[b][t / page_size]
//   continuous  depth, seq (rows of a block), head, page  d, t, h, page_table[b][0]
//
// Under tma_fold the columns are an axis of panels, and a box has several: after the rows, all of a panel's before the
// next panel's ("chunk_outer"), or between eights of rows ("chunk_inner"). The latter leaves one axis of five for pages
// and rows:
//
//   columns, row of eight, panel, eight of rows, head    0, 0, panel, page * page_eights + t % page_size / 8, h
//
// where page_eights, the eights of rows from one page to the next, is a parameter of the kernel, for each of K and V.
//
// Under gather4 (sm_100a) the map has the columns of all heads and the rows of all pages, and one instruction brings four
// rows by their numbers:
//
//   columns, rows    d + h * head_columns, page * page_rows + t % page_size * token_rows
//
// where a row of the map is the longest step that both pages and tokens are whole numbers of; pages of one row are rows.
//
// Of scales by head and token the same without depth; those of ragged rows, which begin anywhere, are not
// copied as tiles.
//
// A tile of BN keys is num_pages boxes of eff_page rows. Rows past the tensor and pages outside [0,
// num_pages) read as zeros, which the copy engine guarantees: a bad table entry never becomes a wild access.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>
#include "generator/config/unsupported.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/mha_operand_constants.hpp"

namespace kiln::sm90 {

/// Emitted expressions of the sequence at hand.
struct OperandNames {
  std::string batch = "s.batch", kv_head = "s.kv_head", k_start = "s.sequence.k_start",
              seqlen_k = "s.sequence.seqlen_k", heads_kv = "problem.heads_kv";
};

/// Resolves tma_fold: "none" unless asked for what `K` or `V` panels of a box say is done, and refused, with the
/// reason, where neither is: `read_by_threads` where that is the reason of chunk_inner.
void resolve_fold(Config& config, int k_fold, int v_fold, const char* read_by_threads,
                  const Refusals& refuse);

/// Where the scales of a tile's keys go.
struct ScaleSlot {
  std::string tensor;    ///< "k" or "v"
  int groups;            ///< of a row; those of one group of all keys lie side by side
  int offset;            ///< in shared memory, of slot 0
  std::string stage;     ///< the slot
  bool by_head;          ///< those of a head are contiguous
  int slot_bytes = 0;    ///< from one slot to the next; 0: as many as the scales of a tile take
  bool by_loop = false;  ///< over the groups, where registers are short
};

/// Where scales go that come as a tile.
struct ScaleTile {
  const char* name;     ///< k or v
  std::string at;       ///< shared address of the slot
  std::string barrier;  ///< that counts the bytes
  std::string policy;   ///< of L2
};

class MHAOperand {
 public:
  /// `page_size`: of paged operands. `box_rows`: rows of a box where those of eff_page are too many, else 0.
  MHAOperand(OperandKind kind, int page_size, int BN, OperandNames names = {}, int box_rows = 0)
      : kind_(kind), page_size_(page_size), BN_(BN), box_rows_(box_rows), names_(std::move(names)) {}

  bool table() const { return operand_form(kind_).table(); }
  int paged_rows() const { return operand_form(kind_).pages() ? page_size_ : 0; }
  int eff_page() const {
    return gathers() ? kGathered : box_rows_ > 0 ? box_rows_ : piece_rows(BN_, paged_rows());
  }
  int num_pages() const { return BN_ / eff_page(); }
  /// Rows of a box: the documented kv_sub_tile_rows, and of pages that neither divide a tile nor are whole
  /// tiles, which it does not know, the most that no page end and no tile end cuts.
  static int piece_rows(int BN, int page_size) {
    const bool whole = page_size == 0 || BN % page_size == 0 || page_size % BN == 0;
    return whole ? kv_sub_tile_rows(BN, page_size) : std::gcd(BN, page_size);
  }

  /// Rows come four an instruction, those of `tensors` ("k", "v", "k_rope").
  void set_gather4(std::vector<std::string> tensors) { gathered_ = std::move(tensors); }
  bool gathers() const { return !gathered_.empty(); }
  static constexpr int kGathered = 4;  ///< rows of an instruction

  /// Tensor map of K or V in panels of `panel_columns` columns, `fold` of them in one box.
  TensorMapSpec map(int panel_columns, int span_bytes, int l2_promotion_bytes, int fold = 1) const;
  /// Kernel parameters beyond the maps, in order: `k_fold` and `v_fold` panels are in a box.
  std::vector<KernelParam> params(int k_fold = 1, int v_fold = 1) const;

  /// populate: by all lanes of a warp, `const int page = ...` of tile `n`, of which lane i keeps piece i (and
  /// i + 32 in page_1, ...). Nothing for operands without a table.
  void emit_populate(Writer& w, const std::string& n) const;
  /// The same in a loop over the tiles from `first` on, after emit_lookup before the loop: with one load for
  /// as many tiles as have 32 pages together, where that is more than one, as many tiles before they are
  /// needed.
  void emit_lookup(Writer& w, const std::string& first) const;
  void emit_populate_ahead(Writer& w, const std::string& n, const std::string& first) const;
  /// The same for one tile, by the load that emit_lookup makes for it.
  void emit_populate_first(Writer& w, const std::string& n) const;
  /// Coordinates after the depth column of the piece that this lane issues, `row` and `page` as populate left
  /// them.
  std::string coordinates(const std::string& n, int round) const;
  /// Folds are in the chunk-inner form.
  void set_chunk_inner() { chunk_inner_ = true; }
  /// Panels of one box under `tma_fold`, which is filled in: those of a chunk of `columns` columns of rows of
  /// `depth`.
  int fold(const Config& config, int element_bytes, int span_bytes, int columns, int depth) const;
  /// Of those, panels whose eights of rows lie side by side in shared memory.
  int inner(int fold) const { return chunk_inner_ ? fold : 1; }
  /// All coordinates of a box of `tensor`, from column `panel` * `panel_columns` on, where a box has `fold` panels.
  std::string box_coordinates(const char* tensor, const std::string& n, int round, int panel,
                              int panel_columns, int fold) const;
  /// Whose barrier counts the bytes of a copy: this block's, or the first's of a pair (sm_100a).
  enum class Counted { here, by_pair };
  /// Sections that copy() calls for.
  void use_copies(Prelude& prelude, Counted counted = Counted::here) const;
  /// Before the copies of a tile of `tensor`: the numbers of this lane's rows, where they are gathered. Those of a tail of
  /// K's rows, whose elements are of `tail_bytes`, are K's.
  void emit_rows(Writer& w, const std::string& tensor, int k_bytes = 0, int tail_bytes = 0) const;
  /// The copy of piece lane + 32 * `round` of tile `n`, from `column` on, to shared address `to`.
  std::string copy(const std::string& to, const std::string& tensor, const std::string& barrier,
                   const std::string& column, const std::string& n, int round, const char* policy,
                   Counted counted = Counted::here) const;
  std::string copy(const std::string& to, const std::string& tensor, const std::string& barrier, int column,
                   const std::string& n, int round, const char* policy,
                   Counted counted = Counted::here) const {
    return copy(to, tensor, barrier, std::to_string(column), n, round, policy, counted);
  }
  /// Condition under which this lane issues a box, and how many boxes a lane may have.
  std::string issues(int round) const;
  /// Lines of the lanes that have a box in a round; emitted, what such a lane adds to the address of the first of them.
  void emit_boxes(Writer& w, int round, const std::vector<std::string>& lines) const;
  std::string own_piece(int piece_bytes) const {
    return num_pages() > 1 ? " + lane * " + std::to_string(piece_bytes) : "";
  }
  int rounds() const { return (num_pages() + 31) / 32; }

  /// create_scale_tma_tile: the map of a tensor of scales by head and token.
  TensorMapSpec scale_map() const;
  /// Whether tiles of it can be copied: pieces begin at whole 128 bytes of shared memory and at whole 16 of
  /// global memory, and are not so small that there are many.
  bool maps_scales() const {
    return !operand_form(kind_).ragged_k() && (eff_page() % 32 == 0 || eff_page() == 16);
  }
  /// Bytes in shared memory from one piece of such a tile to the next, and of all of it.
  int scale_piece_bytes() const { return (4 * eff_page() + 127) / 128 * 128; }
  int scale_tile_bytes() const { return num_pages() * scale_piece_bytes(); }
  /// Byte of the scale of key `key` in such a tile.
  int scale_byte(int key) const { return key / eff_page() * scale_piece_bytes() + key % eff_page() * 4; }

  /// The piece of the scales of tile `n` that this lane copies; inside issues(0).
  void emit_copy_scales(Writer& w, const std::string& n, const ScaleTile& to) const;

  /// cp.async of the scale of every key of tile `n`, zeros past the sequence, by all lanes of a warp after
  /// populate; BN is a multiple of 32.
  void emit_load_scales(Writer& w, const std::string& n, const ScaleSlot& to) const;

  /// Documented constants.
  nlohmann::ordered_json constants(int element_bytes, int swizzle_bytes, int depth, int fold_chunks) const;

  /// Of gather4: the columns of a box (`box_columns` where there is no swizzle) and the instructions of a tile.
  nlohmann::ordered_json gather_constants(int element_bytes, int swizzle_bytes, int columns,
                                          int box_columns) const;

 private:
  /// A row by the rows of a page, '/' or '%'.
  std::string by_page(const std::string& row, char operation) const;
  // Of rows that are gathered (mha_operand_gather.cpp).
  int entries() const;  ///< of the page table, for the rows of an instruction
  std::string entry_names(const char* prefix) const;
  std::string entry_of(int i, const std::string& first_key) const;
  void emit_first_key(Writer& w, const std::string& n) const;
  void emit_places(Writer& w) const;
  void emit_gathered_populate(Writer& w, const std::string& n) const;
  void emit_gathered_ahead(Writer& w, const std::string& n) const;
  void emit_gathered_first(Writer& w, const std::string& first) const;
  void emit_gathered_page(Writer& w, int first) const;
  void emit_look_up(Writer& w, const char* into, const std::string& n) const;
  void emit_page_of(Writer& w, const std::string& n, const std::string& from) const;
  bool looks_ahead() const { return operand_form(kind_).pages() && num_pages() <= 16 && !gathers(); }
  OperandKind kind_;
  int page_size_;
  int BN_, box_rows_;
  bool chunk_inner_ = false;
  std::vector<std::string> gathered_;
  OperandNames names_;
};

}  // namespace kiln::sm90
