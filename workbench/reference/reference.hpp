// Attention by its definition, in float64: what every kernel is compared with. Shares no code with the
// generator.
//   S = scale * Q K^T, score modifier, mask, softmax over keys (sink in the denominator), O = P V.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <kiln/config.hpp>

#include "generator/expression/expression.hpp"
#include "workbench/problem/workload.hpp"

namespace kiln {

/// What is computed, beside the tensors.
struct Semantics {
  MaskConfig mask;
  ScoreMod score_mod;
  double scale = 1;
  std::vector<double> sink;                                  ///< one logit per query head; empty: no sink
  std::shared_ptr<const expression::Expression> expression;  ///< of an `expr` modifier
  /// Each request is a launch of its own, as where a contiguous kernel meets different lengths: `b` is 0 in
  /// an expression.
  bool separate_requests = false;
  std::vector<CapturedValues> captured = {};  ///< tensors of the expression
  std::vector<std::int64_t> first_keys = {};  ///< by request, of a mask with left padding
};

/// Of a resolved config, with the workload's sink, and the softmax scale given or the config's.
Semantics semantics_of(const Config& resolved, const Workload& work,
                       std::optional<double> scale = std::nullopt);

/// One query row of one head of one request.
struct RowId {
  std::int64_t request = 0, head = 0, row = 0;
  bool operator==(const RowId&) const = default;
};

/// Results for some rows, in the order of `rows`.
struct Reference {
  std::vector<RowId> rows;
  std::vector<double> o;    ///< [rows, ov_depth]
  std::vector<double> lse;  ///< [rows], natural log; -inf where no key is visible
  /// How far a row of O (its norm) and its LSE may be off because a score is a sum of floats: 0 where that is
  /// nothing beside other errors. Scores of 1e4 are known to 1e-3, and P is the exponential of them.
  std::vector<double> o_slack, lse_slack;
  /// By row, whether sums on the way may be larger than a float holds, by a bound: what is not finite is right there,
  /// and of scores any key may have all the weight, with any LSE.
  enum Overflow : std::uint8_t { kNone = 0, kOfScores = 1, kOfValues = 2 };
  std::vector<std::uint8_t> overflow;
  bool complete = false;  ///< every row of the problem is there
};

/// Multiply-adds that the reference of all rows takes.
double reference_cost(const ProblemShape& shape, const MaskConfig& mask);

/// All rows, or when that takes more than `budget` multiply-adds a sample: of every request and head the
/// first and the last row and some between, chosen by `seed`.
std::vector<RowId> choose_rows(const ProblemShape& shape, const MaskConfig& mask, double budget,
                               std::uint64_t seed);

/// Computes `rows` on all cores. Rows of one request and head must be neighbours.
Reference reference_attention(const Workload& work, const Semantics& semantics, std::vector<RowId> rows);

/// Keys [first, last) that a query at key position `position` sees, of `keys` in all, of which those before `padding`
/// are none; all of them under a custom mask, whose bits then decide.
std::pair<std::int64_t, std::int64_t> visible_keys(const MaskConfig& mask, std::int64_t position,
                                                   std::int64_t keys, std::int64_t padding = 0);

}  // namespace kiln
