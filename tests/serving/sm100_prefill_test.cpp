// sm100_prefill on the emulated device: operand kinds, page sizes, masks and modifiers at the lengths where tiles end,
// and items without keys between others.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/schedules/schedule.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::emulated;

namespace {

Plan plan_of(const std::string& keys) {
  nlohmann::ordered_json config = {
      {"target", "sm_100a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 64}, {"lse", true}};
  config.update(nlohmann::ordered_json::parse("{" + keys + "}"));
  return make_plan(parse_config(config.dump(), "test"));
}

void check_up_the_ladder(const std::vector<std::string>& configs) {
  std::uint64_t seed = 0;
  for (const std::string& keys : configs) {
    CAPTURE(keys);
    const Plan plan = plan_of(keys);
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    check_at_tile_ends(plan, ++seed);
  }
}

}  // namespace

TEST_CASE("sm100_prefill: operands of sequences of different lengths") {
  check_up_the_ladder({
      R"("operand": {"kind": "ragged"}, "depth": 128, "mask": "causal")",
      R"("operand": {"kind": "ragged"}, "sink": true)",
      R"("operand": {"kind": "continuous"}, "mask": {"sliding_window": 70})",
      R"("operand": {"kind": "paged", "page_size": 256}, "mask": {"chunked": 100})",
      R"("operand": {"kind": "paged", "page_size": 48}, "depth": 96, "mask": "causal")",
      R"("operand": {"kind": "paged", "page_size": 16}, "depth": 128, "mask": "causal", "score_mod": {"softcap": 20})",
      R"("operand": {"kind": "paged", "page_size": 2}, "mask": "causal")",
      R"("operand": {"kind": "paged", "page_size": 1}, "mask": "custom", "BN": 64)",
  });
}

TEST_CASE("sm100_prefill: FP8 with scales of a tensor, a head and a sequence") {
  const auto scaled = [](const char* granularity) {
    return std::string(R"(, "quantization": {"granularity": ")") + granularity + "\"}}";
  };
  check_up_the_ladder({
      R"("dtype": "fp8_e4m3", "depth": 128)",
      R"("dtype": "fp8_e4m3", "depth": 96, "mask": {"sliding_window": 70}, "operand": {"kind": "ragged")" +
          scaled("per_tensor"),
      R"("dtype": "fp8_e4m3", "depth": 128, "ov_depth": 64, "sink": true, "operand": {"kind": "contiguous")" +
          scaled("per_head"),
      R"("dtype": "fp8_e4m3", "out_dtype": "fp16", "score_mod": {"softcap": 20}, "mask": "causal", "operand": {"kind": "continuous")" +
          scaled("per_head"),
      R"("dtype": "fp8_e4m3", "depth": 32, "score_mod": "alibi", "operand": {"kind": "paged", "page_size": 16)" +
          scaled("per_sequence"),
      R"("dtype": "fp8_e4m3", "depth": 128, "operand": {"kind": "paged", "page_size": 2}, "shared_ring": false)",
  });
}

TEST_CASE("sm100_prefill: scales of zero and below") {
  for (const char* keys : {R"("depth": 128)", R"("score_mod": {"softcap": 30})"}) {
    CAPTURE(keys);
    const Plan plan = plan_of(
        R"("dtype": "fp8_e4m3", "mask": "causal", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}}, )" +
        std::string(keys));
    PosedCases posed = pose_cases(plan.resolved(), {{70, 300}, {1, 197}, {130, 130}}, 5, 6);
    std::vector<float>& scales = posed.work.k_scale->values;
    scales = {0.0F, -scales[1], scales[2]};
    posed.reference = reference_attention(
        posed.work, semantics_of(plan.resolved(), posed.work),
        choose_rows(posed.work.shape, semantics_of(plan.resolved(), posed.work).mask, 1e300, 0));
    const LadderRun run = run_posed(emulated(), generate(plan), posed, EmulatorOptions{});
    for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
    for (const auto& finding : run.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  }
}

TEST_CASE("sm100_prefill: windows of two sides, from the config and at launch") {
  check_up_the_ladder({
      R"("mask": {"window": {"left": 70, "right": 30}})",
      R"("mask": {"window": {"right": 5, "chunk": 48}}, "depth": 128)",
      R"("mask": {"window": {"left": "launch", "right": "launch", "chunk": "launch"}})",
      R"("mask": {"window": {"left": "launch", "right": "launch", "chunk": "launch"}}, "operand": {"kind": "ragged"})",
      R"("mask": {"window": {"left": "launch", "right": 0, "left_padding": true}}, "operand": {"kind": "paged", "page_size": 16})",
      R"("mask": {"window": {"left": "launch", "right": "launch", "chunk": "launch"}}, "dtype": "fp8_e4m3")",
  });
}

// The copies tell the correction at such an item that they saw Q's place free: else the correction could empty it twice
// before they look, which reads as once less.
TEST_CASE("sm100_prefill: items without keys, before, between and after others") {
  const std::vector<LadderCase> cases{{1, 400}, {255, 300}, {5, 0},  {400, 129}, {700, 127},
                                      {127, 0}, {64, 0},    {3, 40}, {300, 1}};
  for (const char* operand : {R"("kind": "ragged")", R"("kind": "paged", "page_size": 32)"}) {
    CAPTURE(operand);
    const Plan plan = plan_of(std::string(R"("mask": "causal", "operand": {)") + operand + "}");
    const KernelSource source = generate(plan);
    EmulatorOptions how;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      how.seed = seed;
      how.policy = seed == 0   ? EmulatorOptions::Policy::lazy
                   : seed == 1 ? EmulatorOptions::Policy::eager
                               : EmulatorOptions::Policy::random;
      how.num_sms = 1 + static_cast<int>(seed % 2);
      const LadderRun run = run_cases(emulated(), plan, source, cases, how, 2);
      for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
      for (const auto& finding : run.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    }
  }
}
