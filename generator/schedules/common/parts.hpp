// Kernels of a part of a sequence (include/kiln/part_kernels.hpp): where rows stand among the part's keys is given at
// launch, as seqlens_k[batch], the key position behind the last query row.
#pragma once

namespace kiln {

/// Of the sequence `batch`: row i has key position i + seqlen_k - aligned_rows.
inline constexpr const char* kAlignedRows =
    "const int aligned_rows = seqlen_k - seqlens_k[batch] + seqlen_q;  // row i is at key i + seqlen_k - aligned_rows";

/// The plan of prefill or decode for a kernel whose keys are a part.
template <class Plan>
Plan for_part(Plan plan) {
  if constexpr (requires { plan.part = true; }) {
    plan.part = true;
  } else {
    plan.stream->take_positions();
  }
  return plan;
}

}  // namespace kiln
