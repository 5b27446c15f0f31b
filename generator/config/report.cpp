#include "generator/config/report.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/ascii.hpp"
#include "base/printable.hpp"

namespace kiln {
namespace {

constexpr std::size_t kValueLimit = 80;
constexpr std::size_t kPointerLimit = 120;
constexpr std::size_t kEditLimit = 64;  ///< longer words are not typing mistakes of a key

char lower(char c) {
  return ascii_lower(c);
}

/// Levenshtein distance, letters compared without case: "bm" is one edit away from nothing, but close to
/// "BM".
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

/// A pointer made of user's keys, fit for one line of a message.
std::string shown_pointer(std::string_view pointer) {
  std::string out = printable(std::string(pointer.substr(0, kPointerLimit)), true);
  if (pointer.size() > kPointerLimit) out += "...";
  return out;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && lower(a[n]) == lower(b[n])) ++n;
  return n;
}

}  // namespace

std::string value_text(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kValueLimit) text = text.substr(0, kValueLimit - 3) + "...";
  return text;
}

std::string child_pointer(std::string_view parent, std::string_view key) {
  std::string out(parent);
  out += '/';
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string join(std::span<const std::string_view> items, std::string_view separator) {
  std::string out;
  for (const std::string_view item : items) {
    if (!out.empty()) out += separator;
    out += item;
  }
  return out;
}

std::string_view nearest(std::string_view text, std::span<const std::string_view> items) {
  if (text.size() > kEditLimit) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, text.size() / 2);
  for (const std::string_view item : items) {
    const std::size_t distance = edit_distance(text, item);
    // "sm_90" is one edit from "sm_80" and from "sm_90a": a longer common beginning is the likelier meaning.
    const bool tie_won =
        distance == best_distance && (best.empty() || common_prefix(text, item) > common_prefix(text, best));
    if (distance < best_distance || tie_won) best_distance = distance, best = item;
  }
  return best;
}

std::string violation_line(const Violation& v) {
  std::string line = v.pointer.empty() ? std::string("(document)") : shown_pointer(v.pointer);
  line += v.value.empty() ? std::string(v.pointer.empty() ? "" : " (missing)") : " = " + v.value;
  line += ": " + v.rule;
  if (!v.suggestion.empty()) line += " (nearest legal: " + v.suggestion + ")";
  return line;
}

void throw_if_any(std::string_view source_name, const Violations& violations) {
  if (violations.empty()) return;
  std::string message;
  for (const Violation& violation : violations) {
    if (!message.empty()) message += '\n';
    message += std::string(source_name) + ": " + violation_line(violation);
  }
  throw Error(message, violations);
}

}  // namespace kiln
