// K or V kept as FP8 in memory and as 16-bit elements in LDS: every thread holds 16 bytes of the next strip
// in registers, widens them when the strip before it has been read, and writes two vectors. The values are
// exact in either 16-bit type; scales stay outside.
#pragma once

#include <string>

#include "generator/emit/prelude.hpp"
#include "generator/layout/proof.hpp"
#include "generator/systems/cdna/lds_tile.hpp"

namespace kiln::cdna {

class WideningCopy {
 public:
  struct Shape {
    std::string name;  ///< "k" or "v"
    LdsTile strip;     ///< one block of 16-bit elements
    int strips = 1;    ///< column strips of a row
    int num_threads = 0;
    int page_size = 0;  ///< rows of a page; 0: the rows of a sequence follow each other
    DType type = DType::bf16;
  };
  explicit WideningCopy(Shape shape) : shape_(std::move(shape)) {}

  void use(Prelude& prelude) const;
  /// As KVBuffer::emit_construct: `first` points to row 0 (of page 0, if paged), `row_bytes` apart.
  void emit_construct(Writer& w, int base, const std::string& first, const std::string& row_bytes,
                      const std::string& rows, const std::string& first_row) const;
  /// Starts the loads of column strip `strip`; the last one advances to the next rows.
  void emit_load(Writer& w, int strip) const;
  /// Writes what was loaded to LDS.
  void emit_store(Writer& w) const;
  /// Every vector of the strip is written once, where readers expect it.
  layout::Proof proof() const;

 private:
  int chunks() const { return shape_.strip.rows * shape_.strip.cols / 16; }
  int per_thread() const { return (chunks() + shape_.num_threads - 1) / shape_.num_threads; }
  int chunks_per_row() const { return shape_.strip.cols / 16; }
  bool guarded() const { return chunks() % shape_.num_threads != 0; }
  Shape shape_;
};

}  // namespace kiln::cdna
