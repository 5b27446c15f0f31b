// What prefill and decode of a group share: results in memory as the merge kernels take them, and launches whose
// findings are errors.
#pragma once

#include <memory>

#include <kiln/part_kernels.hpp>
#include <kiln/runtime.hpp>

#include "base/integers.hpp"

namespace kiln::parallel {

/// Floats of one result: O [rows, heads, ov_depth], then log-sum-exps [heads, rows], up to 16 bytes.
constexpr std::int64_t part_floats(std::int64_t rows, std::int64_t heads, std::int64_t ov_depth) {
  return rows * heads * ov_depth + align_up(rows * heads, 4);
}

/// Throws Error (bad_input): what decode of a group does not take.
[[noreturn]] void refuse_decode(const std::string& what);

/// Kernel::launch; findings of the emulated device are an Error (device).
void launch(Kernel& kernel, const AttentionArgs& args, const LaunchOptions& options);

/// Launches a kernel of make_part_merge_kernel over the parts at `parts`. `sink`: of a config that has one, f32 [heads].
struct MergeArgs {
  std::int64_t rows = 0, heads = 0;
  std::uint64_t parts = 0, o = 0, lse = 0, sink = 0;
};
void merge(Kernel& kernel, const MergeArgs& args, std::uint64_t stream);

/// Launches a kernel of make_placed_merge_kernel over shares of parts. Counts and distances are in floats.
struct SharesArgs {
  std::int64_t rows = 0, heads = 0;              ///< of the result
  std::uint64_t shares = 0, lses = 0;            ///< O and log-sum-exps of the first share, 16-byte addresses
  std::int64_t share_floats = 0;                 ///< from one share to the next
  std::int64_t row_floats = 0, head_floats = 0;  ///< of O
  std::int64_t lse_pitch = 0, lse_first = 0;     ///< from one head to the next; before the first row
  std::uint64_t o = 0, lse = 0, sink = 0;
};
void merge_shares(Kernel& kernel, const SharesArgs& args, std::uint64_t stream);

}  // namespace kiln::parallel
