// Where in a config file a broken rule is: the line, with a caret under the key.
#pragma once

#include <string>
#include <string_view>

namespace kiln::cli {

constexpr std::size_t kExcerptWidth = 160;  ///< of the line that an excerpt shows

/// Cuts `line` to kExcerptWidth around column `from` (from 0) where it is longer; `from` moves along.
void cut_around(std::string& line, std::size_t& from);

/// Three lines that show the key at `pointer` ("/operand/page_size") in JSON `text`:
///    --> my.json:3:5
///   3 |   "BK": 48,
///     |   ^~~~
/// The nearest key above it where the key itself is missing; empty where there is none, as for a missing key of the
/// document.
std::string config_excerpt(std::string_view source_name, std::string_view text, std::string_view pointer);

}  // namespace kiln::cli
