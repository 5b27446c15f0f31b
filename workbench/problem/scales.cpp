#include "workbench/problem/scales.hpp"

#include <cmath>

#include "workbench/problem/rounding.hpp"

namespace kiln {

std::size_t scale_count(const Scales& shape, std::int64_t tokens) {
  if (shape.quantization.granularity == Scales::Granularity::per_tensor) return 1;
  if (shape.by_sequence()) return (shape.starts.size() - 1) * static_cast<std::size_t>(shape.heads);
  const auto rows = static_cast<std::size_t>(shape.by_token() ? tokens : 1);
  return rows * static_cast<std::size_t>(shape.heads * shape.groups());
}

Scales quantize(const Quantization& quantization, DType dtype, std::int64_t heads, std::int64_t depth,
                std::span<float> values, std::vector<std::int64_t> starts) {
  Scales scales{quantization, heads, depth, {}, std::move(starts)};
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t tokens = count / (heads * depth);
  scales.values.assign(scale_count(scales, tokens), 0.0F);
  const auto scale_of = [&](std::int64_t i) -> float& {
    return scales.values[scales.index(i / (heads * depth), i / depth % heads, i % depth)];
  };
  for (std::int64_t i = 0; i < count; ++i) {
    float& largest = scale_of(i);
    largest = std::fmax(largest, std::fabs(values[static_cast<std::size_t>(i)]));
  }
  const float top = dtype == DType::int8 ? 127.0F : dtype == DType::fp8_e4m3fnuz ? 240.0F : 448.0F;
  for (float& scale : scales.values) scale = scale > 0 ? scale / top : 1.0F;
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] /= scale_of(i);
  round_to(dtype, values);
  return scales;
}

}  // namespace kiln
