// sm100_prefill with one tile of queries a block, and one O: rows of over 192 columns, and narrower ones on request.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/schedules/schedule.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::check_up_the_ladder;
using kiln::test::compiler;
using kiln::test::count;
using kiln::test::emulated;
using kiln::test::plan_with;

namespace {

Plan one_tile_plan(const std::string& keys) {
  return plan_with(
      {{"target", "sm_100a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 256}, {"lse", true}},
      keys);
}

void check_one_tile(const std::vector<std::string>& configs) {
  check_up_the_ladder(configs, [](const std::string& keys) {
    Plan plan = one_tile_plan(keys);
    CHECK(plan.resolved().BM == 128);
    CHECK(plan.resolved().single_o == true);
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    return plan;
  });
}

}  // namespace

// Products are those of S of the first tile and of the loop, and of O of the loop and the last.
TEST_CASE("sm100_prefill, one tile of queries: static counts" * doctest::test_suite("breadth")) {
  struct Counts {
    const char *keys, *kind;
    int k_steps, v_steps, columns, elected, BN, stages;
    bool shared;
  };
  const Counts table[] = {
      {R"("depth": 256)", "kind::f16", 16, 4, 512, 2, 64, 5, true},
      {R"("depth": 208, "mask": "causal")", "kind::f16", 13, 4, 512, 3, 64, 5, true},
      {R"("ov_depth": 128, "operand": {"kind": "ragged"})", "kind::f16", 16, 4, 256, 2, 64, 5, true},
      {R"("dtype": "fp8_e4m3")", "kind::f8f6f4", 8, 4, 512, 2, 128, 5, true},
      {R"("depth": 128, "BM": 128, "mask": "causal")", "kind::f16", 8, 8, 512, 3, 128, 3, false},
  };
  for (const Counts& c : table) {
    CAPTURE(c.keys);
    const Plan plan = one_tile_plan(c.keys);
    CHECK(plan.resolved().BN == c.BN);
    CHECK(plan.resolved().num_kv_stages == c.stages);
    CHECK(plan.resolved().shared_ring == c.shared);
    CHECK(plan.resolved().num_threads == 384);
    const KernelSource source = generate(plan);
    const auto compiled = compiler().compile(source);
    const std::string& ptx = compiled->ptx;
    CHECK(count(ptx, std::string("tcgen05.mma.cta_group::1.") + c.kind) == 2 * (c.k_steps + c.v_steps));
    CHECK(count(ptx, "tcgen05.mma.") == 2 * (c.k_steps + c.v_steps));
    CHECK(count(ptx, "elect.sync") == c.elected);
    CHECK(count(ptx, "tcgen05.alloc") == 1);
    CHECK(count(ptx, "tcgen05.dealloc") == 1);
    CHECK(source.text.find("tmem_alloc(smem + " + std::to_string(source.manifest.smem_bytes - 4) + ", " +
                           std::to_string(c.columns) + ");") != std::string::npos);
    CHECK(compiled->registers == 168);  // at launch, of 384 threads
    CHECK(compiled->spill_bytes == 0);
    CHECK(source.manifest.num_threads == 384);
    CHECK(source.manifest.smem_bytes <= 232448);
    CHECK(count(source.text, "SETMAXNREG_INC(232)") == 1);
    CHECK(count(source.text, "SETMAXNREG_DEC(152)") == 1);
    CHECK(count(source.text, "SETMAXNREG_DEC(120)") == 2);
    CHECK(232 + 152 + 120 <= 3 * 168);
  }
}

TEST_CASE("sm100_prefill, one tile of queries: rows of over 192 columns" * doctest::test_suite("breadth")) {
  check_one_tile({
      R"("mask": "none")",
      R"("mask": "causal", "sink": true)",
      R"("depth": 208, "mask": {"sliding_window": 70}, "operand": {"kind": "ragged"}, "score_mod": {"softcap": 20})",
      R"("depth": 224, "ov_depth": 64, "mask": {"chunked": 100}, "operand": {"kind": "continuous"})",
      R"("dtype": "fp16", "mask": "causal", "operand": {"kind": "paged", "page_size": 16}, "score_mod": "alibi")",
      R"("depth": 240, "mask": "custom", "operand": {"kind": "paged", "page_size": 48})",
      R"("mask": "causal", "operand": {"kind": "paged", "page_size": 2}, "num_pv_stages": 1)",
      R"("depth": 64, "ov_depth": 256, "mask": "causal")",
      R"("mask": "causal", "num_qk_stages": 4)",
      R"("mask": "causal", "bn_cap": 96, "exp_offload": 0.25)",
      R"("mask": "causal", "target": "sm_103a")",
      R"("mask": {"window": {"left": "launch", "right": "launch", "chunk": "launch"}}, "operand": {"kind": "ragged"})",
  });
}

TEST_CASE("sm100_prefill, one tile of queries: FP8" * doctest::test_suite("breadth")) {
  check_one_tile({
      R"("dtype": "fp8_e4m3", "mask": "causal")",
      R"("dtype": "fp8_e4m3", "depth": 224, "mask": {"sliding_window": 100}, "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})",
      R"("dtype": "fp8_e4m3", "out_dtype": "fp16", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_sequence"}}, "score_mod": {"softcap": 20})",
  });
}

