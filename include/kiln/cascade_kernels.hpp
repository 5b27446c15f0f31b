// The kernels of shared-prefix (cascade) decode, <kiln/cascade.hpp>: what is generated for its three
// launches.
#pragma once

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// The kernel of the first launch. With more than one part (`config.split_kv`, sm_90a) the keys of a prefix
/// are cut into so many, and each has O and log-sum-exps of its own, part after part in memory. Every query sees
/// every shared key: throws Error (bad_input) for a mask that hides some.
KernelSource make_prefix_kernel(const Config& config);

/// The kernel of the third launch: O (in place) and log-sum-exp of the suffixes take in those of the parts of
/// the prefixes.
KernelSource make_merge_kernel(const Config& config, int parts = 1);

}  // namespace kiln
