// OnlineSoftmax of one row a thread, whose scores `s` came from tensor memory: no lanes share a row, so nothing is
// shuffled. The rest is as in online_softmax.hpp: unscaled scores, the factor in the exponent, steep rows, a maximum
// that stays while it grows by little. The kernel's text is templates/sm100_prefill.cuh; these are its unrolled parts.
#pragma once

#include <string>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"

namespace kiln::sm100 {

class RowSoftmax {
 public:
  struct Shape {
    int keys = 0;  ///< of a tile
    std::string scale_log2 = "scale_log2";
  };
  explicit RowSoftmax(const Shape& shape) : shape_(shape) {}

  static void use(Prelude& prelude);
  /// `const float tile_max`.
  void emit_max(Writer& w) const;
  /// `steep` off every score.
  void emit_subtract(Writer& w) const;
  /// P of keys [begin, end), multiples of 32, to its columns of tensor memory, from `s_at` on.
  void emit_exp(Writer& w, int begin, int end) const;

 private:
  Shape shape_;
};

}  // namespace kiln::sm100
