// One attention problem on the host: lengths, heads and the Q, K, V values, already rounded to the kernel's
// types. Contiguous [batch, seqlen, heads, depth] and ragged [total, heads, depth] have the same memory
// order, so one form serves both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/runtime.hpp>
#include <kiln/types.hpp>

#include "workbench/problem/pages.hpp"
#include "workbench/problem/scales.hpp"

namespace kiln {

/// Sizes of a problem. Every length is >= 0; heads_q is a multiple of heads_kv.
struct ProblemShape {
  std::int64_t heads_q = 1, heads_kv = 1, depth = 0, ov_depth = 0;
  std::vector<std::int64_t> lengths_q, lengths_k;  ///< one per request
  bool ragged = false;  ///< the form of tensors and results; when false all lengths of a kind are equal

  std::int64_t batch() const { return static_cast<std::int64_t>(lengths_q.size()); }
  std::int64_t total_q() const;
  std::int64_t total_k() const;
  std::vector<std::int64_t> offsets_q() const;  ///< first row of each request, then the total
  std::vector<std::int64_t> offsets_k() const;
  bool uniform() const;  ///< all q lengths equal and all k lengths equal
  /// "batch 2, heads 8/2, q 256, k 256, depth 128".
  std::string text() const;
};

/// Throws Error (bad_input), one line: negative or too many lengths, heads that do not divide, too large for
/// memory.
void check_shape(const ProblemShape& shape);

/// Bits of a custom mask: [batch | 1, heads_q | 1, rows, words], bit j % 32 of word j / 32 set where key j is
/// visible. Rows and words cover the longest request and one key more (K may be padded by a row).
struct MaskBits {
  std::int64_t batch = 1, heads = 1, rows = 0, words = 0;
  std::vector<std::uint32_t> bits;

  bool visible(std::int64_t request, std::int64_t head, std::int64_t row, std::int64_t key) const {
    const std::int64_t b = batch == 1 ? 0 : request, h = heads == 1 ? 0 : head;
    const auto word = static_cast<std::size_t>(((b * heads + h) * rows + row) * words + key / 32);
    return (bits[word] >> (key % 32) & 1) != 0;
  }
};

/// Values of a tensor that a score expression names, row after row.
struct CapturedValues {
  std::vector<std::int64_t> shape;
  std::vector<float> values;  ///< integers are exact up to 2^24 in magnitude
};

/// Memory of the host that the values of a problem take; random_workload() refuses what it does not have
/// (Error, environment).
std::uint64_t host_bytes(const ProblemShape& shape, const Config& resolved);

struct Workload {
  ProblemShape shape;
  std::vector<float> q, k, v;  ///< [total, heads, depth]; `v` is empty when V is the head of each K row
  bool v_from_k = false;
  /// Last columns of each row of K, of a type or in a tensor of their own, which scales do not concern.
  std::int64_t rope_depth = 0;

  // Of quantised operands `k` and `v` are what is stored; the scales multiply it, as `q_scale` does Q.
  double q_scale = 1;
  std::optional<Scales> k_scale, v_scale;

  std::vector<float> sink;               ///< one logit per query head; empty: the config has none
  std::optional<MaskBits> mask_bits;     ///< of a custom mask
  std::vector<CapturedValues> captured;  ///< of the score expression, in its order
  AttentionArgs::Window window;          ///< of a mask with sides given at launch
  std::vector<std::int32_t> first_keys;  ///< by request, of a mask with left padding
  /// The config's mask with this problem's sides.
  MaskConfig mask_of(const Config& resolved) const;

  std::optional<PageTable> pages;  ///< of a paged kernel; unset: a random one by `seed`
  std::uint64_t seed = 0;
};

/// Every bit set with probability 1/2, one row in sixteen without any; a mask for each head while they take
/// no more than 2^27 bits, else one for all.
MaskBits random_mask(const ProblemShape& shape, std::uint64_t seed);

/// Tensors for a config's score expression: standard normal reals, integers of 0 to 3. Extents are what b, h, q and k
/// run to (1 in one dimension of four, which broadcasts it; 1 for b and h of more than 2^24 elements), 33 where the
/// index is anything else.
std::vector<CapturedValues> random_captured(const ProblemShape& shape, const Config& resolved,
                                            std::uint64_t seed);

/// Rows of K with the last `rope_depth` columns apart, and together again.
struct KeyColumns {
  std::vector<float> plain, rope;
};
KeyColumns split_keys(const std::vector<float>& k, std::int64_t depth, std::int64_t rope_depth);
std::vector<float> join_keys(const KeyColumns& columns, std::int64_t depth, std::int64_t rope_depth);

/// Makes K what a cache of the config stores, rotary columns that lie apart in their own type; with scales by
/// the largest values if `scaled`.
void store_keys(const Config& resolved, bool scaled, Workload& work);

/// Standard normal values for every tensor, rounded to `dtype` (Q) and `kv_dtype`; quantised K and V with
/// scales by their largest values. One query row in eight is 8 times as large and one 64 times, so that row
/// maxima grow through the tiles. Same seed, same values, on any machine.
Workload random_workload(const ProblemShape& shape, const Config& resolved, std::uint64_t seed);

/// The same with Q of zeros, and V of ones with random signs and scales 1, 2 and 4: every probability of a
/// row is the same, and types of few bits hold every product and sum as it is, unless scores are modified by
/// position. What is left of the error is O's rounding.
Workload exact_workload(const ProblemShape& shape, const Config& resolved, std::uint64_t seed);

/// `count` standard normal values of stream `stream` of `seed`.
std::vector<float> random_normal(std::size_t count, std::uint64_t seed, std::uint64_t stream);

}  // namespace kiln
