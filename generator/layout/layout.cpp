#include "generator/layout/layout.hpp"

#include <cstdint>
#include <functional>
#include <numeric>

#include <kiln/error.hpp>

namespace kiln::layout {

Layout::Layout(std::vector<int> shape, std::vector<int> stride)
    : shape_(std::move(shape)), stride_(std::move(stride)) {
  if (shape_.size() != stride_.size())
    throw Error(ErrorCode::internal, "layout: shape and stride differ in rank");
}

Layout Layout::column_major(std::vector<int> shape) {
  std::vector<int> stride(shape.size(), 1);
  for (std::size_t i = 1; i < shape.size(); ++i) stride[i] = stride[i - 1] * shape[i - 1];
  return {std::move(shape), std::move(stride)};
}

Layout Layout::row_major(std::vector<int> shape) {
  std::vector<int> stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  return {std::move(shape), std::move(stride)};
}

int Layout::size() const {
  return std::accumulate(shape_.begin(), shape_.end(), 1, std::multiplies<>());
}

int Layout::operator()(std::initializer_list<int> coordinate) const {
  if (coordinate.size() != shape_.size())
    throw Error(ErrorCode::internal, "layout: coordinate of wrong rank");
  return std::inner_product(coordinate.begin(), coordinate.end(), stride_.begin(), 0);
}

int Layout::operator()(int linear) const {
  int offset = 0;
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    offset += linear % shape_[i] * stride_[i];
    linear /= shape_[i];
  }
  return offset;
}

std::vector<int> Layout::coordinate(int linear) const {
  std::vector<int> out(shape_.size());
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    out[i] = linear % shape_[i];
    linear /= shape_[i];
  }
  return out;
}

bool Layout::is_bijection() const {
  std::vector<int> offsets(static_cast<std::size_t>(size()));
  for (int i = 0; i < size(); ++i) offsets[static_cast<std::size_t>(i)] = (*this)(i);
  return is_permutation(offsets);
}

std::string Layout::to_string() const {
  const auto list = [](const std::vector<int>& values) {
    std::string text;
    for (int value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
    return "(" + text + ")";
  };
  return list(shape_) + ":" + list(stride_);
}

bool is_permutation(const std::vector<int>& offsets) {
  std::vector<std::uint8_t> seen(offsets.size());
  for (int offset : offsets) {
    if (offset < 0 || offset >= static_cast<int>(offsets.size()) ||
        seen[static_cast<std::size_t>(offset)] != 0)
      return false;
    seen[static_cast<std::size_t>(offset)] = 1;
  }
  return true;
}

}  // namespace kiln::layout
