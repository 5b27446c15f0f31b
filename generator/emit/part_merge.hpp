// The kernel that merges parts whose layout is not that of include/kiln/part_kernels.hpp: shares of results from several
// devices.
#pragma once

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// As make_part_merge_kernel without `accumulate`, bit for bit, of parts at any distance. Q is O of the first part,
/// f32 [1, rows, heads, ov_depth] with any strides. K [1, 1, 1, ov_depth] describes the log-sum-exps: their address, and
/// strides with a meaning of their own: `seq` floats from one part to the next (of O, too), `head` from one head
/// to the next, `batch` those before the first row. O and LSE are dense.
KernelSource make_placed_merge_kernel(const Config& config, int parts);

}  // namespace kiln
