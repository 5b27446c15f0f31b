// The register-staged way of K or V from global memory to LDS (RegTileLoader and
// RegTileWriterLDS): every thread loads pieces of the next rows, of 16 bytes, and writes them to LDS once the
// stage is free. What direct copies cannot do goes this way: rows found one by one (pages smaller than a
// copy), and FP8 or INT8 that LDS holds widened to 16 bits. The values are exact there unless scales differ
// from row to row: then LDS holds their products with them, rounded; other scales stay outside.
//
// Threads form `tr` rows of `tc` pieces; a tile of more rows takes several passes, threads past tr * tc idle.
// Pieces are 8 bytes where 16 would leave whole waves without one: each then has its share of the widening.
// The compiler tracks the loads and waits for as many as a write needs.
#pragma once

#include <string>

#include "generator/emit/prelude.hpp"
#include "generator/layout/proof.hpp"
#include "generator/systems/cdna/lds_tile.hpp"

namespace kiln::cdna {

class RegStagedCopy {
 public:
  struct Shape {
    std::string name;      ///< "k" or "v"
    LdsTile stage;         ///< of one load
    int row_columns = 0;   ///< columns of a row in memory that one load brings; LDS past them becomes zero
    int strips = 1;        ///< loads that make up a row
    int last_columns = 0;  ///< of the last of them where it is shorter; 0: it is not
    int num_threads = 0;
    int page_size = 0;  ///< rows of a page; 0: the rows of a sequence follow each other
    DType type = DType::bf16;
    bool widens = false;  ///< memory holds bytes of type `stored`, LDS `type`
    DType stored = DType::fp8_e4m3;
    bool by_hand = false;   ///< no instruction of the target knows that encoding
    int scale_columns = 0;  ///< elements of a row under one scale of its own (RowScales); 0: none
  };
  explicit RegStagedCopy(Shape shape) : shape_(std::move(shape)) {}

  void use(Prelude& prelude) const;
  /// As KVBuffer::emit_construct: `first` points to row 0 (of page 0, if paged), `row_bytes` apart.
  void emit_construct(Writer& w, int base, const std::string& first, const std::string& row_bytes,
                      const std::string& rows, const std::string& first_row) const;
  /// Starts the loads of column strip `strip`; the last one advances to the next rows.
  void emit_load(Writer& w, int strip) const;
  /// Writes what was loaded to LDS, `stage_offset` bytes past the first stage.
  void emit_store(Writer& w, int stage_offset) const;
  /// Registers that hold a load under way.
  int registers() const { return (piece_bytes() / 4 + (scaled() ? 1 : 0)) * passes(); }
  /// Loads of a thread that bring one tile: that many times `rows_at_once` rows of `pieces_a_row`.
  int loads() const { return passes(); }
  int rows_at_once() const { return tr(); }
  int pieces_a_row() const { return tc(); }
  /// A wave copies the rows from `rows` times its number on, and nobody else does.
  bool own_rows(int rows) const { return tr() == shape_.stage.rows && 64 % tc() == 0 && 64 / tc() == rows; }
  /// Every vector of a stage is written once, where readers expect it.
  layout::Proof proof() const;

 private:
  /// Bytes of memory that a thread loads at once.
  int piece_bytes() const;
  int piece_columns() const { return shape_.widens ? piece_bytes() : shape_.stage.simd(); }
  int vectors_per_piece() const { return piece_columns() / shape_.stage.simd(); }
  int tc() const { return shape_.stage.blocks() * shape_.stage.block_cols / piece_columns(); }
  int tr() const { return shape_.num_threads / tc(); }
  int passes() const { return (shape_.stage.rows + tr() - 1) / tr(); }
  int pieces_per_block() const { return shape_.stage.block_cols / piece_columns(); }
  /// Some thread has no row in pass `pass`.
  bool idles(int pass) const {
    return (pass + 1) * tr() > shape_.stage.rows || shape_.num_threads % tc() != 0;
  }
  int columns_of(int strip) const {
    return strip + 1 == shape_.strips && shape_.last_columns > 0 ? shape_.last_columns : shape_.row_columns;
  }
  /// LDS holds more columns than strip `strip` of a row in memory.
  bool pads(int strip) const { return tc() * piece_columns() > columns_of(strip); }
  bool scaled() const { return shape_.scale_columns > 0; }
  /// Which of a row's scales a thread's piece of strip `strip` has: an expression.
  std::string scale_group(int strip) const;
  /// The strip's scales are not those of the strip before, which registers still hold.
  bool loads_scales(int strip) const;
  void emit_load_paged(Writer& w, int pass, int strip, const std::string& column) const;
  Shape shape_;
};

}  // namespace kiln::cdna
