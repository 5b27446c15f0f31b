// sm100_latent_pair: decode and prefill over latent rows by pairs of blocks, 64 packed rows in each.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "runtime/launch/geometry.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_cases;
using kiln::test::compiler;
using kiln::test::count;
using kiln::test::plan_with;

namespace {

constexpr auto kLazy = EmulatorOptions::Policy::lazy, kRandom = EmulatorOptions::Policy::random;

nlohmann::ordered_json pair_keys(const char* operation) {
  return {{"target", "sm_100a"}, {"operation", operation}, {"dtype", "bf16"}, {"depth", 576},
          {"ov_depth", 512},     {"v_from_k", true},       {"lse", true},     {"pair_cta", true}};
}
Plan pair_plan(const std::string& keys, const char* operation = "decode") {
  return plan_with(pair_keys(operation), keys);
}

void check_pairs(const Plan& plan, const std::vector<LadderCase>& cases, EmulatorOptions::Policy policy,
                 int num_sms, std::int64_t heads) {
  EmulatorOptions emulator;
  emulator.policy = policy;
  emulator.seed = 11;
  emulator.num_sms = num_sms;
  check_cases(plan, cases, emulator, heads);
}

}  // namespace

TEST_CASE("sm100_latent_pair: static counts") {
  struct Counts {
    const char* keys;
    int k_steps, v_steps, stages, chunks;
  };
  const Counts table[] = {
      {R"("mask": "causal")", 36, 16, 1, 3},
      {R"("depth": 448, "ov_depth": 384)", 28, 16, 1, 1},
      {R"("depth": 256, "ov_depth": 128, "dtype": "fp16")", 16, 8, 3, 2},
  };
  for (const Counts& c : table) {
    CAPTURE(c.keys);
    const Plan plan = pair_plan(c.keys);
    CHECK(*plan.resolved().schedule == "sm100_latent_pair");
    CHECK(plan.resolved().BM == 128);
    CHECK(plan.resolved().BN == 128);
    CHECK(plan.resolved().num_kv_stages == c.stages);
    CHECK(plan.resolved().num_qk_stages == c.chunks);
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    const KernelSource source = generate(plan);
    CHECK(source.manifest.cluster == std::array<int, 3>{2, 1, 1});
    CHECK(source.manifest.smem_bytes <= 232448);
    const auto compiled = compiler().compile(source);
    CHECK(count(compiled->ptx, "tcgen05.mma.cta_group::2.kind::f16") == c.k_steps + c.v_steps);
    CHECK(count(compiled->ptx, "cta_group::1") == 0);
    CHECK(compiled->spill_bytes == 0);
  }
}

TEST_CASE("sm100_latent_pair: rows of both blocks, of the first alone, and of several items") {
  // 3 heads: rows of the second block are missing; 128: none is; 130: an item of two rows behind.
  const Plan plan =
      pair_plan(R"("operand": {"kind": "paged", "page_size": 64}, "mask": "causal", "sink": true)");
  check_pairs(plan, {{1, 300}, {2, 63}}, kRandom, 4, 3);
  check_pairs(plan, {{1, 300}, {1, 0}}, kLazy, 5, 128);
  check_pairs(plan, {{1, 129}}, kRandom, 1, 130);
}

TEST_CASE("sm100_latent_pair: operands" * doctest::test_suite("breadth")) {
  const std::vector<LadderCase> cases{{1, 260}, {3, 100}, {2, 0}, {1, 128}};
  for (
      const char* keys : {
          R"("operand": {"kind": "ragged"}, "mask": "causal", "out_dtype": "f32")",
          R"("operand": {"kind": "paged", "page_size": 1})",
          R"("operand": {"kind": "paged", "page_size": 3}, "mask": "causal")",
          R"("operand": {"kind": "paged", "page_size": 16}, "split_kv": 3)",
          R"("operand": {"kind": "paged", "page_size": 48}, "mask": {"sliding_window": 70}, "dtype": "fp16")",
          R"("operand": {"kind": "paged", "page_size": 256}, "gather4": {})",
          R"("operand": {"kind": "continuous"}, "mask": "causal")",
          R"("operand": {"kind": "paged", "page_size": 64}, "rope_depth": 64, "rope": {"layout": "separate"})",
          R"("operand": {"kind": "paged", "page_size": 2}, "rope_depth": 64, "rope": {"layout": "separate"})",
      }) {
    CAPTURE(keys);
    const Plan plan = pair_plan(keys);
    check_pairs(plan, cases, kLazy, 4, 40);
    check_pairs(plan, cases, kRandom, 8, 40);
  }
  const Plan contiguous = pair_plan(R"("mask": "causal")");
  check_pairs(contiguous, {{2, 260}}, kLazy, 6, 40);
}

