// Head rows of K and V that are longer than what a kernel reads of them (`cache_depth`, `head_dim_offset`):
// what the manifest says of them, and where pointers begin.
#pragma once

#include <string>

#include <kiln/source.hpp>

namespace kiln {

/// Of a resolved config: the manifest's cache_depth and head_dim_offset, left out where rows are read whole.
inline void describe_rows(const Config& resolved, Manifest& manifest) {
  if (*resolved.cache_depth == resolved.depth) return;
  manifest.cache_depth = *resolved.cache_depth;
  manifest.head_dim_offset = *resolved.head_dim_offset;
}

/// " + 64": elements from the start of a head row of K or V to the first that is read; nothing for 0.
inline std::string first_column(const Config& resolved) {
  const int offset = *resolved.head_dim_offset;
  return offset == 0 ? "" : " + " + std::to_string(offset);
}

}  // namespace kiln
