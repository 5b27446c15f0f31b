#include "runtime/support/settings.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include <kiln/error.hpp>

#include "base/decimal.hpp"
#include "runtime/support/environment.hpp"

namespace kiln {

std::optional<std::uint64_t> parse_size(std::string_view text) {
  constexpr std::string_view kUnits = "kmgt";
  const Decimal number = read_decimal(text);
  std::string_view unit = text.substr(number.length);
  if (number.length == 0 || !is_ascii_digit(text[number.length - 1])) return std::nullopt;  // "inf", "1."
  double factor = 1;
  if (!unit.empty()) {
    const std::size_t power = kUnits.find(ascii_lower(unit.front()));
    if (power != std::string_view::npos) {
      factor = std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
      unit.remove_prefix(1);
      if (unit.starts_with('i') && unit.size() == 2) unit.remove_prefix(1);
    }
    if (!unit.empty() && unit != "B" && unit != "b") return std::nullopt;
  }
  const double bytes = number.value * factor;
  if (!(bytes >= 0) || bytes > 0x1p62 || (factor == 1 && bytes != std::floor(bytes))) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::uint64_t size_setting(const char* name, std::uint64_t fallback) {
  const std::string text = environment(name);
  if (text.empty()) return fallback;
  if (const auto size = parse_size(text)) return *size;
  throw Error(ErrorCode::bad_input, fmt::format("{} is '{}', which is no size; {}", name, text, kSizeForm));
}

std::int64_t integer_setting(const char* name, std::int64_t fallback, std::int64_t low, std::int64_t high) {
  const std::string text = environment(name);
  if (text.empty()) return fallback;
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end && value >= low && value <= high) return value;
  throw Error(ErrorCode::bad_input,
              fmt::format("{} is '{}', a whole number from {} to {} is wanted", name, text, low, high));
}

}  // namespace kiln
