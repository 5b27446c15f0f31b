// Rounded division of non-negative integers.
#pragma once

namespace kiln {

constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
constexpr int align_up(int a, int b) {
  return ceil_div(a, b) * b;
}

}  // namespace kiln
