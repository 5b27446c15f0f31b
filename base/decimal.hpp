// Decimal numbers in text. strtod, stod and streams read them by the locale of the host program, where the
// point may be a comma; nothing here does.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/ascii.hpp"

namespace kiln {

struct Decimal {
  double value = 0;
  std::size_t length = 0;  ///< characters read; 0: the text does not begin with a number
};

/// The number at the beginning of `text`: [-]digits[.digits][e[+-]digits], or inf or nan. Beyond the range of
/// double it is infinite, below it zero.
inline Decimal read_decimal(std::string_view text) {
  Decimal result;
  const char* const begin = text.data();
  const auto [end, error] = std::from_chars(begin, begin + text.size(), result.value);
  if (error == std::errc::invalid_argument) return {};
  result.length = static_cast<std::size_t>(end - begin);
  if (error != std::errc::result_out_of_range) return result;
  // Which end of the range: the power of ten of the first digit that is not zero.
  const std::string_view number = text.substr(0, result.length);
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  std::int64_t power = 0;
  if (e < number.size()) {
    std::string_view digits = number.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const bool negative = digits.starts_with('-');
    // As far from zero as no length of text makes up for.
    constexpr std::int64_t kFar = std::int64_t{1} << 60;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), power).ec != std::errc())
      power = negative ? -kFar : kFar;
    power = std::clamp(power, -kFar, kFar);
  }
  const std::string_view mantissa = number.substr(0, e);
  const auto point = static_cast<std::int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  const auto first =
      static_cast<std::int64_t>(std::min(mantissa.find_first_of("123456789"), mantissa.size()));
  power += point - first;
  const double magnitude = power > 0 ? std::numeric_limits<double>::infinity() : 0.0;
  result.value = number.starts_with('-') ? -magnitude : magnitude;
  return result;
}

}  // namespace kiln
