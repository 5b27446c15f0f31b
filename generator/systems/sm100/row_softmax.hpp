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
    bool bytes = false;  ///< P is E4M3, up to 2^kTop of a row's maximum
  };
  explicit RowSoftmax(const Shape& shape) : shape_(shape) {}

  /// FP8: P up to 2^5 leaves what grows by 2^3 far below 448, and keeps what is small 2^11 above the least E4M3.
  static constexpr int kTop = 5;
  /// Powers of two by which a maximum may grow while the old one stays.
  int threshold() const { return shape_.bytes ? 3 : 8; }

  void use(Prelude& prelude) const;
  /// `const float tile_max`.
  void emit_max(Writer& w) const;
  /// Every score times `factor`.
  void emit_scale(Writer& w, const std::string& factor) const;
  /// `steep` off every score.
  void emit_subtract(Writer& w) const;
  /// P of keys [begin, end), multiples of 32, to its columns of tensor memory, from `s_at` on.
  void emit_exp(Writer& w, int begin, int end) const;

 private:
  Shape shape_;
};

}  // namespace kiln::sm100
