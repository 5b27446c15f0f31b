// What the granularities of scales have in common.
#pragma once

#include <kiln/config.hpp>
#include <optional>

namespace kiln {

/// Rows of K and V have scales of their own, one or several each.
inline bool scales_by_row(const std::optional<Quantization>& quantization) {
  return quantization && quantization->granularity >= Quantization::Granularity::per_token;
}

/// Scales per token of which those of a head are contiguous: [.., heads, tokens].
inline bool scales_by_head(const std::optional<Quantization>& quantization) {
  return quantization && quantization->layout == Quantization::Layout::head_major;
}

}  // namespace kiln
