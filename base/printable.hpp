// Text of users, files and caches on its way to a terminal or a report.
#pragma once

#include <string>

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

}  // namespace kiln
