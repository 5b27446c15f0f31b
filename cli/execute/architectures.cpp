#include "cli/execute/architectures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace kiln::cli {
namespace {

/// The number that begins with the first digit of a text, and what follows it; 0 without one.
int number_in(std::string_view text, std::string_view* rest = nullptr) {
  const std::size_t at = text.find_first_of("0123456789");
  if (at == std::string_view::npos) return 0;
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + at, end, number);
  if (rest != nullptr) *rest = {read.ptr, static_cast<std::size_t>(end - read.ptr)};
  return read.ec == std::errc() ? number : 0;
}

}  // namespace

int architecture_number(std::string_view name) {
  std::string_view suffix;
  const int number = name.starts_with("sm_") && name.find_first_of("0123456789") == 3 && name[3] != '0'
                         ? number_in(name, &suffix)
                         : 0;
  const bool right = suffix.empty() || (suffix == "a" && number >= 90) || (suffix == "f" && number >= 100);
  return right ? number : 0;
}

std::string no_architecture(const std::string& name, std::span<const int> known) {
  std::string list, near;
  const int wanted = number_in(name);
  int distance = 0;
  for (const int number : known) {
    list += fmt::format("{}sm_{}", list.empty() ? "" : ", ", number);
    if (wanted == 0 || (!near.empty() && std::abs(number - wanted) >= distance)) continue;
    distance = std::abs(number - wanted);
    near = fmt::format(" did you mean 'sm_{}'?", number);
  }
  return fmt::format("--arch: no '{}';{} there are {}", name, near, list);
}

}  // namespace kiln::cli
