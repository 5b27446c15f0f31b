// Rotary columns of a type of their own at the end of each row of the cache (`rope`, layout `tail`).
#pragma once

#include <kiln/config.hpp>

namespace kiln {

inline bool has_rope_tail(const Config& config) {
  return config.rope && config.rope->layout == "tail";
}

/// Columns of K in `kv_dtype`, of a config with its defaults.
inline int k_columns(const Config& resolved) {
  return has_rope_tail(resolved) ? resolved.depth - *resolved.rope_depth : resolved.depth;
}

/// Elements of `kv_dtype` from the first column read of a row to the end of the last, of a tail in whole 16
/// bytes.
inline int row_elements(const Config& resolved) {
  if (!has_rope_tail(resolved)) return resolved.depth;
  const int bytes =
      *resolved.rope->padded_depth + *resolved.rope_depth * static_cast<int>(size_of(*resolved.rope->dtype));
  return (bytes + 15) / 16 * 16 / static_cast<int>(size_of(*resolved.kv_dtype));
}

}  // namespace kiln
