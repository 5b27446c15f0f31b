// Blocks of rows against tiles of keys, both in double; two plain passes (scores, then P V), no online
// softmax.
#include "workbench/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <kiln/error.hpp>

#include "generator/config/masks.hpp"
#include "generator/masks/sized.hpp"
#include "generator/modifiers/modifier.hpp"
#include "generator/operands/operand_form.hpp"
#include "runtime/support/memory.hpp"
#include "workbench/problem/parallel.hpp"
#include "workbench/reference/score_expression.hpp"

namespace kiln {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kRowBlock = 16;  // rows that share the conversion of a key tile
constexpr std::int64_t kKeyTile = 32;

// Everything about one (request, head), as pointers into the workload.
struct HeadView {
  const float *q, *k, *v;                     // first row of the head
  std::int64_t q_stride, k_stride, v_stride;  // elements from row to row
  std::int64_t depth, ov_depth, queries, keys;
  std::int64_t request, head, heads;
  const MaskBits* bits;  // of a custom mask, else null
  // Scales of the stored values: of a token counted over all requests and a KV head; null: 1.
  const Scales *k_scale, *v_scale;
  double q_scale;
  std::int64_t first_k, kv_head;
  std::int64_t scaled_depth;  ///< columns of K that have scales

  double key(std::int64_t row, std::int64_t d) const {
    const double stored = k[row * k_stride + d];
    const bool scaled = k_scale != nullptr && d < scaled_depth;
    return scaled ? stored * k_scale->at(first_k + row, kv_head, d) : stored;
  }
  double value(std::int64_t row, std::int64_t d) const {
    const double stored = v[row * v_stride + d];
    return v_scale == nullptr ? stored : stored * v_scale->at(first_k + row, kv_head, d);
  }
};

const Scales* address_of(const std::optional<Scales>& scales) {
  return scales ? &*scales : nullptr;
}

HeadView view_of(const Workload& work, std::int64_t request, std::int64_t head, std::int64_t first_q,
                 std::int64_t first_k) {
  const ProblemShape& s = work.shape;
  HeadView view{};
  const std::int64_t kv_head = head / (s.heads_q / s.heads_kv);
  view.q_stride = s.heads_q * s.depth;
  view.k_stride = s.heads_kv * s.depth;
  view.q = work.q.data() + first_q * view.q_stride + head * s.depth;
  view.k = work.k.data() + first_k * view.k_stride + kv_head * s.depth;
  if (work.v_from_k) {
    view.v = view.k;
    view.v_stride = view.k_stride;
  } else {
    view.v_stride = s.heads_kv * s.ov_depth;
    view.v = work.v.data() + first_k * view.v_stride + kv_head * s.ov_depth;
  }
  view.depth = s.depth;
  view.ov_depth = s.ov_depth;
  view.queries = s.lengths_q[static_cast<std::size_t>(request)];
  view.keys = s.lengths_k[static_cast<std::size_t>(request)];
  view.k_scale = address_of(work.k_scale);
  view.v_scale = work.v_from_k ? view.k_scale : address_of(work.v_scale);
  view.q_scale = work.q_scale;
  view.first_k = first_k;
  view.scaled_depth = s.depth - work.rope_depth;
  view.kv_head = kv_head;
  view.request = request;
  view.head = head;
  view.bits = work.mask_bits ? &*work.mask_bits : nullptr;
  view.heads = s.heads_q;
  return view;
}

// scores[r][j - first] = q_row(r) . k_row(j), for j in [first, last).
void dot_products(const HeadView& h, const RowId* rows, std::int64_t count, std::int64_t first,
                  std::int64_t last, std::vector<double>& scores) {
  const std::int64_t width = last - first;
  std::vector<double> tile(static_cast<std::size_t>(h.depth * kKeyTile));  // [depth][key]
  for (std::int64_t begin = first; begin < last; begin += kKeyTile) {
    const std::int64_t tile_keys = std::min(kKeyTile, last - begin);
    for (std::int64_t j = 0; j < tile_keys; ++j) {
      for (std::int64_t d = 0; d < h.depth; ++d)
        tile[static_cast<std::size_t>(d * kKeyTile + j)] = h.key(begin + j, d);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const float* query = h.q + rows[r].row * h.q_stride;
      double sums[kKeyTile] = {};
      for (std::int64_t d = 0; d < h.depth; ++d) {
        const double x = query[d] * h.q_scale;
        const double* column = &tile[static_cast<std::size_t>(d * kKeyTile)];
        for (std::int64_t j = 0; j < kKeyTile; ++j) sums[j] += x * column[j];
      }
      std::copy(sums, sums + tile_keys, &scores[static_cast<std::size_t>(r * width + begin - first)]);
    }
  }
}

/// How the scores of a head are changed.
struct Change {
  const Semantics& semantics;
  const HeadView& head;
  const ModifierKind& kind;
  double of_head;

