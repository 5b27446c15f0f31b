// Context parallel attention: the rows of each sequence are spread over the ranks of a group, each of which has its
// part of Q, K and V. docs/context-parallel.md has pictures.
//
//   prefill   ring: K and V go round while the kernels work, results are merged by their log-sum-exps; or
//             gather: every rank collects K and V of the whole sequences, and computes its rows in one pass
//   decode    every rank has a part of every cache and computes all queries over it; results are exchanged and merged
//
// Merging is in FP32 and in an order that does not depend on timing: results repeat bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/runtime.hpp>
#include <kiln/transport.hpp>

namespace kiln {

/// Neighbouring rows of a sequence.
struct Run {
  std::int64_t first = 0, rows = 0;
  std::int64_t end() const { return first + rows; }
  bool operator==(const Run&) const = default;
};

/// How rows are spread.
enum class Sharding {
  contiguous,  ///< rank r has the r-th of `ranks` pieces
  zigzag,      ///< rank r has pieces r and 2 * ranks - 1 - r of 2 * ranks: equal work under a causal mask
};

/// The two runs of a rank (the second is empty unless zigzag), in the order its rows have in memory. Pieces have equal
/// lengths, multiples of `granule`, but for the last ones, which may be shorter or empty.
std::array<Run, 2> runs_of(Sharding sharding, std::int64_t length, int rank, int ranks,
                           std::int64_t granule = 1);

/// A link between ranks and a device, in the terms of the cost model.
struct ParallelCosts {
  double alpha_us = 20;         ///< of one exchange
  double bytes_per_us = 350e3;  ///< that a rank sends, and receives, at a time
  double flops_per_us = 600e6;  ///< of the prefill kernel
  double memory_bytes_per_us = 4e6;
};
struct PrefillShape {
  std::vector<std::int64_t> lengths;  ///< of the whole sequences
  std::int64_t heads_q = 1, heads_kv = 1, depth = 128, ov_depth = 128;
  int kv_bytes = 2;  ///< of an element
  bool causal = true;
};
struct PrefillEstimate {
  double compute_us = 0;              ///< of a rank
  double ring_us = 0, gather_us = 0;  ///< the whole, by either way
  double one_device_us = 0;
  double gather_bytes = 0, ring_bytes = 0;  ///< of memory that a rank takes for K and V of others
};
/// What the ways of prefill take by the model; `Options::way` automatic takes the cheaper one that fits.
PrefillEstimate estimate_prefill(const PrefillShape& shape, int ranks, const ParallelCosts& costs = {});
struct DecodeStep {
  double cache_bytes = 0;  ///< of K and V in all
  std::int64_t rows = 1;   ///< queries of all sequences
  std::int64_t heads_q = 1, depth = 128, ov_depth = 128;
  int q_bytes = 2, out_bytes = 2;  ///< of an element
};
struct DecodeEstimate {
  double one_device_us = 0, read_us = 0;  ///< all caches, and those of a rank
  double gather_us = 0, spread_us = 0;  ///< the whole step with the result on every rank, by either DecodeWay
  double heads_us = 0, queries_us = 0;  ///< with a share of the result on each
};
/// What a decode step takes by the model.
DecodeEstimate estimate_decode(const DecodeStep& step, int ranks, const ParallelCosts& costs = {});

enum class PrefillWay { automatic, ring, gather };

struct ContextParallelOptions {
  std::int64_t heads_q = 0, heads_kv = 0;
  PrefillWay way = PrefillWay::automatic;
  ParallelCosts costs{};
  std::int64_t most_gathered_bytes = std::int64_t{16}
                                     << 30;  ///< of K and V that `automatic` collects on a rank
};

/// Prefill of one rank. Memory is taken by set_batch().
class ContextPrefill {
 public:
  /// `config`: prefill, ragged; mask none, causal, sliding_window or chunked; no custom mask or expression.
  /// Sharding is zigzag for causal masks, else contiguous; the granule is the chunk's length.
  /// Throws Error: bad_config, bad_input, environment, compile, device.
  ContextPrefill(Runtime& runtime, const Config& config, std::shared_ptr<Transport> transport,
                 const ContextParallelOptions& options);
  ~ContextPrefill();

