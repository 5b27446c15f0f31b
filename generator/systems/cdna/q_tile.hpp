// Q and O of one wave on CDNA: M query rows, one to a lane of each lane group. Q stays in registers as the B
// operand of K Q^T for the whole kernel; O leaves straight from the accumulators, a lane holding runs of
// neighbouring columns of its own row. Buffer descriptors end with the rows there are, so neither needs a
// condition.
#pragma once

#include <span>
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
    std::string pack;                  ///< two floats to a register of the output type; empty: O is of floats
    std::string factor = "inv_sum";    ///< emitted name of what O is multiplied with
    /// Where several waves share the columns of O and those past `ov_depth` are none: this wave's first one.
    std::string first_column{};
  };
  explicit QTile(Shape shape) : shape_(std::move(shape)) {}

  /// Shape::pack of a type of O.
  static std::string pack_of(DType out) {
    return out == DType::f32 ? "" : out == DType::bf16 ? "pack_bf16" : "pack_fp16";
  }
  bool floats() const { return shape_.pack.empty(); }
  /// 16-byte registers of a lane, whole operands of instructions; columns past `depth` are zero, as K's are.
  int num_vectors() const {
    const int operand = shape_.mfma.packs() * shape_.mfma.vector_k();
    return (shape_.depth + operand - 1) / operand * shape_.mfma.packs();
  }
  void use(Prelude& prelude) const;
  /// q_reg: `first` points to the first row, `bytes` of it and what follows may be read, `from` is the byte
  /// offset of this lane's row.
  void emit_construct(Writer& w, const std::string& first, const std::string& bytes,
                      const std::string& from) const;
  void emit_load(Writer& w) const;
  /// O / row_sum, the same way. Offsets past `bytes` are dropped.
  void emit_store(Writer& w, const std::string& first, const std::string& bytes,
                  const std::string& from) const;

 private:
  /// Neighbouring columns as one store takes them.
  std::string stored(std::span<const std::string> values) const;
  Shape shape_;
};

}  // namespace kiln::cdna