  Change(const Semantics& s, const HeadView& h)
      : semantics(s),
        head(h),
        kind(modifier_kind(s.score_mod)),
        of_head(kind.of_head == nullptr ? 0 : kind.of_head(h.head, h.heads)) {}

  double operator()(double score, std::int64_t key, std::int64_t row) const {
    if (!kind.is_expression())
      return kind.apply(score, semantics.score_mod, {row + head.keys - head.queries, key, of_head});
    return evaluate(
        *semantics.expression, score,
        {semantics.separate_requests ? 0 : head.request, head.head, row, key, head.queries, head.keys},
        semantics.captured);
  }
};

constexpr double kLargest = std::numeric_limits<float>::max();
// A score that a float does not hold is infinite.
double as_float(double score) {
  return std::fabs(score) > kLargest ? std::copysign(-kMinusInfinity, score) : score;
}

// What rounding to floats may change a score by, relative to the product of the norms of its rows.
constexpr double kSumError = 0x1p-22;
// Changes of scores below this are nothing beside the rounding of P.
constexpr double kLeastError = 1e-4;

/// What a row's scores may be off by in all, where that counts; else 0.
struct ScoreError {
  double sum = 0;    ///< of the sums Q K'
  double score = 0;  ///< of a score of the row, modified
};

// Turns one row of dot products into probabilities in place (0 outside the mask); returns the row's LSE.
// `error`: of the sums in, of the scores out.
double softmax_row(double* scores, std::int64_t first, std::int64_t width,
                   std::pair<std::int64_t, std::int64_t> visible, std::int64_t row, const HeadView& h,
                   const Semantics& semantics, ScoreError& error) {
  const Change modified(semantics, h);
  double highest = kMinusInfinity;
  bool nan = false;
  for (std::int64_t j = 0; j < width; ++j) {
    const std::int64_t key = first + j;
    const bool seen = key >= visible.first && key < visible.second &&
                      (h.bits == nullptr || h.bits->visible(h.request, h.head, row, key));
    if (!seen) {
      scores[j] = kMinusInfinity;
      continue;
    }
    const double score = semantics.scale * as_float(scores[j]);
    scores[j] = as_float(modified(score, key, row));
    if (error.sum > 0 && std::isfinite(scores[j])) {
      for (const double other : {score - error.sum, score + error.sum}) {
        const double changed = modified(other, key, row);
        if (std::isfinite(changed)) error.score = std::max(error.score, std::fabs(changed - scores[j]));
      }
      error.score = std::max(error.score, kSumError * std::fabs(scores[j]));
    }
    nan = nan || std::isnan(scores[j]);
    highest = std::max(highest, scores[j]);
  }
  if (nan) {  // every probability is
    std::fill(scores, scores + width, std::numeric_limits<double>::quiet_NaN());
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (highest == kMinusInfinity) {  // no visible key
    std::fill(scores, scores + width, 0.0);
    return kMinusInfinity;
  }
  double sum = 0;
  if (!semantics.sink.empty()) {
    const double logit = semantics.sink[static_cast<std::size_t>(h.head)];
    highest = std::max(highest, logit);
    sum = logit == highest ? 1 : std::exp(logit - highest);
  }
  // A key that weighs next to nothing is still one that the row sees: NaN and infinities of its V count.
  for (std::int64_t j = 0; j < width; ++j)
    sum += scores[j] = scores[j] == kMinusInfinity ? 0 : std::max(std::exp(scores[j] - highest), 1e-300);
  for (std::int64_t j = 0; j < width; ++j) scores[j] /= sum;
  return highest + std::log(sum);
}

double query_norm(const HeadView& h, std::int64_t row) {
  double sum = 0;
  for (std::int64_t d = 0; d < h.depth; ++d) {
    const double x = h.q[row * h.q_stride + d] * h.q_scale;
    sum += x * x;
  }
  return std::sqrt(sum);
}
/// Largest norm of keys [first, last).
double longest_key(const HeadView& h, std::int64_t first, std::int64_t last) {
  double longest = 0;
  for (std::int64_t j = first; j < last; ++j) {
    double sum = 0;
    for (std::int64_t d = 0; d < h.depth; ++d) sum += h.key(j, d) * h.key(j, d);
    longest = std::max(longest, sum);
  }
  return std::sqrt(longest);
}

// How far O of a row may be off (a norm) where its scores may be off by `error`, infinity: where any of its keys, or none, may
// have all the weight. O' - O is the sum of (P' - P)(V - O), and P' lies within exp(2 error) of P either way.
double output_slack(const HeadView& h, std::int64_t first, std::pair<std::int64_t, std::int64_t> visible,
                    const double* weights, const double* o, double error) {
  double spread = 0, farthest = 0;
  for (std::int64_t key = visible.first; key < visible.second; ++key) {
    const double weight = weights[key - first];
    if (weight == 0 && !std::isinf(error)) continue;
    double distance = 0;
    for (std::int64_t d = 0; d < h.ov_depth; ++d) {
      const double x = h.value(key, d) - o[d];
      distance += x * x;
    }
    spread += weight * std::sqrt(distance);
    farthest = std::max(farthest, std::sqrt(distance));
  }
  if (!std::isinf(error)) return std::min(std::expm1(std::min(2 * error, 700.0)) * spread, farthest);
  double norm = 0;  // or none has any: all scores may be -inf
  for (std::int64_t d = 0; d < h.ov_depth; ++d) norm += o[d] * o[d];
  return std::max(farthest, std::sqrt(norm));
}

// A block of rows of one head: o[r], lse[r] and how far they may be off, for r < count.
void attend(const HeadView& h, const Semantics& semantics, const RowId* rows, std::int64_t count, double* o,
            double* lse, double* o_slack, double* lse_slack, std::uint8_t* overflow) {
  std::vector<std::pair<std::int64_t, std::int64_t>> visible;
  std::int64_t first = h.keys, last = 0;
  for (std::int64_t r = 0; r < count; ++r) {
    visible.push_back(visible_keys(
        semantics.mask, rows[r].row + h.keys - h.queries, h.keys,
        semantics.first_keys.empty() ? 0 : semantics.first_keys[static_cast<std::size_t>(h.request)]));
    if (visible.back().first >= visible.back().second) continue;
    first = std::min(first, visible.back().first);
    last = std::max(last, visible.back().second);
  }
  std::fill(o, o + count * h.ov_depth, 0.0);
  const std::int64_t width = std::max<std::int64_t>(0, last - first);
  std::vector<double> scores(static_cast<std::size_t>(count * width));
  dot_products(h, rows, count, first, last, scores);
  std::vector<double> errors(static_cast<std::size_t>(count));
  const double keys = longest_key(h, first, last);
  for (std::int64_t r = 0; r < count; ++r) {
    ScoreError error;
    const double norms = query_norm(h, rows[r].row) * keys;
    overflow[r] = norms > kLargest ? Reference::kOfScores : Reference::kNone;
    error.sum = kSumError * semantics.scale * norms;
    if (!(error.sum >= kLeastError)) error.sum = 0;
    lse[r] = softmax_row(scores.data() + r * width, first, width, visible[static_cast<std::size_t>(r)],
                         rows[r].row, h, semantics, error);
    errors[static_cast<std::size_t>(r)] = error.score;
    lse_slack[r] = error.score;
  }
  std::vector<double> value(static_cast<std::size_t>(h.ov_depth));
  double largest = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    for (std::int64_t d = 0; d < h.ov_depth; ++d) {
      value[static_cast<std::size_t>(d)] = h.value(first + j, d);
      if (std::isfinite(value[static_cast<std::size_t>(d)]))
        largest = std::max(largest, std::fabs(value[static_cast<std::size_t>(d)]));
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const double p = scores[static_cast<std::size_t>(r * width + j)];
      if (p == 0) continue;
      double* row = o + r * h.ov_depth;
      for (std::int64_t d = 0; d < h.ov_depth; ++d) row[d] += p * value[static_cast<std::size_t>(d)];
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    // Kernels divide by the sum of the weights, each 1 at most, at the end.
    if (largest * static_cast<double>(width) > kLargest) overflow[r] |= Reference::kOfValues;
    const double error = (overflow[r] & Reference::kOfScores) != 0 ? std::numeric_limits<double>::infinity()
                                                                   : errors[static_cast<std::size_t>(r)];
    o_slack[r] = error == 0 ? 0
                            : output_slack(h, first, visible[static_cast<std::size_t>(r)],
                                           scores.data() + r * width, o + r * h.ov_depth, error);
  }
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace

std::pair<std::int64_t, std::int64_t> visible_keys(const MaskConfig& mask, std::int64_t position,
                                                   std::int64_t keys, std::int64_t padding) {
  std::int64_t first = 0, last = keys;
  if (mask.kind == MaskConfig::Kind::window) {
    first = padding;
    if (mask.left >= 0) first = std::max(first, position - mask.left);
    if (mask.right >= 0) last = std::min(last, position + mask.right + 1);
    if (mask.chunk > 0) {
      const std::int64_t start = padding + floor_div(position - padding, mask.chunk) * mask.chunk;
      first = std::max(first, start);
      last = std::min(last, start + mask.chunk);
    }
    return {std::max<std::int64_t>(first, 0), std::clamp<std::int64_t>(last, 0, keys)};
  }
  if (is_bounded(mask)) last = std::clamp<std::int64_t>(position + 1, 0, keys);
  if (const SizedMask* sized = sized_mask(mask.kind)) first = sized->first(position, mask.size);
  return {std::max<std::int64_t>(first, 0), last};
}

Semantics semantics_of(const Config& resolved, const Workload& work, std::optional<double> scale) {
  Semantics semantics;
  semantics.mask = work.mask_of(resolved);
  semantics.first_keys.assign(work.first_keys.begin(), work.first_keys.end());
  semantics.score_mod = resolved.score_mod.value_or(ScoreMod{});
  semantics.scale =
      scale.value_or(resolved.scale.value_or(1 / std::sqrt(static_cast<double>(resolved.depth))));
  semantics.separate_requests =
      !operand_form(resolved.operand.value_or(OperandConfig{}).kind).ragged_q && !work.shape.uniform();
  semantics.sink.assign(work.sink.begin(), work.sink.end());
  if (modifier_kind(semantics.score_mod).is_expression()) {
    auto parsed = expression::parse(semantics.score_mod.expr, semantics.score_mod.tensors);
    if (const auto* error = std::get_if<expression::ParseError>(&parsed))
      throw Error(ErrorCode::bad_input, "expr: " + expression::describe(*error, semantics.score_mod.expr));
    semantics.expression =
        std::make_shared<const expression::Expression>(std::get<expression::Expression>(std::move(parsed)));
    semantics.captured = work.captured;
  }
  return semantics;
}

double reference_cost(const ProblemShape& shape, const MaskConfig& mask) {
  double pairs = 0;
  for (std::size_t b = 0; b < shape.lengths_q.size(); ++b) {
    const std::int64_t queries = shape.lengths_q[b], keys = shape.lengths_k[b];
    if (!is_bounded(mask)) {
      pairs += static_cast<double>(queries) * static_cast<double>(keys);
      continue;
    }
    for (std::int64_t i = 0; i < queries; ++i) {
      const auto [first, last] = visible_keys(mask, i + keys - queries, keys);
      pairs += static_cast<double>(std::max<std::int64_t>(0, last - first));
    }
  }
  return pairs * static_cast<double>(shape.heads_q) * static_cast<double>(shape.depth + shape.ov_depth);
}

std::vector<RowId> choose_rows(const ProblemShape& shape, const MaskConfig& mask, double budget,
                               std::uint64_t seed) {
  const double share = std::min(1.0, budget / std::max(1.0, reference_cost(shape, mask)));
  std::vector<RowId> rows;
  std::mt19937_64 random(seed);
  for (std::int64_t b = 0; b < shape.batch(); ++b) {
    const std::int64_t queries = shape.lengths_q[static_cast<std::size_t>(b)];
    for (std::int64_t head = 0; head < shape.heads_q; ++head) {
      const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(queries)));
      std::set<std::int64_t> chosen;
      if (wanted < queries) {
        chosen = {0, queries - 1};
        while (static_cast<std::int64_t>(chosen.size()) < wanted) {
          chosen.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(queries)));
        }
        for (const std::int64_t row : chosen) rows.push_back({b, head, row});
      } else {
        for (std::int64_t row = 0; row < queries; ++row) rows.push_back({b, head, row});
      }
    }
  }
  return rows;
}

