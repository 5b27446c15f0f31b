// Terms of emitted expressions, without parentheses and zeros that say nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ascii.hpp"

namespace kiln {

/// `expression` as a factor: in parentheses unless it is a name, a member or a number.
inline std::string factor(std::string_view expression) {
  const auto in_a_word = [](char c) { return is_ascii_word(c) || c == '.'; };
  if (std::ranges::all_of(expression, in_a_word)) return std::string(expression);
  return "(" + std::string(expression) + ")";
}

/// `base + offset`; `base` alone where the offset is 0.
inline std::string plus(std::string_view base, std::int64_t offset) {
  return offset == 0 ? std::string(base) : std::string(base) + " + " + std::to_string(offset);
}

/// `base * count`; `base` alone where that is the same.
inline std::string times(std::string_view base, std::int64_t count) {
  return count == 1 ? std::string(base) : std::string(base) + " * " + std::to_string(count);
}

}  // namespace kiln
