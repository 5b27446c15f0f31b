// Helpers for users without an inference engine: which pages of a paged KV cache belong to which sequence.
// Pages are shared between sequences with a common prefix: they are counted, and copied before one of the
// owners writes to a page that others still read (copy on write). Host-side bookkeeping only: the pool itself
// is the caller's memory, [num_pages, page_size, heads_kv, depth] for each of K and V.
//
//   PageAllocator pages(num_pages, page_size);
//   const auto a = pages.create();
//   pages.append(a, 1000);                       // room for 1000 tokens
//   const auto b = pages.fork(a, 512);           // shares the pages of the first 512 tokens
//   const auto copies = pages.append(b, 1);      // pages to copy before writing token 512 of b
//
// Not thread-safe: one allocator belongs to one scheduler.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <kiln/runtime.hpp>

namespace kiln {

/// A page whose content moves before the tokens just appended are written: rows [0, rows) of `from` to `to`.
struct PageCopy {
  std::int32_t from = 0, to = 0;
  std::int64_t rows = 0;
  bool operator==(const PageCopy&) const = default;
};

class PageAllocator {
 public:
  using Sequence = std::int64_t;

  /// Throws Error (bad_input): no pages, or pages of no rows.
  PageAllocator(std::int64_t num_pages, std::int64_t page_size);

  std::int64_t num_pages() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t page_size() const { return page_size_; }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  /// Sequences that hold a page.
  int references(std::int32_t page) const { return references_.at(static_cast<std::size_t>(page)); }

  /// A sequence without tokens.
  Sequence create();
  /// A sequence whose first `tokens` tokens are those of `parent`, on the same pages. Throws Error
  /// (bad_input) when the parent has fewer.
  Sequence fork(Sequence parent, std::int64_t tokens);
  /// Releases the pages that no other sequence holds.
  void release(Sequence sequence);

  /// Room for `tokens` more. Returns the pages to copy first: the last page, where others hold it too. Throws
  /// Error (bad_input) when the pool is too full; then nothing has changed.
  std::vector<PageCopy> append(Sequence sequence, std::int64_t tokens);
  /// Drops tokens at the end (rejected speculation).
  void truncate(Sequence sequence, std::int64_t tokens);
  /// Pages that append would take.
  std::int64_t pages_needed(Sequence sequence, std::int64_t tokens) const;

  std::int64_t length(Sequence sequence) const { return get(sequence).tokens; }
  std::span<const std::int32_t> pages(Sequence sequence) const { return get(sequence).pages; }

  // Prefix sharing by content: blocks of tokens are known by a hash of everything up to their end.

  /// Tokens at the start of `hashes` (one for each `tokens_per_hash` tokens) that some live sequence holds
  /// already, and a new sequence that shares them. `tokens_per_hash` is a multiple of the page size.
  Sequence create_with_prefix(std::span<const std::int64_t> hashes, std::int64_t tokens_per_hash);
  /// Remembers that the tokens of `sequence` are those of `hashes`, as far as it is long; forgotten when one
  /// of their pages is released or written again.
  void publish(Sequence sequence, std::span<const std::int64_t> hashes, std::int64_t tokens_per_hash);

 private:
  struct Entry {
    std::int64_t tokens = 0;
    std::vector<std::int32_t> pages;
  };
  const Entry& get(Sequence sequence) const;
  Entry& get(Sequence sequence);
  std::int64_t pages_of(std::int64_t tokens) const { return (tokens + page_size_ - 1) / page_size_; }
  bool shares_last(const Entry& entry) const;
  void drop(std::int32_t page);
  void unpublish(std::int32_t page);

  std::int64_t page_size_;
  std::vector<std::int32_t> free_;  ///< last is next
  std::vector<int> references_;
  std::unordered_map<Sequence, Entry> sequences_;
  Sequence next_ = 0;
  std::unordered_map<std::int64_t, std::vector<std::int32_t>> published_;  ///< by hash: the block's pages
  std::unordered_map<std::int32_t, std::int64_t> hash_of_;                 ///< pages of published blocks
};

/// New rows for a cache. They are the last `cu_seqlens_q[b + 1] - cu_seqlens_q[b]` tokens of each sequence,
/// whose length in seqlens_k counts them already.
struct AppendArgs {
  Tensor new_k, new_v;  ///< [total, heads_kv, depth]; no new_v and no v where V lies in the rows of K
  Tensor k, v;          ///< the pools
  std::optional<Tensor> page_table, seqlens_k, cu_seqlens_q;
  std::int64_t max_rows = 0;  ///< most new rows of a sequence
  /// Read for scales per tensor and per head, written for those per token (in the config's layout) and per n
  /// elements.
  std::optional<Tensor> k_scale, v_scale;
  std::optional<Tensor> kv_factors;  ///< as of AttentionArgs; read
  std::optional<Tensor> k_rope;      ///< the pool of K's rotary columns, where they have one of their own
  /// Of a kernel that rotates (AppendRotary): cosines and sines of the first columns of K, the new rows' type,
  /// [positions, columns / 2], dense. Rows of positions past them take the last.
  std::optional<Tensor> rotary_cos, rotary_sin;
  /// Position of each sequence's first new row, i32 [batch]; unset: where it is written.
  std::optional<Tensor> rotary_seqlens;
};
/// Launches a kernel of make_append_kernel. Throws Error (bad_input): one line per broken rule.
std::shared_ptr<const EmulationReport> append_kv(Kernel& kernel, const AppendArgs& args,
                                                 const LaunchOptions& options = {});

/// Page table and lengths of a batch as the kernels take them, on the device. Memory grows and is kept, so
/// that a launch captured in a graph can be replayed after update().
class PagedBatch {
 public:
  /// `max_batch` sequences of at most `max_pages` pages.
  PagedBatch(Runtime& runtime, std::int64_t max_batch, std::int64_t max_pages);

  /// Fills tables, lengths and query offsets for `sequences`, each with `queries[i]` query rows at the end of
  /// its tokens. Throws Error (bad_input) when something exceeds the sizes given at construction.
  void update(const PageAllocator& pages, std::span<const PageAllocator::Sequence> sequences,
              std::span<const std::int64_t> queries);
  /// Sets page_table, seqlens_k, cu_seqlens_q and the longest lengths of a launch.
  void apply(AttentionArgs& args) const;

  /// The host's copy: [batch, max_pages], entries past a sequence's pages are num_pages of the pool.
  const std::vector<std::int32_t>& table() const { return table_; }
  const std::vector<std::int32_t>& lengths() const { return lengths_; }
  const std::vector<std::int32_t>& offsets() const { return offsets_; }

 private:
  std::int64_t max_batch_, max_pages_, batch_ = 0, longest_q_ = 0, longest_k_ = 0;
  std::vector<std::int32_t> table_, lengths_, offsets_;
  DeviceBuffer device_table_, device_lengths_, device_offsets_;
};

}  // namespace kiln
