// Text files built into the library, so that one binary needs no folder beside it.
#pragma once

#include <span>
#include <string_view>

namespace kiln {

struct EmbeddedText {
  std::string_view name;  ///< path relative to the embedded folder, "/" between parts
  std::string_view text;
};

}  // namespace kiln
