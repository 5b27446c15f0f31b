// Rounded division of non-negative integers.
#pragma once

#include <type_traits>

namespace kiln {

template <class Integer>
constexpr Integer ceil_div(Integer a, std::type_identity_t<Integer> b) {
  return (a + b - 1) / b;
}
template <class Integer>
constexpr Integer align_up(Integer a, std::type_identity_t<Integer> b) {
  return ceil_div(a, b) * b;
}

}  // namespace kiln