TEST_CASE("sm100_prefill: one tile of queries by request" * doctest::test_suite("breadth")) {
  check_one_tile({
      R"("depth": 128, "BM": 128, "mask": "causal")",
      R"("depth": 64, "single_o": true, "mask": "causal", "operand": {"kind": "paged", "page_size": 32})",
      R"("depth": 32, "BM": 128, "operand": {"kind": "ragged"})",
      R"("depth": 192, "BM": 128, "shared_ring": false, "mask": {"sliding_window": 100})",
      R"("depth": 128, "BM": 128, "dtype": "fp8_e4m3", "mask": "custom")",
  });
}

TEST_CASE("sm100_prefill, one tile of queries: items without keys, before, between and after others") {
  const std::vector<LadderCase> cases{{1, 400}, {255, 300}, {5, 0},  {400, 129}, {200, 63},
                                      {127, 0}, {64, 0},    {3, 40}, {300, 1}};
  for (const char* operand : {R"("kind": "ragged")", R"("kind": "paged", "page_size": 32)"}) {
    CAPTURE(operand);
    const Plan plan =
        one_tile_plan(std::string(R"("depth": 224, "mask": "causal", "operand": {)") + operand + "}");
    const KernelSource source = generate(plan);
    EmulatorOptions how;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
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

TEST_CASE("sm100_prefill: tiles of queries and O that do not go together are refused") {
  const std::pair<const char*, const char*> refused[] = {
      {R"("depth": 128, "BM": 128, "single_o": false)", "/single_o"},
      {R"("depth": 128, "BM": 256, "single_o": true)", "/single_o"},
      {R"("depth": 128, "BM": 64)", "/BM"},
      {R"("ov_depth": 128, "BM": 256)", "/BM"},
      {R"("BN": 128)", "nearest legal: 64"},
      {R"("bn_cap": 128)", "/bn_cap"},
      {R"("num_threads": 512)", "/num_threads"},
      {R"("num_qk_stages": 2, "shared_ring": true)", "/num_qk_stages"},
      {R"("depth": 272, "schedule": "sm100_prefill")", "nearest legal: 256"},
  };
  for (const auto& [keys, part] : refused) {
    CAPTURE(keys);
    CHECK_THROWS_WITH(one_tile_plan(keys), doctest::Contains(part));
  }
  // A resolved config plans to itself.
  for (const char* keys : {R"("mask": "causal")", R"("bn_cap": 96)", R"("depth": 128, "BM": 128)"}) {
    const Plan plan = one_tile_plan(keys);
    CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
  }
}
