// What the granularities of scales have in common.
#pragma once

#include <kiln/config.hpp>
#include <optional>
#include <string>

namespace kiln {

/// Rows of K and V have scales of their own, one or several each.
inline bool scales_by_row(const std::optional<Quantization>& quantization) {
  return quantization && quantization->granularity >= Quantization::Granularity::per_token;
}

/// A format whose numbers have a scale of a byte for each block of a row.
struct BlockFormat {
  const char* name;
  DType element, scale;
  int block;  ///< numbers of a scale
};
inline constexpr BlockFormat kBlockFormats[] = {{"MXFP8", DType::fp8_e4m3, DType::ue8m0, 32},
                                                {"NVFP4", DType::fp4_e2m1, DType::fp8_e4m3, 16}};

/// Scales of a byte within a row: they go into the 16-bit numbers that stored ones become.
inline bool has_block_scales(const std::optional<Quantization>& quantization) {
  return quantization && quantization->scale_dtype != DType::f32;
}

/// Such scales that are powers of two.
inline bool has_powers(const std::optional<Quantization>& quantization) {
  return quantization && quantization->scale_dtype == DType::ue8m0;
}

/// Scales per token of which those of a head are contiguous: [.., heads, tokens].
inline bool scales_by_head(const std::optional<Quantization>& quantization) {
  return quantization && quantization->layout == Quantization::Layout::head_major;
}

/// Emitted index of the one scale of a head of a sequence.
inline std::string scale_of_head(const Quantization& quantization, const std::string& batch,
                                 const std::string& head) {
  using Granularity = Quantization::Granularity;
  if (quantization.granularity == Granularity::per_sequence) return batch + " * heads_kv + " + head;
  return quantization.granularity == Granularity::per_head ? head : "0";
}
/// Of Q's scale, which has no head where K's are not per sequence.
inline std::string scale_of_query(const Quantization& quantization, const std::string& batch,
                                  const std::string& head) {
  return quantization.granularity == Quantization::Granularity::per_sequence
             ? scale_of_head(quantization, batch, head)
             : "0";
}

}  // namespace kiln
