// The float64 reference against a direct transcription of the definition, for every mask, modifier and shape.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "generator/modifiers/modifier.hpp"
#include "workbench/reference/reference.hpp"

using namespace kiln;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The mask as the contract words it, key by key.
bool visible(const MaskConfig& mask, std::int64_t key, std::int64_t position, std::int64_t padding) {
  const auto chunk = [&](std::int64_t x) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(x) / mask.size));
  };
  switch (mask.kind) {
    case MaskConfig::Kind::causal:
      return key <= position;
    case MaskConfig::Kind::sliding_window:
      return key <= position && key > position - mask.size;
    case MaskConfig::Kind::chunked:
      return key <= position && chunk(key) == chunk(position);
    case MaskConfig::Kind::window: {
      const auto chunk_of = [&](std::int64_t x) {
        return std::floor(static_cast<double>(x - padding) / mask.chunk);
      };
      return key >= padding && (mask.left < 0 || key >= position - mask.left) &&
             (mask.right < 0 || key <= position + mask.right) &&
             (mask.chunk < 1 || chunk_of(key) == chunk_of(position));
    }
    default:
      return true;
  }
}

struct Row {
  std::vector<double> o;
  double lse = kMinusInfinity;
};

Row direct(const Workload& w, const Semantics& s, std::int64_t b, std::int64_t head, std::int64_t i) {
  const ProblemShape& shape = w.shape;
  const std::int64_t sq = shape.lengths_q[static_cast<std::size_t>(b)],
                     sk = shape.lengths_k[static_cast<std::size_t>(b)];
  const std::int64_t row_q = shape.offsets_q()[static_cast<std::size_t>(b)] + i,
                     row_k = shape.offsets_k()[static_cast<std::size_t>(b)];
  const std::int64_t kv_head = head / (shape.heads_q / shape.heads_kv), position = i + sk - sq;
  const auto q = [&](std::int64_t d) {
    return double{w.q[static_cast<std::size_t>((row_q * shape.heads_q + head) * shape.depth + d)]};
  };
  const auto k = [&](std::int64_t j, std::int64_t d) {
    return double{w.k[static_cast<std::size_t>(((row_k + j) * shape.heads_kv + kv_head) * shape.depth + d)]};
  };
  const auto v = [&](std::int64_t j, std::int64_t d) {
    return w.v_from_k ? k(j, d)
                      : double{w.v[static_cast<std::size_t>(
                            ((row_k + j) * shape.heads_kv + kv_head) * shape.ov_depth + d)]};
  };
  Row row{std::vector<double>(static_cast<std::size_t>(shape.ov_depth), 0.0), kMinusInfinity};
  double sum = s.sink.empty() ? 0 : std::exp(s.sink[static_cast<std::size_t>(head)]);
  bool any = false;
  for (std::int64_t j = 0; j < sk; ++j) {
    if (!visible(s.mask, j, position, s.first_keys.empty() ? 0 : s.first_keys[static_cast<std::size_t>(b)]))
      continue;
    any = true;
    double score = 0;
    for (std::int64_t d = 0; d < shape.depth; ++d) score += q(d) * k(j, d);
    score *= s.scale;
    if (s.score_mod.kind == ScoreMod::Kind::softcap)
      score = s.score_mod.value * std::tanh(score / s.score_mod.value);
    if (s.score_mod.kind == ScoreMod::Kind::alibi)
      score += std::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(shape.heads_q)) *
               static_cast<double>(j - position);
    sum += std::exp(score);
    for (std::int64_t d = 0; d < shape.ov_depth; ++d)
      row.o[static_cast<std::size_t>(d)] += std::exp(score) * v(j, d);
  }
  if (!any) return {std::vector<double>(static_cast<std::size_t>(shape.ov_depth), 0.0), kMinusInfinity};
  for (double& value : row.o) value /= sum;
  row.lse = std::log(sum);
  return row;
}

ProblemShape ragged_shape(std::int64_t depth, std::int64_t ov_depth) {
  ProblemShape shape;
  shape.heads_q = 4;
  shape.heads_kv = 2;
  shape.depth = depth;
  shape.ov_depth = ov_depth;
  shape.ragged = true;
  shape.lengths_q = {1, 37, 0, 50, 9, 3, 40};
  shape.lengths_k = {1, 37, 12, 20, 70, 0, 75};
  return shape;
}

void compare(const Workload& work, const Semantics& semantics) {
  const Reference reference =
      reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0));
  REQUIRE(reference.complete);
  for (std::size_t r = 0; r < reference.rows.size(); ++r) {
    const RowId& id = reference.rows[r];
    const Row wanted = direct(work, semantics, id.request, id.head, id.row);
    double worst = 0;
    for (std::size_t d = 0; d < wanted.o.size(); ++d)
      worst = std::max(worst, std::fabs(reference.o[r * wanted.o.size() + d] - wanted.o[d]));
    CAPTURE(id.request);
    CAPTURE(id.row);
    REQUIRE(worst < 1e-12);
    if (std::isinf(wanted.lse)) {
      REQUIRE(reference.lse[r] == wanted.lse);
    } else {
      REQUIRE(reference.lse[r] == doctest::Approx(wanted.lse).epsilon(1e-12));
    }
  }
}

}  // namespace