TEST_CASE("sm100_latent_pair: masks, modifiers and widths" * doctest::test_suite("breadth")) {
  const std::vector<LadderCase> cases{{3, 200}, {5, 3}, {2, 0}, {1, 129}};
  const std::string ragged = R"(, "operand": {"kind": "ragged"})";
  for (const char* keys : {
           R"("mask": "causal", "score_mod": {"softcap": 20}, "sink": true)",
           R"("mask": {"chunked": 100}, "score_mod": "alibi", "out_dtype": "f32")",
           R"("mask": {"window": {"left": "launch", "right": "launch"}}, "lse": false)",
           R"x("mask": "causal", "score_mod": {"expr": "score + 0.01 * (k - q)"})x",
           R"("depth": 448, "ov_depth": 384, "mask": "causal")",
           R"("depth": 320, "ov_depth": 272, "mask": "causal", "num_qk_stages": 1)",
           R"("depth": 256, "ov_depth": 128, "mask": "causal", "dtype": "fp16")",
           R"("depth": 80, "ov_depth": 16, "num_kv_stages": 3)",
       }) {
    CAPTURE(keys);
    check_pairs(pair_plan(keys + ragged), cases, kRandom, 4, 30);
    check_pairs(pair_plan(keys + ragged, "prefill"), cases, kLazy, 3, 30);
  }
  check_pairs(pair_plan(R"("mask": "custom")"), {{3, 300}}, kRandom, 4, 30);
}

TEST_CASE("sm100_latent_pair: prefill of chunks at the end of longer contexts") {
  const Plan plan =
      pair_plan(R"("operand": {"kind": "paged", "page_size": 64}, "mask": "causal")", "prefill");
  CHECK(*plan.resolved().schedule == "sm100_latent_pair_prefill");
  CHECK_FALSE(generate(plan).manifest.takes("workspace"));
  check_pairs(plan, {{37, 150}, {5, 3}, {0, 9}, {3, 0}, {33, 300}}, kRandom, 4, 6);
}

TEST_CASE("grids of pairs are whole pairs, each with rows of its own") {
  const Manifest manifest = generate(pair_plan(R"("mask": "causal")")).manifest;
  Problem problem;
  problem.heads_q = 128, problem.heads_kv = 1;
  problem.batch = 3, problem.num_m_blocks = 2, problem.num_tiles = 6, problem.kv_tiles = 1000;
  CHECK(stream_clusters(manifest, problem, 148) == 74);
  problem.team_heads = choose_team(manifest, problem, 148);
  CHECK(problem.team_heads == 2);  // of clusters: both tiles of rows read the same keys
  CHECK(make_geometry(manifest, problem, 148).grid[0] == 148);
  CHECK(make_geometry(manifest, problem, 1).grid[0] == 2);
  problem.max_blocks = 5;
  CHECK(make_geometry(manifest, problem, 148).grid[0] == 4);
}

TEST_CASE("what pairs over latent rows do not take is refused") {
  const auto refused = [](const std::string& keys, const char* operation = "decode") {
    auto config = pair_keys(operation);
    config.update(json_of("{" + keys + "}"));
    return test::refusal(config);
  };
  CHECK(refused(R"("kv_dtype": "fp8_e4m3")").find("/kv_dtype") == 0);
  CHECK(refused(R"("BM": 64)").find("/BM") == 0);
  CHECK(refused(R"("BN": 64)").find("/BN") == 0);
  CHECK(refused(R"("depth": 592)").find("/depth") == 0);
  CHECK(refused(R"("num_kv_stages": 2)").find("/num_kv_stages") == 0);
  CHECK(refused(R"("split_kv": 2)", "prefill").find("/split_kv") == 0);
  CHECK(refused(R"("pair_cta": false, "schedule": "sm100_latent_pair")").find("/pair_cta") == 0);
  CHECK(refused(R"("schedule": "sm100_decode")").find("/pair_cta") == 0);
}
