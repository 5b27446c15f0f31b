// Rows too wide for one warp or warpgroup on NVIDIA targets: depth 512 in prefill and decode, prefill of a
// latent cache (V in K's rows), chunks of queries at the end of longer contexts, on the emulated device.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "runtime/launch/geometry.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_cases;
using kiln::test::plan_of;
using Json = nlohmann::ordered_json;

namespace {

Json wide_config(const char* target, const char* operation, const char* more) {
  Json config = {{"target", target}, {"operation", operation}, {"dtype", "bf16"}};
  config.merge_patch(json_of(more));
  return config;
}

void check_wide_rows(const char* target, const char* operation, const char* more,
                     const std::vector<LadderCase>& cases, EmulatorOptions::Policy policy,
                     std::int64_t heads = 2) {
  const Plan plan = plan_of(wide_config(target, operation, more));
  CAPTURE(target);
  CAPTURE(more);
  EmulatorOptions emulator;
  emulator.policy = policy;
  emulator.seed = 5;
  emulator.num_sms = 2;
  check_cases(plan, cases, emulator, heads);
}

std::string all_violations(const Json& config) {
  try {
    plan_of(config);
  } catch (const Error& error) {
    std::string out;
    for (const Violation& v : error.violations()) out += v.pointer + " " + v.rule + " " + v.suggestion + "; ";
    return out;
  }
  return "accepted";
}

constexpr auto kLazy = EmulatorOptions::Policy::lazy, kRandom = EmulatorOptions::Policy::random;

}  // namespace

TEST_CASE("prefill of a latent cache of 448 columns") {
  for (const char* target : {"sm_80", "sm_90a", "sm_100a"})
    check_wide_rows(target, "prefill",
                    R"({"depth": 448, "ov_depth": 384, "v_from_k": true, "mask": "causal", "lse": true})",
                    {{20, 140}}, kRandom);
}

TEST_CASE("prefill of a latent cache: a chunk of queries at the end of a longer context" *
          doctest::test_suite("breadth")) {
  // Some rows of the last tile exist; queries without keys; a sequence without queries.
  const std::vector<LadderCase> cases{{37, 150}, {5, 3}, {0, 9}, {3, 0}, {33, 70}};
  for (const char* target : {"sm_80", "sm_90a", "sm_100a"}) {
    check_wide_rows(target, "prefill",
                    R"({"depth": 576, "ov_depth": 512, "v_from_k": true, "mask": "causal", "lse": true,
              "operand": {"kind": "paged", "page_size": 16}})",
                    cases, kRandom);
    check_wide_rows(
        target, "prefill",
        R"({"depth": 576, "ov_depth": 512, "v_from_k": true, "mask": {"sliding_window": 70}, "sink": true,
              "operand": {"kind": "ragged"}, "dtype": "fp16"})",
        cases, kLazy);
    check_wide_rows(target, "prefill",
                    R"({"depth": 448, "ov_depth": 384, "v_from_k": true, "mask": "causal", "lse": true})",
                    {{20, 140}}, kLazy);
  }
}

TEST_CASE("sm_100a: prefill of latent rows of bytes" * doctest::test_suite("breadth")) {
  const std::vector<LadderCase> cases{{37, 150}, {5, 3}, {0, 9}, {3, 0}, {33, 70}};
  for (
      const char* keys :
      {R"({"depth": 576, "ov_depth": 512, "v_from_k": true, "mask": "causal", "lse": true, "kv_dtype": "fp8_e4m3",
             "operand": {"kind": "paged", "page_size": 1,
                         "quantization": {"granularity": "per_tensor", "scale_dtype": "f32"}}})",
       R"({"depth": 576, "ov_depth": 512, "v_from_k": true, "mask": "causal", "kv_dtype": "int8", "out_dtype": "f32",
             "rope_depth": 64, "rope": {"layout": "tail", "padded_depth": 512, "dtype": "bf16"},
             "operand": {"kind": "paged", "page_size": 64,
                         "quantization": {"granularity": "per_token", "scale_dtype": "f32"}}})"})
    check_wide_rows("sm_100a", "prefill", keys, cases, kRandom);
}

