// Collects broken rules about a launch's arguments, so that a caller sees all of them at once.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <kiln/runtime.hpp>

#include "runtime/launch/problem.hpp"

namespace kiln {

inline constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

inline std::string show(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", values[i]);
  return text + "]";
}

class Checker {
 public:
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds)
      problems_ += (problems_.empty() ? "" : "\n") + fmt::format(format, std::forward<Args>(args)...);
  }
  bool ok() const { return problems_.empty(); }
  void done(const std::string& kernel) const {
    if (!ok()) throw Error(ErrorCode::bad_input, kernel + ": " + problems_);
  }

  /// Shape of the right rank with sane extents; the other rules rely on it.
  bool shaped(const char* name, const Tensor& tensor, std::size_t rank, const char* layout) {
    const bool right_rank = tensor.shape.size() == rank && tensor.strides.size() == rank;
    require(right_rank, "{} has shape {} and {} strides, {} is needed", name, show(tensor.shape),
            tensor.strides.size(), layout);
    if (!right_rank) return false;
    bool sane = true;
    std::int64_t elements = 1;
    for (std::int64_t extent : tensor.shape) {
      sane = sane && extent >= 0 && extent <= kMaxInt;
      if (sane && extent > 0) {
        sane = elements <= std::numeric_limits<std::int64_t>::max() / 16 / extent;
        elements *= sane ? extent : 1;
      }
    }
    require(sane, "{} has shape {}, extents must be 0 to {}", name, show(tensor.shape), kMaxInt);
    return sane;
  }

  void operand(const char* name, const Tensor& tensor, DType dtype, std::int64_t depth, bool mapped) {
    require(tensor.dtype == dtype, "{} is {}, the kernel takes {}", name, to_string(tensor.dtype),
            to_string(dtype));
    require(tensor.shape.back() == depth, "{} has depth {}, the kernel takes {}", name, tensor.shape.back(),
            depth);
    require(tensor.strides.back() == 1 || tensor.shape.back() == 1,
            "{} has stride {} in its last dimension, 1 is needed", name, tensor.strides.back());
    const bool empty =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>()) == 0;
    require(empty || tensor.address != 0, "{} has no memory (null address)", name);
    require(tensor.address % 16 == 0, "{} lies at {:#x}, a multiple of 16 is needed", name, tensor.address);
    for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
      const auto bytes = tensor.strides[i] * static_cast<std::int64_t>(size_of(dtype));
      require(tensor.shape[i] <= 1 || bytes % 16 == 0,
              "{} has stride {} in dimension {}, a multiple of {} is needed", name, tensor.strides[i], i,
              16 / size_of(dtype));
      require(!mapped || tensor.shape[i] <= 1 || (bytes >= 0 && bytes < (std::int64_t{1} << 40)),
              "{} has stride {} in dimension {}, 0 to 2^40 bytes can be mapped", name, tensor.strides[i], i);
    }
  }

 private:
  std::string problems_;
};

/// What serving adds: page tables, lengths on the device, scales, sinks, bit masks (problem_serving.cpp).
/// `problem` has batch, heads and lengths; for pages its seqlen_k is settled here.
void check_pages(Checker& check, const Manifest& manifest, const AttentionArgs& args, Problem& problem);
void check_scales(Checker& check, const Manifest& manifest, const AttentionArgs& args,
                  const Problem& problem);
void check_modifiers(Checker& check, const Manifest& manifest, const AttentionArgs& args, Problem& problem);

}  // namespace kiln
