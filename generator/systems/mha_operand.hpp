// MHAOperand by pointers: where the rows of K and V lie, for kernels that copy row by row
// (cp.async, LDS copies) instead of by tensor map. K and V are two tensors that share table and lengths.
//
//   kind        row t of sequence b, in elements from the head's first row of the tensor
//   contiguous  b * stride_batch + t * stride_seq
//   ragged      (k_start + t) * stride_seq
//   paged       page_table[b][t / P] * stride_page + t % P * stride_seq      any P from 1
//   continuous  page_table[b][0] * stride_page + t * stride_seq
//
// A tile is cut into chunks: runs of rows that never cross a page wherever the tile starts (`chunk_rows`, the
// largest power of two that divides page and tile). populate looks the chunks of a tile up once, one by each
// lane, a coalesced read of the table. Pages outside the pool count as no rows at all: a bad entry reads as
// zeros and never becomes a wild access.
#pragma once

#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>
#include <nlohmann/json.hpp>
#include "generator/emit/writer.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/mha_operand_constants.hpp"

namespace kiln {

class MHAOperand {
 public:
  /// `page_size`: of paged operands. `tile_rows`: rows that are looked up together, a power of two, each tile
  /// starting at a multiple of it.
  MHAOperand(OperandKind kind, int page_size, int tile_rows);

  OperandKind kind() const { return kind_; }
  bool table() const { return operand_form(kind_).table(); }
  bool paged() const { return operand_form(kind_).pages(); }
  int chunk_rows() const { return chunk_rows_; }
  int chunks() const { return tile_rows_ / chunk_rows_; }

  /// Kernel parameters of table and pool, then of K and V: pointers and strides.
  std::vector<KernelParam> params() const;

  /// block_paged_ptr without its row: `const u16* NAME_base`, the tensor at the head and, where there is no
  /// table, the sequence. `column` is the lane's first element of the row.
  std::string base(const std::string& name, const std::string& batch, const std::string& k_start,
                   const std::string& kv_head, const std::string& column) const;
  /// populate: an int expression, of all lanes: the page of chunk `chunk` of the tile whose first row is
  /// `first_row`; -1 for a chunk at or past `length` rows, or outside the pool. 0 where there is no table.
  std::string populate(const std::string& batch, const std::string& first_row, const std::string& chunk,
                       const std::string& length) const;
  /// Device functions that populate's expression calls.
  void emit_functions(Writer& w) const;
  /// Element offset of a row on `page`: row `row` of the sequence (an int expression).
  std::string row_offset(const std::string& name, const std::string& page, const std::string& row) const;
  /// The row inside its page.
  std::string row_in_page(const std::string& row) const;

  /// Documented constants of a tile of `BN` keys.
  nlohmann::ordered_json constants(int BN, int element_bytes, int depth) const;

 private:
  OperandKind kind_;
  int page_size_, tile_rows_, chunk_rows_;
};

}  // namespace kiln