Reference reference_attention(const Workload& work, const Semantics& semantics, std::vector<RowId> rows) {
  const ProblemShape& shape = work.shape;
  Reference result{std::move(rows), {}, {}, {}, {}, {}, false};
  const auto count = static_cast<std::int64_t>(result.rows.size());
  require_memory(
      static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(shape.ov_depth + 1) * sizeof(double),
      "the float64 reference of " + shape.text());
  result.o.resize(static_cast<std::size_t>(count * shape.ov_depth));
  for (auto* values : {&result.lse, &result.o_slack, &result.lse_slack})
    values->resize(static_cast<std::size_t>(count));
  result.overflow.resize(static_cast<std::size_t>(count));
  result.complete = count == shape.total_q() * shape.heads_q;

  // Blocks of neighbours of the same request and head.
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < count; ++i) {
    const RowId& row = result.rows[static_cast<std::size_t>(i)];
    if (!starts.empty() && i - starts.back() < kRowBlock) {
      const RowId& head = result.rows[static_cast<std::size_t>(starts.back())];
      if (head.request == row.request && head.head == row.head) continue;
    }
    starts.push_back(i);
  }
  const std::vector<std::int64_t> first_q = shape.offsets_q(), first_k = shape.offsets_k();
  starts.push_back(count);
  parallel_blocks(starts.size() - 1, 1, [&](std::size_t begin, std::size_t) {
    const std::int64_t start = starts[begin], end = starts[begin + 1];
    const RowId& row = result.rows[static_cast<std::size_t>(start)];
    const auto b = static_cast<std::size_t>(row.request);
    const HeadView view = view_of(work, row.request, row.head, first_q[b], first_k[b]);
    attend(view, semantics, &row, end - start, result.o.data() + start * shape.ov_depth,
           result.lse.data() + start, result.o_slack.data() + start, result.lse_slack.data() + start,
           result.overflow.data() + start);
  });
  return result;
}

}  // namespace kiln
