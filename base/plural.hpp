// Numbers of things, in text for people.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// "1 stage", "2 stages".
inline std::string number_of(int count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

}  // namespace kiln
