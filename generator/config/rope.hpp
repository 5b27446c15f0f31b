// Rotary columns apart from the others (`rope`): of a type of their own at the end of each row of the cache
// (layout `tail`), or in a tensor of their own (`separate`).
#pragma once

#include <kiln/config.hpp>

namespace kiln {

inline bool has_rope_tail(const Config& config) {
  return config.rope && config.rope->layout == "tail";
}

inline bool has_rope_tensor(const Config& config) {
  return config.rope && config.rope->layout == "separate";
}

/// Columns of K in `kv_dtype`, those of its own tensor, of a config with its defaults.
inline int k_columns(const Config& resolved) {
  return resolved.rope ? resolved.depth - *resolved.rope_depth : resolved.depth;
}

/// Columns of one tile of K in shared memory: rotary ones in a tensor of their own lie behind the others, apart where V
/// is read from K; on sm_100a only beside bytes.
inline int tile_columns(const Config& resolved) {
  const bool beside =
      !resolved.v_from_k.value_or(false) ||
      (is_blackwell(resolved.target) && size_of(resolved.kv_dtype.value_or(resolved.dtype)) == 2);
  return has_rope_tensor(resolved) && beside ? resolved.depth : k_columns(resolved);
}

/// Elements of `kv_dtype` from the first column read of a row to the end of the last, of a tail in whole 16
/// bytes.
inline int row_elements(const Config& resolved) {
  if (!has_rope_tail(resolved)) return k_columns(resolved);
  const int bytes =
      *resolved.rope->padded_depth + *resolved.rope_depth * static_cast<int>(size_of(*resolved.rope->dtype));
  return (bytes + 15) / 16 * 16 / static_cast<int>(size_of(*resolved.kv_dtype));
}

}  // namespace kiln
