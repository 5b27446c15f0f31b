// Text of users, files and caches on its way to a terminal or a report.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace kiln {

/// `text` with a question mark for each byte of a control character, of Unicode's C1 (U+0080 to U+009F) as well:
/// terminals obey them. Line feeds and tabs stay unless `one_line`; every position stays.
inline std::string printable(std::string text, bool one_line = false) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      text[i] = text[i + 1] = '?';
    } else if ((byte < 0x20 && (one_line || (byte != '\n' && byte != '\t'))) || byte == 0x7f) {
      text[i] = '?';
    }
  }
  return text;
}

/// `text` with the middle of words of more than 240 bytes left out, as of a config that was meant to be a file's name.
inline std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 240, kBegin = 120, kEnd = 60;
  const auto inside = [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
  };  // of a UTF-8 sequence
  std::string out;
  while (!text.empty()) {
    const std::size_t size = std::max<std::size_t>(std::min(text.find_first_of(" \n\t"), text.size()), 1);
    const std::string_view word = text.substr(0, size);
    std::size_t begin = kBegin, end = size > kEnd ? size - kEnd : 0;
    if (size > kLongest) {
      while (begin > 0 && inside(word[begin])) --begin;
      while (end < size && inside(word[end])) ++end;
      out.append(word.substr(0, begin)).append("...").append(word.substr(end));
    } else {
      out.append(word);
    }
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace kiln