  /// Lengths of the whole sequences; the same on all ranks. Not while launches are under way.
  void set_batch(std::span<const std::int64_t> lengths);
  /// Rows of this rank: first runs of all sequences, one after another, then their second runs.
  std::int64_t rows() const;
  Run run(std::int64_t sequence, int which) const;
  Sharding sharding() const;
  PrefillWay way() const;  ///< ring or gather

  struct Args {
    Tensor q, k, v, o;  ///< [rows, heads, depth] of this rank, dense; o in the config's out_dtype
    /// f32, the log-sum-exps of the first runs [heads_q, rows], then of the second runs; the config's `lse` asks.
    std::optional<Tensor> lse;
    std::optional<Tensor> sink;  ///< f32 [heads_q], the same on all ranks; where the config has it
    std::optional<double> scale;
  };
  /// Asynchronous on `stream`. Collective. Findings of the emulated device are an Error (device).
  void launch(const Args& args, std::uint64_t stream = 0);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a rank gets of a decode step, and what it brings.
enum class DecodeResult {
  all,    ///< every rank brings all queries and gets their results, the same bits
  heads,  ///< every rank brings all queries; rank r gets the r-th of `size` equal ranges of heads
  queries,  ///< every rank brings as many queries, which follow one another in the order of ranks, and gets theirs
};
/// How results come to all ranks (DecodeResult::all); the bits are the same.
enum class DecodeWay {
  automatic,  ///< the cheaper one for the rows of a launch, by the cost model
  gather,     ///< every rank collects all parts and merges them: one exchange
  spread,     ///< every rank merges a range of rows, and these are collected: two exchanges, fewer bytes
};
struct ContextDecodeOptions {
  DecodeResult result = DecodeResult::all;
  DecodeWay way = DecodeWay::automatic;  ///< automatic but for DecodeResult::all
  ParallelCosts costs{};
};

/// Decode of one rank, which has a part of the cache of every sequence.
class ContextDecode {
 public:
  /// `config`: decode, operands ragged, paged or continuous as they are; no custom mask, left padding or expression.
  /// `max_rows`: query rows of a launch, of all ranks. Takes memory for them. Throws Error: bad_config, bad_input,
  /// environment, compile, device.
  ContextDecode(Runtime& runtime, const Config& config, std::shared_ptr<Transport> transport,
                std::int64_t heads_q, std::int64_t max_rows, const ContextDecodeOptions& options = {});
  ~ContextDecode();

  /// `args` as for a kernel of the config, K, V and lengths those of this rank's part (which may have no keys); o and
  /// lse (optional) are of the whole, of the rows and heads that `result` says: with `queries`, q, o and lse have the
  /// rows of this rank, and sequences, lengths and pages are those of all. Asynchronous, collective; nothing is
  /// written from the host, so launches can be captured in a graph. `spread` has no lse; `automatic` gathers for it.
  ///
  /// query_ends: the length of each whole sequence less the position of this rank's first key in it, of keys that
  /// follow one another in the sequence. Query i of n stands n - i before it: so it says what causal masks, windows and
  /// ALiBi show. On all ranks or on none: where it is needed (windows, ALiBi, several queries a sequence under a causal
  /// mask; one query sees all keys) and was not given, parts follow one another in the order of ranks, and one
  /// exchange more finds it from their lengths, of at most `max_rows` sequences. Chunks are counted from this rank's
  /// first key, whose position is a multiple of their length.
  /// sink: f32 [heads_q], the same on all ranks, where the config has it; counts once.
  void launch(const AttentionArgs& args, const LaunchOptions& options = {});

  /// How a launch of so many rows without lse gives its results to all ranks: gather or spread.
  DecodeWay way(std::int64_t rows) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
