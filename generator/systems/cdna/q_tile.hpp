// Q and O of one wave on CDNA: M query rows, one to a lane of each lane group. Q stays in registers as the B
// operand of K Q^T for the whole kernel; O leaves straight from the accumulators, a lane holding runs of
// neighbouring columns of its own row. Buffer descriptors end with the rows there are, so neither needs a
// condition.
#pragma once

#include <string>
#include <vector>

#include "generator/systems/cdna/kv_mma_op.hpp"

namespace kiln::cdna {

class QTile {
 public:
  struct Shape {
    Mfma mfma;
    int depth = 0, ov_depth = 0;
    std::vector<ColumnGroup> columns;  ///< of O, from V's KVMmaOp
    std::string pack;                  ///< two floats to a register of the output type
  };
  explicit QTile(Shape shape) : shape_(std::move(shape)) {}

  int num_vectors() const { return (shape_.depth + shape_.mfma.vector_k() - 1) / shape_.mfma.vector_k(); }
  void use(Prelude& prelude) const;
  /// q_reg, from `row` (an expression, of the block's rows) on. `first`: pointer to the block's first row;
  /// `rows`: rows there are from it.
  void emit_load(Writer& w, const std::string& first, const std::string& row_bytes, const std::string& rows,
                 const std::string& row) const;
  /// O / row_sum.
  void emit_store(Writer& w, const std::string& first, const std::string& row_bytes, const std::string& rows,
                  const std::string& row) const;

 private:
  Shape shape_;
};

}  // namespace kiln::cdna
