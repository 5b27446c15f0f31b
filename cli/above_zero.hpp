// A check of options: a number above 0. CLI11's own says the bounds of a double where it refuses one, 300 digits.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/decimal.hpp"

namespace kiln::cli {

inline CLI::Validator above_zero() {
  return CLI::Validator(
      [](std::string& text) {
        const Decimal number = read_decimal(text);
        const bool good = number.length == text.size() && number.value > 0 && std::isfinite(number.value);
        return good ? std::string() : "'" + text + "' is not a number above 0 that fits";
      },
      "POSITIVE");
}

}  // namespace kiln::cli
