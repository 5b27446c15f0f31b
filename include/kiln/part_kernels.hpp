// Kernels for a part of a sequence: some of its query rows against some of its keys, wherever both stand in the whole.
// What several devices (context_parallel.hpp), or several launches of one, compute of a sequence is merged by the
// log-sum-exps.
#pragma once

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// The kernel of a `config` for parts: of ragged prefill, or of decode. Launches give AttentionArgs::seqlens_k (prefill)
/// or query_ends (decode), i32 [batch]: the key position behind the last query row, counted from the part's first key:
///
///   query_ends[b] = (first query row + number of query rows) - first key, both in the whole sequence
///
/// Ordinary kernels put that at the number of keys. It may be negative (every key is hidden: O = 0, LSE = -inf) or more
/// than the part has. Causal masks, windows and ALiBi go by it, and KV tiles that are hidden wholly are not read (of
/// decode: those before the first query's first key; one at least is); chunks are counted from the part's first key,
/// which is a multiple of the chunk's length. A config without any of these gets the ordinary kernel, which takes no
/// such positions.
/// Throws Error: bad_config, bad_input for what has no such kernel (other operands of prefill, custom masks, score
/// expressions).
KernelSource make_part_kernel(const Config& config);

/// Combines `parts` results of the same rows (1 to 64) into one by their log-sum-exps, in FP32 and in the order of
/// memory. A part is [rows, heads, ov_depth] of f32, then [heads, rows] f32 of log-sum-exps, and the next part follows.
/// With `accumulate`, O and LSE take in the parts, before which they come, and O is f32; else they are overwritten and
/// O has the config's out_dtype. A row that saw no key in any part has O = 0, LSE = -inf; NaN stays NaN. The parts are
/// those of kernels without sinks: of a config with `sink` the result takes in AttentionArgs::sink, but not with
/// `accumulate`.
/// Launched with Q = the parts as f32 [rows, heads, ov_depth], O of that shape, both dense, K and V = Q, and
/// LSE [heads, rows]. `ov_depth` is a multiple of 4.
/// Throws Error (bad_input) for what it does not do.
KernelSource make_part_merge_kernel(const Config& config, int parts, bool accumulate);

}  // namespace kiln
