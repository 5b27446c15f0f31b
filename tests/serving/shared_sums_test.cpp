// Keys of one sequence divided among many blocks of sm_90a, which add up the parts together: each some rows (or units of
// latent rows), or one of them all where another could not wait.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using namespace kiln::test;
using nlohmann::json;

namespace {

Plan divided_plan(const char* keys) {
  json config = {{"name", "sums"},  {"target", "sm_90a"}, {"operation", "decode"},
                 {"dtype", "bf16"}, {"depth", 128},       {"mask", "causal"},
                 {"lse", true}};
  config.update(json_of(keys));
  return plan_of(config);
}

LadderRun run_divided(const Plan& plan, const KernelSource& source, EmulatorOptions::Policy policy,
                      bool hidden = false) {
  EmulatorOptions how;
  how.policy = policy, how.seed = 5, how.num_sms = kDividedSms;
  const auto cases = divided_case(plan.resolved());
  if (hidden) return run_posed(emulated(), source, pose_hidden_cases(plan.resolved(), cases, 3, 1), how);
  return run_cases(emulated(), plan, source, cases, how, 1);
}

void check_run(const LadderRun& run) {
  for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
  for (const auto& finding : run.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
}

/// `source` with `to` in place of the only `from`.
KernelSource with(KernelSource source, const std::string& from, const std::string& to) {
  const std::size_t at = source.text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(source.text.find(from, at + 1) == std::string::npos);
  source.text.replace(at, from.size(), to);
  return source;
}

const char* const kConfigs[] = {
    R"({"BM": 8, "group": 1})",
    R"({"BM": 16})",
    R"({"BM": 32, "sink": true, "out_dtype": "f32"})",
    R"({"BM": 64, "operand": {"kind": "paged", "page_size": 16}})",
    R"({"BM": 16, "depth": 80, "mask": "none", "lse": false})",
    R"({"BM": 16, "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_token"}}})",
    R"({"depth": 576, "ov_depth": 512, "v_from_k": true, "BM": 64})",
    R"({"depth": 576, "ov_depth": 512, "v_from_k": true, "BM": 64, "mask": "none"})",
};

using Policy = EmulatorOptions::Policy;

}  // namespace

TEST_CASE("blocks that have nothing else to do share the sum of an item's parts" *
          doctest::test_suite("breadth")) {
  for (const char* keys : kConfigs) {
    INFO(std::string(keys));
    const Plan plan = divided_plan(keys);
    const KernelSource source = generate(plan);
    for (const Policy policy : {Policy::eager, Policy::lazy, Policy::random})
      check_run(run_divided(plan, source, policy));
    // They do: without their shares rows of O stay as they were.
    const KernelSource none = with(source, "own[0] = together && waits ? before >> 10 & kBlocks",
                                   "own[0] = together && waits ? -1");
    CHECK_FALSE(run_divided(plan, none, Policy::lazy).check.passed());
  }
}

TEST_CASE("where a block does not wait for the others one adds up alone" * doctest::test_suite("breadth")) {
  for (const char* keys : kConfigs) {
    INFO(std::string(keys));
    const Plan plan = divided_plan(keys);
    const KernelSource source = generate(plan), hasty = with(source, "look < 96", "look < 0");
    for (const Policy policy : {Policy::lazy, Policy::random}) check_run(run_divided(plan, hasty, policy));
  }
}

TEST_CASE("hidden values are repaired by the blocks that add up their rows") {
  for (const char* keys : {R"({"BM": 16})", R"({"BM": 64})", R"({"BM": 8})"}) {
    INFO(std::string(keys));
    const Plan plan = divided_plan(keys);
    const KernelSource source = generate(plan);
    for (const char* looks : {"look < 96", "look < 0"})
      check_run(run_divided(plan, with(source, "look < 96", looks), Policy::random, true));
  }
}
