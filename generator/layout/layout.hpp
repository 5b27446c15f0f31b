// Layout: shape:stride, the plain function from a coordinate to an offset that everything else here is built
// on.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace kiln::layout {

/// One mode per dimension, fastest first (column-major): offset(c) = sum c[i] * stride[i].
///
///   shape (8, 4) : stride (1, 16)        offset of (3, 2) = 3*1 + 2*16 = 35
class Layout {
 public:
  Layout() = default;
  Layout(std::vector<int> shape, std::vector<int> stride);
  /// Dense layouts: first mode contiguous, or last mode contiguous.
  static Layout column_major(std::vector<int> shape);
  static Layout row_major(std::vector<int> shape);

  const std::vector<int>& shape() const { return shape_; }
  const std::vector<int>& stride() const { return stride_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int size() const;  ///< number of coordinates

  int operator()(std::initializer_list<int> coordinate) const;
  /// Offset of the linear index, first mode fastest.
  int operator()(int linear) const;
  std::vector<int> coordinate(int linear) const;

  /// Every offset in [0, size) is hit exactly once.
  bool is_bijection() const;
  std::string to_string() const;  ///< "(8,4):(1,16)"

 private:
  std::vector<int> shape_, stride_;
};

/// True when `offsets` is a permutation of 0 .. offsets.size()-1.
bool is_permutation(const std::vector<int>& offsets);

}  // namespace kiln::layout