TEST_CASE("depth 512 in prefill and decode" * doctest::test_suite("breadth")) {
  for (const char* target : {"sm_80", "sm_90a", "sm_100a"}) {
    check_wide_rows(target, "prefill", R"({"depth": 512, "mask": "causal", "lse": true})", {{70, 140}},
                    kRandom);
    check_wide_rows(
        target, "prefill",
        R"({"depth": 512, "mask": {"chunked": 50}, "operand": {"kind": "paged", "page_size": 64}})",
        {{37, 150}, {5, 3}, {0, 9}, {3, 0}}, kLazy);
    check_wide_rows(target, "decode", R"({"depth": 512, "mask": "causal", "lse": true, "sink": true})",
                    {{2, 140}}, kRandom);
    check_wide_rows(target, "decode",
                    R"({"depth": 512, "operand": {"kind": "paged", "page_size": 16}, "split_kv": 2})",
                    {{1, 150}, {3, 70}, {1, 0}}, kLazy);
  }
}

TEST_CASE("wide prefill kernels walk whole items: no workspace, no teams") {
  for (const auto& [target, schedule] : {std::pair{"sm_80", "sm80_wide_prefill"},
                                         {"sm_90a", "sm90_wide_prefill"},
                                         {"sm_100a", "sm100_wide_prefill"},
                                         {"sm_103a", "sm100_wide_prefill"}}) {
    const Plan plan = plan_of(wide_config(target, "prefill", R"({"depth": 512})"));
    CHECK(*plan.resolved().schedule == schedule);
    CHECK(*plan.resolved().BM == 64);
    const Manifest manifest = generate(plan).manifest;
    for (const char* role : {"workspace", "item_counters", "team_heads"}) {
      CAPTURE(role);
      CHECK_FALSE(manifest.takes(role));
    }
    // Teams leave blocks over: 132 are no multiple of 8.
    Problem problem;
    problem.heads_q = problem.heads_kv = 8;
    problem.batch = 4, problem.num_m_blocks = 64, problem.num_tiles = 2048, problem.kv_tiles = 64;
    CHECK(choose_team(manifest, problem, 132) == 1);
  }
}

TEST_CASE("what wide prefill does not take is refused") {
  for (const char* target : {"sm_80", "sm_90a"}) {
    CAPTURE(target);
    const auto refused = [&](const char* more) {
      return all_violations(wide_config(target, "prefill", more));
    };
    CHECK(refused(R"({"depth": 512, "kv_dtype": "fp8_e4m3"})").find("/kv_dtype") == 0);
    CHECK(refused(R"({"depth": 512, "split_kv": 2})").find("/split_kv") == 0);
    CHECK(refused(R"({"depth": 320})").find("/depth") == 0);
    CHECK(refused(R"({"depth": 592, "ov_depth": 512, "v_from_k": true})").find("/depth") == 0);
    CHECK(refused(R"({"depth": 512, "BM": 128})").find("/BM") == 0);
  }
  const auto of_sm100 = [](const char* more) {
    return all_violations(wide_config("sm_100a", "prefill", more));
  };
  CHECK(of_sm100(R"({"depth": 512, "kv_dtype": "fp8_e4m3"})").find("/depth") == 0);
  CHECK(of_sm100(R"({"depth": 512, "split_kv": 2})").find("/split_kv") == 0);
  CHECK(of_sm100(R"({"depth": 528})").find("/depth") == 0);
  CHECK(of_sm100(R"({"depth": 512, "BM": 128})").find("/BM") == 0);
  CHECK(of_sm100(R"({"depth": 512, "pair_cta": true})").find("/pair_cta") == 0);
  CHECK(all_violations(wide_config("sm_90a", "prefill",
                                   R"({"depth": 512, "operand": {"kind": "paged", "page_size": 7}})"))
            .find("/operand/page_size") == 0);
  CHECK(
      all_violations(wide_config("sm_90a", "decode", R"({"depth": 512, "num_kv_stages": 2})")).find("V15") !=
      std::string::npos);
}
