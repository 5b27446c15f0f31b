// The kernel that merges parts which do not lie as include/kiln/part_kernels.hpp has them: shares of results that came
// from several devices.
#pragma once

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// As make_part_merge_kernel without `accumulate`, bit for bit, of parts that lie anywhere. Q is O of the first part,
/// f32 [1, rows, heads, ov_depth] with any strides. K [1, 1, 1, ov_depth] stands for the log-sum-exps, by its address
/// and by strides that are no others' then: `seq` floats from one part to the next (of O, too), `head` from one head
/// to the next, `batch` those before the first row. O and LSE are dense.
KernelSource make_placed_merge_kernel(const Config& config, int parts);

}  // namespace kiln
