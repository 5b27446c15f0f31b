// Head rows of K and V that are longer than what a kernel reads of them (`cache_depth`, `head_dim_offset`):
// where pointers begin.
#pragma once

#include <string>

#include <kiln/config.hpp>

namespace kiln {

/// " + 64": elements from the start of a head row of K or V to the first that is read; nothing for 0.
inline std::string first_column(const Config& resolved) {
  const int offset = *resolved.head_dim_offset;
  return offset == 0 ? "" : " + " + std::to_string(offset);
}

}  // namespace kiln