TEST_CASE("reference agrees with the definition for every mask and score modifier") {
  Config config;
  config.depth = 24;
  const Workload work = random_workload(ragged_shape(24, 16), config, 11);
  using M = MaskConfig::Kind;
  for (const MaskConfig& mask :
       {MaskConfig{M::none, 0}, MaskConfig{M::causal, 0}, MaskConfig{M::sliding_window, 5},
        MaskConfig{M::sliding_window, 33}, MaskConfig{M::chunked, 16}, MaskConfig{M::window, 0, 7, 4},
        MaskConfig{M::window, 0, -1, 3, 10}, MaskConfig{M::window, 0, -1, -1, 8, true}}) {
    for (const ScoreMod::Kind kind : {ScoreMod::Kind::none, ScoreMod::Kind::softcap, ScoreMod::Kind::alibi}) {
      for (const bool sink : {false, true}) {
        CAPTURE(static_cast<int>(mask.kind));
        CAPTURE(static_cast<int>(kind));
        Semantics semantics{mask, ScoreMod{kind, 3.0, ""}, 0.21, {}, {}, false};
        if (sink) semantics.sink = {0.5, -1.0, 2.0, 0.0};
        if (mask.left_padding) semantics.first_keys.assign(work.shape.lengths_k.size(), 3);
        compare(work, semantics);
      }
    }
  }
}

TEST_CASE("V taken from K") {
  Config config;
  config.depth = 24;
  config.v_from_k = true;
  const Workload work = random_workload(ragged_shape(24, 16), config, 5);
  CHECK(work.v.empty());
  compare(work, {MaskConfig{MaskConfig::Kind::causal, 0}, {}, 0.3, {}, {}, false});
}

TEST_CASE("ALiBi slopes of the paper") {
  CHECK(alibi_kind().of_head(0, 8) == 0.5);
  CHECK(alibi_kind().of_head(7, 8) == doctest::Approx(std::exp2(-8.0)));
  // 12 heads: the eight of 8 heads, then every other one of 16.
  CHECK(alibi_kind().of_head(8, 12) == doctest::Approx(std::exp2(-0.5)));
  CHECK(alibi_kind().of_head(11, 12) == doctest::Approx(std::exp2(-3.5)));
}

TEST_CASE(
    "a sample holds first and last row of every request and head, and its rows are those of the whole") {
  Config config;
  config.depth = 24;
  const Workload work = random_workload(ragged_shape(24, 24), config, 2);
  const MaskConfig mask{MaskConfig::Kind::causal, 0};
  const std::vector<RowId> rows = choose_rows(work.shape, mask, reference_cost(work.shape, mask) / 10, 1);
  CHECK(rows == choose_rows(work.shape, mask, reference_cost(work.shape, mask) / 10, 1));
  const std::vector<RowId> all = choose_rows(work.shape, mask, 1e300, 1);
  CHECK(static_cast<std::int64_t>(all.size()) == work.shape.total_q() * work.shape.heads_q);
  CHECK(rows.size() < all.size() / 4);
  for (std::int64_t b = 0; b < work.shape.batch(); ++b) {
    const std::int64_t length = work.shape.lengths_q[static_cast<std::size_t>(b)];
    for (std::int64_t h = 0; h < 4 && length > 0; ++h) {
      CHECK(std::count(rows.begin(), rows.end(), RowId{b, h, 0}) == 1);
      CHECK(std::count(rows.begin(), rows.end(), RowId{b, h, length - 1}) == 1);
    }
  }
  const Semantics semantics{mask, {}, 0.2, {}, {}, false};
  const Reference part = reference_attention(work, semantics, rows),
                  whole = reference_attention(work, semantics, all);
  CHECK(!part.complete);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<std::size_t>(std::find(all.begin(), all.end(), rows[i]) - all.begin());
    // Equality covers -inf, where no difference can be taken.
    CHECK((part.lse[i] == whole.lse[at] || std::fabs(part.lse[i] - whole.lse[at]) < 1e-12));
  }
}

TEST_CASE("random values are normal, repeatable and different for every tensor") {
  const std::vector<float> a = random_normal(200001, 42, 0), b = random_normal(200001, 42, 1);
  CHECK(a == random_normal(200001, 42, 0));
  CHECK(a != random_normal(200001, 43, 0));
  double sum = 0, squares = 0, product = 0, fourth = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i];
    squares += double{a[i]} * a[i];
    fourth += std::pow(double{a[i]}, 4);
    product += double{a[i]} * b[i];
  }
  const auto n = static_cast<double>(a.size());
  CHECK(std::fabs(sum / n) < 0.01);
  CHECK(squares / n == doctest::Approx(1).epsilon(0.02));
  CHECK(fourth / n == doctest::Approx(3).epsilon(0.05));
  CHECK(std::fabs(product / n) < 0.01);
}
