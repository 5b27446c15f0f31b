// The work items of ragged prefill on sm_90a, on the emulated device: batches longer than a warp, of many
// lengths, with sequences of no rows, and that rows which no sequence has cost nothing.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::emulated;
using kiln::test::plan_with;

namespace {

Plan ragged_plan(const std::string& keys) {
  return plan_with({{"target", "sm_90a"},
                    {"operation", "prefill"},
                    {"dtype", "bf16"},
                    {"depth", 64},
                    {"mask", "causal"},
                    {"operand", {{"kind", "ragged"}}}},
                   keys);
}

ProblemShape ragged_shape(const Plan& plan, std::vector<std::int64_t> lengths_q,
                          std::vector<std::int64_t> lengths_k) {
  ProblemShape shape;
  shape.heads_q = 6, shape.heads_kv = 3;
  shape.depth = shape.ov_depth = plan.resolved().depth;
  shape.ragged = true;
  shape.lengths_q = std::move(lengths_q), shape.lengths_k = std::move(lengths_k);
  return shape;
}

RunResult run_plan(const Plan& plan, const Workload& work) {
  return run_workload(emulated(), *emulated().load(generate(plan)), work);
}

double instructions(const Plan& plan, const std::vector<std::int64_t>& lengths) {
  const RunResult result =
      run_plan(plan, random_workload(ragged_shape(plan, lengths, lengths), plan.resolved(), 1));
  for (const auto& [name, count] : result.counters)
    if (name == "instructions") return static_cast<double>(count);
  return 0;
}

}  // namespace

TEST_CASE("ragged prefill: more sequences than lanes, of every length class, some without rows or keys" *
          doctest::test_suite("breadth")) {
  for (
      const char* keys :
      {R"("depth": 64)", R"("depth": 128, "mask": "none")",
       R"("operand": {"kind": "paged", "page_size": 16})",
       R"("depth": 128, "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_head"}})",
       R"("dtype": "fp8_e4m3", "depth": 128)"}) {
    CAPTURE(keys);
    const Plan plan = ragged_plan(keys);
    std::vector<std::int64_t> q, k;
    for (int i = 0; i < 75; ++i) {
      constexpr std::int64_t kRows[] = {1, 0, 5, 1, 70, 130, 0, 257}, kBefore[] = {0, 64, 0, 300, 9};
      q.push_back(kRows[i * 5 % 8]);
      k.push_back(i % 11 == 3 ? 0 : q.back() + kBefore[i % 5]);
    }
    const Workload work = random_workload(ragged_shape(plan, q, k), plan.resolved(), 3);
    const RunResult result = run_plan(plan, work);
    const Semantics semantics = semantics_of(plan.resolved(), work);
    const Reference reference =
        reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0));
    for (const std::string& failure :
         check_output(work, result.output, reference, tolerance_of(plan.resolved())).failures)
      FAIL_CHECK(failure);
    for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  }
}

TEST_CASE("ragged prefill: a long sequence among short ones costs what the two cost apart" *
          doctest::test_suite("breadth")) {
  const Plan plan = ragged_plan(R"("depth": 128)");
  const std::vector<std::int64_t> longer{1200}, shorter(60, 1);
  std::vector<std::int64_t> both = shorter;
  both.insert(both.begin() + 20, longer[0]);
  CHECK(instructions(plan, both) < 1.05 * (instructions(plan, longer) + instructions(plan, shorter)));
}

// Of three tiles the first rows see two, and V of the last keys comes into the slot of the tile that they pass over.
TEST_CASE("prefill whose first rows pass over a tile, and then fill every slot again" *
          doctest::test_suite("breadth")) {
  for (const char* operand : {"contiguous", "ragged", "paged"}) {
    auto config = json_of(
        R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 192,
        "ov_depth": 128, "mask": "causal", "lse": true})");
    config["operand"] = {{"kind", operand}};
    CAPTURE(operand);
    kiln::test::check_at_tile_ends(make_plan(parse_config(write_json(config), "test")), 0);
  }
}
