// One launch's numbers: read off the tensors, checked against the manifest, in the terms that roles and grids
// use.
#pragma once

#include <cstdint>

#include <kiln/runtime.hpp>

namespace kiln {

struct Problem {
  std::int64_t batch = 0, heads_q = 0, heads_kv = 0;
  std::int64_t seqlen_q = 0, seqlen_k = 0;  ///< the longest, for ragged operands
  std::int64_t total_q = 0, total_k = 0;    ///< rows of all sequences
  std::int64_t num_m_blocks = 0, num_tiles = 0;
  std::int64_t section_heads = 1;  ///< query heads whose K and V fit the L2 cache together
  float scale = 0, scale_log2 = 0;
  bool ragged = false;
  bool empty() const { return num_tiles == 0; }
};

/// Throws Error (bad_input) with one line per rule that `args` breaks.
Problem make_problem(const Manifest& manifest, const AttentionArgs& args);

}  // namespace kiln
