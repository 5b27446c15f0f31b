// The check must pass what is right and fail what is not: each kind of damage, one at a time.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <kiln/generator.hpp>

#include "workbench/problem/rounding.hpp"
#include "workbench/reference/check.hpp"
#include "workbench/verify/ladder.hpp"

using namespace kiln;

namespace {

struct Case {
  Workload work;
  Reference reference;
  Output output;  ///< the reference, rounded to BF16
};

Case make_case() {
  Config config;
  config.depth = 16;
  ProblemShape shape;
  shape.heads_q = 2;
  shape.heads_kv = 1;
  shape.depth = shape.ov_depth = 16;
  shape.ragged = true;
  shape.lengths_q = {40, 1, 7};
  shape.lengths_k = {40, 1, 3};
  Case c{random_workload(shape, config, 9), {}, {}};
  const Semantics semantics{MaskConfig{MaskConfig::Kind::causal, 0}, {}, 0.25, {}, {}, false};
  c.reference = reference_attention(c.work, semantics, choose_rows(shape, semantics.mask, 1e300, 0));
  c.output.o.resize(static_cast<std::size_t>(shape.total_q() * 2 * 16));
  c.output.lse.resize(static_cast<std::size_t>(shape.total_q() * 2));
  for (std::size_t r = 0; r < c.reference.rows.size(); ++r) {
    const RowId& id = c.reference.rows[r];
    const auto row = static_cast<std::size_t>(
        (shape.offsets_q()[static_cast<std::size_t>(id.request)] + id.row) * 2 + id.head);
    for (std::size_t d = 0; d < 16; ++d)
      c.output.o[row * 16 + d] = static_cast<float>(c.reference.o[r * 16 + d]);
    c.output.lse[row] = static_cast<float>(c.reference.lse[r]);
  }
  round_to(DType::bf16, c.output.o);
  return c;
}

}  // namespace

TEST_CASE("a right result passes, with the errors that rounding makes") {
  const Case c = make_case();
  const CheckReport report = check_output(c.work, c.output, c.reference, {4e-3, 1e-3});
  CHECK(report.passed());
  CHECK(report.all.rel_err > 1e-4);
  CHECK(report.all.rel_err < 3e-3);
  CHECK(report.requests.size() == 3);
  CHECK(report.all.rows == report.rows_total);
}

TEST_CASE("every kind of damage fails") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<const char*, std::function<void(Output&)>> damages[] = {
      {"one wrong element", [](Output& o) { o.o[100] += 1.0F; }},
      {"one NaN", [&](Output& o) { o.o[0] = nan; }},
      {"all NaN", [&](Output& o) { std::fill(o.o.begin(), o.o.end(), nan); }},
      {"all zero", [](Output& o) { std::fill(o.o.begin(), o.o.end(), 0.0F); }},
      {"scaled by one percent",
       [](Output& o) {
         for (float& x : o.o) x *= 1.01F;
       }},
      {"last request swapped",
       [](Output& o) { std::swap_ranges(o.o.end() - 32, o.o.end() - 16, o.o.end() - 16); }},
      {"an empty row that is not zero", [](Output& o) { o.o[41 * 2 * 16] = 0.5F; }},
      {"LSE off", [](Output& o) { o.lse[5] += 0.01F; }},
      {"LSE NaN", [&](Output& o) { o.lse[5] = nan; }},
      {"LSE finite where no key is visible", [](Output& o) { o.lse[41 * 2] = -1e30F; }},
      {"unwritten", [](Output& o) { o.unwritten = 1; }},
  };
  for (const auto& [name, damage] : damages) {
    CAPTURE(name);
    Case c = make_case();
    damage(c.output);
    CHECK(!check_output(c.work, c.output, c.reference, {4e-3, 1e-3}).passed());
  }
}

