// A walk along the pointer through the text itself: a parsed document no longer knows where its keys were.
#include "cli/generate/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/printable.hpp"
#include "cli/output.hpp"

namespace kiln::cli {
namespace {

struct Span {
  std::size_t begin = 0, size = 0;
};

std::vector<std::string> tokens_of(std::string_view pointer) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      out.emplace_back();
    } else if (pointer[i] == '~' && i + 1 < pointer.size() && !out.empty()) {
      out.back() += pointer[++i] == '1' ? '/' : '~';
    } else if (!out.empty()) {
      out.back() += pointer[i];
    }
  }
  return out;
}

/// A cursor over JSON text that was parsed before, so it is well-formed; of any other text it stops at the end.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  void space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// A string with its quotes.
  Span string() {
    space();
    const std::size_t begin = at_;
    if (!take('"')) return {begin, 0};
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
    at_ = std::min(at_ + 1, text_.size());
    return {begin, at_ - begin};
  }
  Span value() {
    space();
    const std::size_t begin = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (depth == 0 && at_ > begin && (c == ',' || c == '}' || c == ']')) break;
      if (c == '"') {
        string();
        if (depth == 0) break;
        continue;
      }
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      ++at_;
      if (depth == 0 && (c == '}' || c == ']')) break;
    }
    return {begin, at_ - begin};
  }
  std::string_view text(Span span) const { return text_.substr(span.begin, span.size); }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// The key `name` of the object at the cursor, which then is at its value.
std::optional<Span> find_member(Cursor& cursor, std::string_view name) {
  if (!cursor.take('{')) return std::nullopt;
  do {
    const Span key = cursor.string();
    if (key.size < 2 || !cursor.take(':')) return std::nullopt;
    if (cursor.text(key).substr(1, key.size - 2) == name) return key;
    cursor.value();
  } while (cursor.take(','));
  return std::nullopt;
}

/// Element `index` of the array at the cursor.
std::optional<Span> find_element(Cursor& cursor, std::string_view index) {
  std::size_t wanted = 0;
  const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), wanted);
  if (error != std::errc() || !cursor.take('[')) return std::nullopt;
  for (std::size_t i = 0; i < wanted; ++i) {
    cursor.value();
    if (!cursor.take(',')) return std::nullopt;
  }
  Cursor ahead = cursor;
  return ahead.value();
}

}  // namespace

void cut_around(std::string& line, std::size_t& from) {
  if (line.size() <= kExcerptWidth) return;
  const std::size_t cut = from > kExcerptWidth / 2 ? from - kExcerptWidth / 2 : 0;
  line = line.substr(cut, kExcerptWidth);
  from -= cut;
}

std::string config_excerpt(std::string_view source_name, std::string_view text, std::string_view pointer) {
  Cursor cursor(text);
  std::optional<Span> found;
  for (const std::string& token : tokens_of(pointer)) {
    std::optional<Span> next = find_member(cursor, token);
    if (!next) next = find_element(cursor, token);
    if (!next) break;
    found = next;
  }
  if (!found || found->size == 0) return "";
  const std::size_t before = text.substr(0, found->begin).rfind('\n');
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  std::string line(text.substr(begin, text.find('\n', begin) - begin));
  std::replace(line.begin(), line.end(), '\t', ' ');
  const auto number =
      std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<long>(begin), '\n'));
  const std::size_t column = found->begin - begin;
  std::size_t from = column;
  cut_around(line, from);
  const std::size_t length =
      std::clamp<std::size_t>(found->size, 1, std::max<std::size_t>(line.size() - from, 1));
  const std::string margin(number.size(), ' ');
  return fmt::format("{}--> {}:{}:{}\n{} | {}\n{} | {}{}\n", margin, printable(std::string(source_name)),
                     number, column + 1, number, printable(line), margin, std::string(from, ' '),
                     bad("^" + std::string(length - 1, '~')));
}

}  // namespace kiln::cli
