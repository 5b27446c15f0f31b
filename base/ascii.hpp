// Classes of ASCII characters: those of <cctype> depend on the locale of the program that kiln is part of.
#pragma once

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
