// Scales of a quantised operand: one number for each group of stored values, which it multiplies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <kiln/config.hpp>

#include "generator/config/quantization.hpp"

namespace kiln {

struct Scales {
  using Granularity = Quantization::Granularity;
  Quantization quantization;
  std::int64_t heads = 1, depth = 1;
  std::vector<float> values;  ///< [1], [heads], [requests, heads], [total, heads] or [total, heads, groups]
  std::vector<std::int64_t> starts =
      {};            ///< of scales per sequence: first token of each request, and how many in all
  float factor = 1;  ///< of all of them, beside fp4_e2m1

  /// Scales of a head's row.
  std::int64_t groups() const {
    const std::int64_t block = quantization.block;
    return quantization.granularity == Granularity::per_block ? (depth + block - 1) / block : 1;
  }
  bool by_token() const { return scales_by_row(quantization); }
  bool by_sequence() const { return quantization.granularity == Granularity::per_sequence; }
  std::size_t index(std::int64_t token, std::int64_t head, std::int64_t d) const {
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    switch (quantization.granularity) {
      case Granularity::per_tensor:
        return 0;
      case Granularity::per_head:
        return at(head);
      case Granularity::per_sequence: {
        const auto after = std::upper_bound(starts.begin(), starts.end(), token);
        return at((after - starts.begin() - 1) * heads + head);
      }
      case Granularity::per_token:
        return at(token * heads + head);
      case Granularity::per_block:
        break;
    }
    return at((token * heads + head) * groups() + d / quantization.block);
  }
  double at(std::int64_t token, std::int64_t head, std::int64_t d) const {
    return static_cast<double>(values[index(token, head, d)]) * factor;
  }
};

/// How many scales an operand of `tokens` rows has.
std::size_t scale_count(const Scales& shape, std::int64_t tokens);

/// Quantises [tokens, heads, depth] values in place: each group's scale takes its largest magnitude to the
/// largest of `dtype`, values become what `dtype` stores of value / scale. `starts`: of scales per sequence.
Scales quantize(const Quantization& quantization, DType dtype, std::int64_t heads, std::int64_t depth,
                std::span<float> values, std::vector<std::int64_t> starts = {});

}  // namespace kiln