TEST_CASE("requests of numbers that the output type does not hold are off by no more than those") {
  // As under a sink far above every score: the rows of the request of one query shrink by 2^-18.
  Case c = make_case();
  std::size_t last = 0;
  for (std::size_t r = 0; r < c.reference.rows.size(); ++r) {
    const RowId& id = c.reference.rows[r];
    if (id.request != 1) continue;
    for (std::size_t d = 0; d < 16; ++d) {
      double& wanted = c.reference.o[r * 16 + d];
      wanted *= 0x1p-18;
      last = static_cast<std::size_t>(80 + id.head) * 16 + d;  // 40 rows of two heads before it
      c.output.o[last] = static_cast<float>(std::nearbyint(wanted * 0x1p24) * 0x1p-24);  // FP16's steps
    }
  }
  const Tolerance fp16 = tolerance_of(
      parse_config(R"({"target": "sm_90a", "operation": "decode", "dtype": "fp16", "depth": 64})", "test"));
  CHECK(fp16.least == 0x1p-14);
  const auto tiny_request = [&](double least) {
    return check_output(c.work, c.output, c.reference, {4e-3, 1e-3, false, least}).requests[1].rel_err;
  };
  CHECK(tiny_request(0) > 1e-3);
  CHECK(tiny_request(fp16.least) < 5e-4);
  c.output.o[last] += 0x1p-12F;  // what the type does hold still counts
  CHECK(tiny_request(fp16.least) > 4e-2);
}

TEST_CASE("an exact problem shows one wrong key of a hundred, which FP8's tolerance hides") {
  const Config config = make_plan(parse_config(R"({"target": "sm_90a", "operation": "prefill", "depth": 64,
      "dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}}})",
                                               "test"))
                            .resolved();
  CHECK(has_exact_cases(config));
  for (const bool exact : {false, true}) {
    const PosedCases posed = (exact ? pose_exact_cases : pose_cases)(config, {{60, 100}}, 3, 2);
    Output output;
    output.o.resize(120 * 64), output.lse.resize(120);
    for (std::size_t i = 0; i < 120; ++i) {
      const auto row =
          static_cast<std::size_t>(posed.reference.rows[i].row * 2 + posed.reference.rows[i].head);
      for (std::size_t d = 0; d < 64; ++d)
        output.o[row * 64 + d] = static_cast<float>(posed.reference.o[i * 64 + d]);
      output.lse[row] = static_cast<float>(posed.reference.lse[i]);
    }
    round_to(DType::bf16, output.o);
    const auto check = [&] { return check_output(posed.work, output, posed.reference, posed.tolerance); };
    CHECK(check().passed());
    if (exact) CHECK(check().all.rel_err < 2e-3);
    // A row takes another key's V in place of one: as much of the row as a hundredth of the sum makes.
    for (std::size_t d = 0; d < 64; ++d) output.o[d] += (d % 2 == 0 ? 2.0F : 0.0F) / 100;
    CHECK(check().passed() == !exact);
  }
}

TEST_CASE("poison is counted by element") {
  std::vector<std::byte> bytes(16, std::byte{0});
  CHECK(count_unwritten(bytes, 2) == 0);
  bytes[3] = bytes[4] = kPoison;  // halves of two elements
  CHECK(count_unwritten(bytes, 2) == 0);
  bytes[2] = bytes[5] = kPoison;
  CHECK(count_unwritten(bytes, 2) == 2);
  CHECK(count_unwritten(bytes, 4) == 0);
}

namespace {

/// One head, 8 queries over 24 keys, Q times `size`; the result of the reference, as a kernel leaves it.
Case make_sized(float size) {
  Config config;
  config.depth = 16;
  ProblemShape shape;
  shape.depth = shape.ov_depth = 16;
  shape.lengths_q = {8};
  shape.lengths_k = {24};
  Case c{random_workload(shape, config, 3), {}, {}};
  for (float& x : c.work.q) x *= size;
  return c;
}
void solve(Case& c) {
  const Semantics semantics{MaskConfig{MaskConfig::Kind::causal, 0}, {}, 0.25, {}, {}, false};
  c.reference = reference_attention(c.work, semantics, choose_rows(c.work.shape, semantics.mask, 1e300, 0));
  c.output.o.assign(c.reference.o.begin(), c.reference.o.end());
  c.output.lse.assign(c.reference.lse.begin(), c.reference.lse.end());
}
bool passes(const Case& c) {
  return check_output(c.work, c.output, c.reference, {4e-3, 1e-3}).passed();
}
/// Whether row `r` of the reference is that of V's key `key`: a softmax over scores far apart takes one key.
bool takes(const Case& c, std::size_t r, std::size_t key) {
  double distance = 0;
  for (std::size_t d = 0; d < 16; ++d)
    distance += std::fabs(c.reference.o[16 * r + d] - c.work.v[16 * key + d]);
  return distance < 1e-3;
}

}  // namespace

