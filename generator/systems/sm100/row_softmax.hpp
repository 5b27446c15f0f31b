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
    bool bytes = false;      ///< P is E4M3, up to 2^kTop of a row's maximum
    double exp_offload = 0;  ///< share of exponentials on the FMA pipe, in whole groups of four scores
  };
  explicit RowSoftmax(const Shape& shape) : shape_(shape) {}

  /// FP8: P up to 2^5 leaves what grows by 2^3 far below 448, and keeps what is small 2^11 above the least E4M3.
  static constexpr int kTop = 5;
  /// Powers of two by which a maximum may grow while the old one stays.
  static constexpr int kBytesThreshold = 3;
  int threshold() const { return shape_.bytes ? kBytesThreshold : 8; }

  void use(Prelude& prelude) const;
  /// The largest score, to `into`.
  void emit_max(Writer& w, const char* into = "const float tile_max") const;
  /// Every score times `factor`.
  void emit_scale(Writer& w, const std::string& factor) const;
  /// `steep` off every score.
  void emit_subtract(Writer& w) const;
  /// P of keys [begin, end), multiples of 32, to its columns of tensor memory, from `s_at` on. Scores that are on the
  /// FMA pipe lie evenly among the others.
  void emit_exp(Writer& w, int begin, int end) const;
  /// FP32 instructions a score, two scores an instruction, beside the exponential that the FMA pipe takes over.
  double instructions_per_score() const { return 3 + 4.5 * shape_.exp_offload; }

 private:
  /// Emitted: what makes P of scores [i, i + 4).
  const char* exponentials(int i) const;

  Shape shape_;
};

}  // namespace kiln::sm100
