// Kernels over packed rows of sm_100a under a query of FP8: K, V and P are multiplied as bytes, rows of K and V apart and
// latent ones, these in pairs of blocks, too. On the emulated device against float64.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/schedules/schedule.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_cases;
using kiln::test::plan_with;

namespace {

/// Of 0 to 4 tiles, whole and not; several queries, more of them than keys, none.
const std::vector<LadderCase> kCases{{1, 150}, {3, 70}, {1, 0}, {2, 128}, {5, 3}, {0, 9}, {1, 389}, {1, 256}};

void check_bytes(const std::vector<std::string>& configs, std::uint64_t seed) {
  for (const std::string& keys : configs) {
    CAPTURE(keys);
    const Plan plan = plan_with(
        {{"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "fp8_e4m3"}, {"depth", 128}}, keys);
    CHECK(plan.schedule().emit().manifest.expectations[0].instruction.ends_with("kind::f8f6f4"));
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    EmulatorOptions emulator;
    emulator.policy = ++seed % 2 == 0 ? EmulatorOptions::Policy::lazy : EmulatorOptions::Policy::random;
    emulator.seed = seed;
    emulator.num_sms = 5;
    check_cases(plan, kCases, emulator, 1);
  }
}

}  // namespace

TEST_CASE("sm100_decode under FP8 queries: pages with scales, latent rows") {
  check_bytes(
      {
          R"("operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_head"}}, "mask": "causal", "lse": true)",
          R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_tensor"}}, "group": 16, "lse": true)",
      },
      10);
}

TEST_CASE("sm100_decode under FP8 queries: depths, operands, masks, modifiers" *
          doctest::test_suite("breadth")) {
  check_bytes(
      {
          R"("operand": {"kind": "ragged"}, "group": 13, "queries": 5, "sink": true, "mask": "custom", "BM": 16)",
          R"("depth": 64, "operand": {"kind": "continuous"}, "BM": 32, "mask": {"sliding_window": 70})",
          R"("depth": 192, "ov_depth": 128, "operand": {"kind": "paged", "page_size": 1}, "split_kv": 3, "out_dtype": "f32")",
          R"("depth": 96, "operand": {"kind": "paged", "page_size": 24}, "score_mod": "alibi", "group": 40)",
          R"("depth": 256, "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_sequence"}}, "lse": true)",
          R"("depth": 80, "ov_depth": 176, "operand": {"kind": "ragged"}, "mask": "causal", "group": 20)",
          R"("depth": 48, "ov_depth": 16, "mask": {"chunked": 48}, "score_mod": {"softcap": 20}, "sink": true, "lse": true)",
          R"("depth": 512, "operand": {"kind": "paged", "page_size": 64}, "mask": "causal", "BM": 64)",
          R"("depth": 256, "ov_depth": 320, "operand": {"kind": "paged", "page_size": 4}, "gather4": {"tile_height": 4})",
      },
      20);
}

TEST_CASE("latent rows under FP8 queries, in one block and in pairs" * doctest::test_suite("breadth")) {
  check_bytes(
      {
          R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "ragged"}, "group": 128, "queries": 2, "mask": "causal", "pair_cta": false)",
          R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "paged", "page_size": 1}, "group": 64, "split_kv": 2, "lse": true)",
          R"("depth": 576, "ov_depth": 512, "v_from_k": true, "BN": 64, "group": 32, "score_mod": {"softcap": 20}, "operand": {"kind": "paged", "page_size": 16}, "num_kv_stages": 3)",
          R"("depth": 320, "ov_depth": 256, "v_from_k": true, "operand": {"kind": "continuous"}, "group": 20, "mask": "custom")",
          R"("depth": 96, "ov_depth": 32, "v_from_k": true, "group": 16, "sink": true, "operand": {"kind": "paged", "page_size": 48, "quantization": {"granularity": "per_head"}})",
          R"("operation": "prefill", "depth": 576, "ov_depth": 512, "v_from_k": true, "pair_cta": false, "operand": {"kind": "ragged"}, "mask": "causal")",
          R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "ragged"}, "group": 128, "queries": 2, "mask": "causal")",
          R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "paged", "page_size": 1, "quantization": {"granularity": "per_sequence"}}, "group": 96, "split_kv": 2, "lse": true)",
          R"("depth": 176, "ov_depth": 144, "v_from_k": true, "operand": {"kind": "paged", "page_size": 24, "quantization": {"granularity": "per_head"}}, "group": 100, "sink": true, "mask": "custom", "out_dtype": "f32")",
          R"("operation": "prefill", "depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_tensor"}}, "mask": {"sliding_window": 70}, "lse": true)",
          R"("operation": "prefill", "depth": 96, "ov_depth": 64, "v_from_k": true, "operand": {"kind": "continuous"}, "score_mod": {"softcap": 20}, "sink": true)",
      },
      30);
}