TEST_CASE("large scores: what their rounding does passes, what it cannot do fails") {
  // Scores of about 1e5, which a sum of floats holds to a few hundredths: two keys that are almost the same.
  Case c = make_sized(1e5F);
  for (std::size_t d = 0; d < 16; ++d) c.work.k[16 + d] = c.work.k[d] *= 10;
  c.work.k[16] = std::nextafter(c.work.k[0], 10.0F);
  solve(c);
  CHECK(passes(c));
  std::size_t shared = 0, strict = 0;
  for (std::size_t r = 0; r < 8; ++r) shared += c.reference.o_slack[r] > 0.1 ? 1 : 0;
  CHECK(shared > 0);  // the largest score is that of both keys
  for (std::size_t r = 0; r < 8; ++r) {
    Case wrong = c;
    // All of it is the row of V of a key that has none of the weight.
    const std::size_t key = takes(c, r, 9) ? 10 : 9;
    for (std::size_t d = 0; d < 16; ++d) wrong.output.o[16 * r + d] = c.work.v[16 * key + d];
    if (c.reference.o_slack[r] < 0.1) {
      CHECK(!passes(wrong));
      ++strict;
    }
    Case off = c;
    off.output.lse[r] += static_cast<float>(c.reference.lse_slack[r] + 4e-3 * std::fabs(c.reference.lse[r]));
    CHECK(!passes(off));
    Case bit = c;
    bit.output.lse[r] = std::nextafter(c.output.lse[r], 1e30F);
    CHECK(passes(bit));
  }
  CHECK(strict > 0);
}

TEST_CASE("ordinary scores have no slack") {
  Case c = make_sized(1);
  solve(c);
  for (const double slack : c.reference.o_slack) CHECK(slack == 0);
  for (const double slack : c.reference.lse_slack) CHECK(slack == 0);
}

TEST_CASE("NaN and infinities must be where the inputs put them") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Case c = make_sized(1);
  c.work.q[2 * 16 + 1] = nan;   // row 2 of Q
  c.work.v[22 * 16 + 3] = inf;  // seen by rows 6 and 7
  c.work.v[23 * 16 + 5] = nan;  // by row 7
  solve(c);
  CHECK(std::isnan(c.reference.lse[2]));
  for (std::size_t r = 0; r < 8; ++r) {
    CAPTURE(r);
    CHECK(std::isnan(c.reference.o[16 * r]) == (r == 2));
    CHECK(std::isinf(c.reference.o[16 * r + 3]) == (r >= 6));
    CHECK(std::isnan(c.reference.o[16 * r + 5]) == (r == 2 || r == 7));
  }
  CHECK(passes(c));
  for (const auto& [index, value] :
       {std::pair<std::size_t, float>{2 * 16, 1.0F}, {7 * 16 + 5, 0.0F}, {6 * 16 + 3, -inf}, {16, nan}}) {
    Case wrong = c;
    wrong.output.o[index] = value;
    CHECK(!passes(wrong));
  }
  Case lse = c;
  lse.output.lse[2] = -inf;
  CHECK(!passes(lse));
}

TEST_CASE("sums beyond a float may be infinite, and nothing else may") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const bool of_scores : {true, false}) {
    CAPTURE(of_scores);
    Case c = make_sized(1);
    if (of_scores) {
      for (float& x : c.work.q) x *= 1e19F;
      for (float& x : c.work.k) x *= 3e18F;
    } else {
      for (float& x : c.work.v) x = std::copysign(3e38F, x);
    }
    solve(c);
    CHECK(c.reference.overflow[7] == (of_scores ? Reference::kOfScores : Reference::kOfValues));
    CHECK(std::isfinite(c.reference.o[7 * 16]));
    CHECK(passes(c));
    Case over = c;
    over.output.o[7 * 16 + 2] = of_scores ? nan : inf;
    CHECK(passes(over));
    over.output.lse[7] = nan;
    CHECK(passes(over) == of_scores);
    Case wrong = c;  // finite, and of no key
    for (std::size_t d = 0; d < 16; ++d) wrong.output.o[7 * 16 + d] *= of_scores ? -100.0F : -0.5F;
    CHECK(!passes(wrong));
  }
}

TEST_CASE("rows of subnormal numbers are right as their type holds them") {
  Case c = make_sized(1);
  for (float& x : c.work.v) x *= 1e-39F;
  round_to(DType::bf16, c.work.v);
  solve(c);
  const Tolerance bf16 = tolerance_of(
      parse_config(R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 64})", "test"));
  CHECK(check_output(c.work, c.output, c.reference, bf16).passed());
  c.output.o[16 * 3] = 1e-30F;
  CHECK(!check_output(c.work, c.output, c.reference, bf16).passed());
}
