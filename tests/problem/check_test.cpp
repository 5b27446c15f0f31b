// The check must pass what is right and fail what is not: each kind of damage, one at a time.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <kiln/generator.hpp>

#include "runtime/problem/check.hpp"
#include "runtime/problem/ladder.hpp"
#include "runtime/problem/rounding.hpp"

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
