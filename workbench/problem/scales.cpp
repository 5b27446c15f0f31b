#include "workbench/problem/scales.hpp"

#include <algorithm>
#include <cmath>

#include "workbench/problem/rounding.hpp"

namespace kiln {
namespace {

/// What takes the largest magnitude of a group into the range of `dtype`. Of a power of two (OCP MX 1.0) the values'
/// exponent goes to the type's largest one, 8, and what is beyond saturates.
float scale_of_largest(float largest, DType dtype, DType scale_dtype, float factor) {
  if (dtype == DType::fp4_e2m1) return e4m3_to_float(float_to_e4m3(largest / 6.0F / factor));
  if (scale_dtype == DType::ue8m0)
    return ue8m0_to_float(static_cast<std::uint8_t>(std::max(float_to_ue8m0(largest) - 8, 0)));
  const float top = dtype == DType::int8 ? 127.0F : dtype == DType::fp8_e4m3fnuz ? 240.0F : 448.0F;
  return largest > 0 ? largest / top : 1.0F;
}

}  // namespace

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
  if (dtype == DType::fp4_e2m1 && !scales.values.empty()) {
    // The largest scale becomes the largest E4M3.
    const float largest = *std::max_element(scales.values.begin(), scales.values.end());
    scales.factor = largest > 0 ? largest / (6.0F * 448.0F) : 1.0F;
  }
  for (float& scale : scales.values)
    scale = scale_of_largest(scale, dtype, quantization.scale_dtype, scales.factor);
  for (std::int64_t i = 0; i < count; ++i) {
    float& value = values[static_cast<std::size_t>(i)];
    const float scale = scale_of(i) * scales.factor;
    value = scale != 0 ? value / scale : 0.0F;  // a block too small for any scale
  }
  round_to(dtype, values);
  return scales;
}

}  // namespace kiln
