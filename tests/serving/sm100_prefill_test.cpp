// sm100_prefill on the emulated device: operand kinds, page sizes, masks and modifiers at the lengths where tiles end,
// and items without keys between others.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/schedules/schedule.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::check_up_the_ladder;
using kiln::test::compiler;
using kiln::test::count;
using kiln::test::emulated;
using kiln::test::plan_with;

namespace {

Plan sm100_prefill_plan(const std::string& keys) {
  return plan_with(
      {{"target", "sm_100a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 64}, {"lse", true}},
      keys);
}

void check_prefill(const std::vector<std::string>& configs) {
  check_up_the_ladder(configs, [](const std::string& keys) {
    Plan plan = sm100_prefill_plan(keys);
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    return plan;
  });
}

}  // namespace

// What the schedule is made of, in the compiled program. Products are those of S0, S1, O0 and O1, of the first or last
// tile and of the loop; an elected region each for products, copies and the counter of work items.
TEST_CASE("sm100_prefill: static counts") {
  struct Counts {
    const char *keys, *kind;
    int k_steps, v_steps, columns, elected;
    int softmax = 184, correction = 88,
        issue = 56;  // registers of a thread: 2 * 184 + 88 + 56 is four times 128
  };
  const Counts table[] = {
      {R"("depth": 128)", "kind::f16", 8, 8, 512, 2},
      {R"("depth": 128, "mask": "causal")", "kind::f16", 8, 8, 512, 3},
      {R"("depth": 64, "operand": {"kind": "ragged"})", "kind::f16", 4, 8, 512, 2},
      {R"("depth": 192, "ov_depth": 128, "mask": "causal")", "kind::f16", 12, 4, 512, 3, 176, 88, 72},
      {R"("depth": 128, "mask": {"sliding_window": 256})", "kind::f16", 8, 8, 512, 3, 176, 96, 64},
      {R"("depth": 128, "dtype": "fp8_e4m3")", "kind::f8f6f4", 4, 4, 512, 2},
  };
  for (const Counts& c : table) {
    CAPTURE(c.keys);
    const KernelSource source = generate(sm100_prefill_plan(c.keys));
    const auto compiled = compiler().compile(source);
    const std::string& ptx = compiled->ptx;
    CHECK(count(ptx, std::string("tcgen05.mma.cta_group::1.") + c.kind) == 4 * (c.k_steps + c.v_steps));
    CHECK(count(ptx, "tcgen05.mma.") == 4 * (c.k_steps + c.v_steps));
    CHECK(count(ptx, "elect.sync") == c.elected);
    CHECK(count(ptx, "tcgen05.alloc") == 1);
    CHECK(count(ptx, "tcgen05.dealloc") == 1);
    CHECK(source.text.find("tmem_alloc(smem + " + std::to_string(source.manifest.smem_bytes - 4) + ", " +
                           std::to_string(c.columns) + ");") != std::string::npos);
    CHECK(compiled->registers == 128);  // at launch
    CHECK(compiled->spill_bytes == 0);
    CHECK(source.manifest.smem_bytes <= 232448);
    CHECK(2 * c.softmax + c.correction + c.issue <= 4 * 128);
    CHECK(count(source.text, "SETMAXNREG_INC(" + std::to_string(c.softmax) + ")") == 1);
    CHECK(count(source.text, "SETMAXNREG_DEC(" + std::to_string(c.correction) + ")") == 1);
    CHECK(count(source.text, "SETMAXNREG_DEC(" + std::to_string(c.issue) + ")") == 2);
  }
}

// Shares in groups of four scores of each row, masked tiles like others: a hidden score is an exact zero on either pipe.
TEST_CASE("sm100_prefill: exponentials on the FMA pipe" * doctest::test_suite("breadth")) {
  const std::vector<std::pair<std::string, int>> shares{
      {R"("exp_offload": 0)", 0},
      {R"("exp_offload": 0.25, "depth": 128, "mask": "causal")", 8},
      {R"("exp_offload": 0.1875, "dtype": "fp16", "mask": {"sliding_window": 70}, "operand": {"kind": "ragged"})",
       6},
      {R"("exp_offload": 0.5, "depth": 192, "mask": "custom", "sink": true)", 8},
      {R"("exp_offload": 1, "dtype": "fp8_e4m3", "depth": 128, "mask": {"chunked": 100})", 32},
      {R"("exp_offload": 0.3, "dtype": "fp8_e4m3", "score_mod": "alibi", "mask": "causal")", 9},
  };
  std::vector<std::string> configs;
  for (const auto& [keys, groups] : shares) {
    CAPTURE(keys);
    const Plan plan = sm100_prefill_plan(keys);
    const bool bytes = plan.resolved().dtype == DType::fp8_e4m3;
    const std::string& text = generate(plan).text;
    CHECK(count(text, " exponentials_fma(s[") == groups * (bytes ? 1 : 2));
    CHECK(count(text, " exponentials(s[") == (*plan.resolved().BN / 4 - groups) * (bytes ? 1 : 2));
    if (groups > 0) configs.push_back(keys);
  }
  check_prefill(configs);
  // A larger share spills where no mask bounds the keys.
  for (const char* keys : {R"("exp_offload": 0.5)", R"("exp_offload": 1, "depth": 128)"})
    CHECK_THROWS_WITH(sm100_prefill_plan(keys), doctest::Contains("/exp_offload"));
  CHECK_NOTHROW(sm100_prefill_plan(R"("exp_offload": 0.25)"));
}

TEST_CASE("sm100_prefill: bn_cap is below the tile that would be without it") {
  const auto with_cap = [](int cap) {
    return sm100_prefill_plan(R"("depth": 128, "bn_cap": )" + std::to_string(cap));
  };
  const int widest = sm100_prefill_plan(R"("depth": 128)").resolved().BN.value();
  CHECK_THROWS_AS(with_cap(widest), Error);
  const Plan plan = with_cap(widest - 32);
  CHECK(plan.resolved().BN.value() <= widest - 32);
  // A resolved config has both keys, and plans to itself.
  const Plan again = make_plan(plan.resolved());
  CHECK(generate(again).text == generate(plan).text);
}

TEST_CASE("sm100_prefill: operands of sequences of different lengths" * doctest::test_suite("breadth")) {
  check_prefill({
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

TEST_CASE("sm100_prefill: rows of up to 192 columns, and of other widths in V" *
          doctest::test_suite("breadth")) {
  check_prefill({
      R"("depth": 192, "ov_depth": 128, "mask": "causal")",
      R"("depth": 192, "operand": {"kind": "paged", "page_size": 16})",
      R"("depth": 64, "ov_depth": 176, "operand": {"kind": "ragged"})",
      R"("depth": 160, "dtype": "fp8_e4m3", "mask": {"sliding_window": 100})",
  });
}

TEST_CASE("sm100_prefill: FP8 with scales of a tensor, a head and a sequence" *
          doctest::test_suite("breadth")) {
  const auto scaled = [](const char* granularity) {
    return std::string(R"(, "quantization": {"granularity": ")") + granularity + "\"}}";
  };
  check_prefill({
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
    const Plan plan = sm100_prefill_plan(
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

TEST_CASE("sm100_prefill: windows of two sides, from the config and at launch" *
          doctest::test_suite("breadth")) {
  check_prefill({
      R"("mask": {"window": {"left": 70, "right": 30}})",
      R"("mask": {"window": {"right": 5, "chunk": 48}}, "depth": 128)",
      R"("mask": {"window": {"right": "launch"}}, "depth": 128)",
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
    const Plan plan = sm100_prefill_plan(std::string(R"("mask": "causal", "operand": {)") + operand + "}");
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
