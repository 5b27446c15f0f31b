// A product of a whole tile: all strips that a KVBuffer has in LDS, in chunks whose fragments fit a few
// registers.
#pragma once

#include <vector>

#include "generator/systems/cdna/kv_buffer.hpp"
#include "generator/systems/cdna/row_scales.hpp"

namespace kiln::cdna {

/// One product of a tile: C += A B over all strips that `buffer` has in LDS at byte `lds_offset`.
struct Product {
  const KVBuffer& buffer;
  int lds_offset = 0;
  const char *b = "", *c = "";
  bool first = false;               ///< the first step overwrites C
  int first_operand = 0;            ///< in B
  int first_output = 0;             ///< in C
  int first_strip = 0, strips = 0;  ///< a part of the strips; 0: all
};
void emit_product(Writer& w, const Product& product);
/// S' = K Q' over a whole tile: where parts of K's rows have scales of their own, part by part.
/// S' += K_rope Q' over K's columns in a tensor of their own, which follow `strips` strips of the others.
void emit_rope_product(Writer& w, const KVBuffer& rope, int lds_offset, int strips);
void emit_scores_product(Writer& w, const Product& product, const RowScales& scales,
                         const ScoreLayout& scores);

/// Output columns of `cols`, in slices of `slice` columns whose fragments are read one after the other; empty
/// when they do not divide.
std::vector<ColumnGroup> sliced_columns(const Mfma& mfma, int cols, int slice, bool block = false);
/// Columns of one slice: all of them while their fragments take few registers.
int slice_columns(const Mfma& mfma, int cols);

}  // namespace kiln::cdna
