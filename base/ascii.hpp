// Classes of ASCII characters: those of <cctype> depend on the locale of the program that kiln is part of.
#pragma once

#include <cstddef>
#include <string_view>

namespace kiln {

constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_ascii_alnum(char c) {
  return is_ascii_digit(c) || is_ascii_letter(c);
}
/// A character of a C identifier.
constexpr bool is_ascii_word(char c) {
  return is_ascii_alnum(c) || c == '_';
}
/// Position of `word` in `text` from `from` on where it is a whole word; npos: there is none.
constexpr std::size_t find_word(std::string_view text, std::string_view word, std::size_t from = 0) {
  for (std::size_t at = text.find(word, from); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_ascii_word(text[at - 1])) && (end == text.size() || !is_ascii_word(text[end])))
      return at;
  }
  return std::string_view::npos;
}
constexpr bool is_ascii_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
constexpr bool is_ascii_printable(char c) {
  return c >= ' ' && c <= '~';
}
constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace kiln
