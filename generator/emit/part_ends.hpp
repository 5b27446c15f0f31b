// The kernel that finds where queries stand among a rank's keys (AttentionArgs::query_ends), where the parts of sequences
// follow one another in the order of ranks.
#pragma once

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// query_ends[b] is the number of keys of sequence b on this rank and those after it. Launched with i32 behind tensors of
/// f32: Q [1, batch, 1, 4] has the lengths of the first of these ranks (of ragged operands cu_seqlens_k, batch + 1
/// numbers), its stride `seq` is the distance to the next rank's, and K [1, 1, 1, 4] has the number of ranks as
/// stride `head`. O [1, batch, 1, 4], of which the first `batch` numbers are written.
KernelSource make_part_ends_kernel(const Config& config);

}  // namespace kiln
