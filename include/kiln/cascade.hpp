// Shared-prefix (cascade) decode: sequences that begin with the same pages have those keys read once for all
// of them. Three launches:
//
//   prefixes   the queries of all sequences of a group against the keys they share, as the rows of one item
//   suffixes   each sequence against its own keys
//   merge      both results of a row, by their log-sum-exp
//
// The first two do not depend on each other. On sm_90a they share the multiprocessors, one computing while
// the other reads, where a block of each fits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <kiln/cascade_kernels.hpp>
#include <kiln/config.hpp>
#include <kiln/runtime.hpp>

namespace kiln {

/// Neighbouring sequences that share the keys [0, keys): whole pages, named by the same table entries.
struct PrefixGroup {
  std::int64_t first = 0, count = 1, keys = 0;
  bool operator==(const PrefixGroup&) const = default;
};

/// The batch on the host: `table` [batch, max_pages], lengths with new tokens included.
struct PagedShape {
  std::span<const std::int32_t> table;
  std::int64_t max_pages = 0, page_size = 0;
  std::span<const std::int64_t> lengths_q, lengths_k;
};

/// Groups of a batch, in order; every sequence is in one. A sequence joins the group before it when at least
/// `min_keys` shared keys are left then; new tokens are never shared. O(batch * max_pages).
std::vector<PrefixGroup> find_prefix_groups(const PagedShape& shape, std::int64_t min_keys = 1024);

/// Configs of the two decode launches that stand for one of `config`. Throws Error (bad_input) for what does
/// not split by keys (windows, other operands than paged).
struct CascadeConfigs {
  Config prefix, suffix;
  /// A block of each fits a multiprocessor: the suffixes may run beside the prefixes.
  bool side_by_side = false;
};
CascadeConfigs cascade_configs(const Config& config);

/// The kernels, tables and buffers of a batch. Memory is taken once, so that launches captured in a graph can
/// be replayed after update().
class Cascade {
 public:
  /// `config`: a paged decode config. At most `max_batch` sequences of `max_pages` pages, `max_rows` query
  /// rows.
  Cascade(Runtime& runtime, const Config& config, std::int64_t max_batch, std::int64_t max_pages,
          std::int64_t max_rows, std::int64_t heads_q);

  /// Tables and lengths of the batch, divided by `groups`. Throws Error (bad_input) when they do not fit the
  /// batch or sequences of a group name different pages.
  void update(const PagedShape& shape, std::span<const PrefixGroup> groups);

  /// The launches. Of `args` q, k, v, o, scale, scales and sink are taken; lengths and tables are those of
  /// update(). `prefixes` and `suffixes` in either order, `merge` after both.
  std::shared_ptr<const EmulationReport> prefixes(const AttentionArgs& args,
                                                  const LaunchOptions& options = {});
  std::shared_ptr<const EmulationReport> suffixes(const AttentionArgs& args,
                                                  const LaunchOptions& options = {});
  std::shared_ptr<const EmulationReport> merge(const AttentionArgs& args, const LaunchOptions& options = {});
  /// All three on one stream, prefixes and suffixes side by side where that goes; `options` as the launch
  /// before the three has it. The reports of those that ran on the emulated device.
  std::vector<std::shared_ptr<const EmulationReport>> launch(const AttentionArgs& args,
                                                             const LaunchOptions& options = {});

  /// After merge(): f32 [heads_q, rows].
  Tensor lse() const;
  /// Memory that lse() begins.
  const DeviceBuffer& lse_buffer() const { return lse_; }

 private:
  AttentionArgs prefix_args(const AttentionArgs& args) const;

  std::shared_ptr<Kernel> prefix_, suffix_, merge_;
  bool side_by_side_ = false;
  int num_sms_ = 0;
  std::int64_t max_batch_, max_pages_, max_rows_, heads_q_, ov_depth_;
  DType out_dtype_;
  std::int64_t batch_ = 0, groups_ = 0, rows_ = 0, page_size_ = 0;
  std::int64_t longest_group_ = 0, longest_prefix_ = 0, longest_q_ = 0, longest_suffix_ = 0;
  /// i32: offsets of groups and sequences, keys of prefixes and suffixes, tables of both
  DeviceBuffer group_offsets_, offsets_, prefix_keys_, suffix_keys_, prefix_table_, suffix_table_;
  DeviceBuffer prefix_o_;  ///< [rows, heads_q, ov_depth]
  DeviceBuffer lse_;       ///< of the suffixes, then of the prefixes
};

}  // namespace kiln
