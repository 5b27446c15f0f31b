// sm100_decode over rows of K of more than 192 columns, or of V of more than 128, in tensors of their own: tiles of 64
// keys, O' in several blocks; with room for one slot of each, in chunks. On the emulated device against float64.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_cases;
using kiln::test::plan_with;

namespace {

/// Of 0 to 4 tiles, whole and not; several queries, more of them than keys, none.
const std::vector<LadderCase> kCases{{1, 150}, {3, 70}, {1, 0}, {2, 64}, {5, 3}, {0, 9}, {1, 197}, {1, 256}};

void check_wide(const std::vector<std::string>& configs, std::uint64_t seed) {
  for (const std::string& keys : configs) {
    CAPTURE(keys);
    const Plan plan =
        plan_with({{"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 64}}, keys);
    CHECK(plan.resolved().BN == 64);
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    EmulatorOptions emulator;
    emulator.policy = ++seed % 2 == 0 ? EmulatorOptions::Policy::lazy : EmulatorOptions::Policy::random;
    emulator.seed = seed;
    emulator.num_sms = 5;
    check_cases(plan, kCases, emulator, 1);
  }
}

}  // namespace

TEST_CASE("sm100_decode at depth 256: several slots of K and of V, every operand" *
          doctest::test_suite("breadth")) {
  check_wide(
      {
          R"("depth": 256, "operand": {"kind": "paged", "page_size": 64}, "mask": "causal", "lse": true)",
          R"("depth": 256, "operand": {"kind": "ragged"}, "group": 13, "queries": 5, "sink": true, "mask": "custom", "BM": 32)",
          R"("depth": 256, "operand": {"kind": "continuous"}, "dtype": "fp16", "BM": 64, "mask": {"sliding_window": 70})",
          R"("depth": 256, "operand": {"kind": "paged", "page_size": 1}, "split_kv": 3, "out_dtype": "f32")",
          R"("depth": 256, "operand": {"kind": "paged", "page_size": 24}, "score_mod": "alibi", "group": 40)",
          R"("depth": 256, "operand": {"kind": "paged", "page_size": 16}, "num_qk_stages": 4, "num_kv_stages": 2)",
          R"("depth": 208, "ov_depth": 48, "operand": {"kind": "paged", "page_size": 16}, "lse": true)",
          R"("depth": 80, "ov_depth": 176, "operand": {"kind": "ragged"}, "mask": "causal", "group": 20)",
      },
      10);
}

TEST_CASE("sm100_decode at depth 512: one slot of K and one of V, in chunks" *
          doctest::test_suite("breadth")) {
  check_wide(
      {
          R"("depth": 512, "operand": {"kind": "paged", "page_size": 64}, "mask": "causal", "lse": true)",
          R"("depth": 512, "operand": {"kind": "ragged"}, "BM": 64, "sink": true, "group": 30, "queries": 2)",
          R"("depth": 512, "operand": {"kind": "paged", "page_size": 7}, "split_kv": 3, "score_mod": {"softcap": 20})",
          R"("depth": 512, "operand": {"kind": "paged", "page_size": 1}, "dtype": "fp16", "BM": 32, "mask": "custom")",
          R"("depth": 448, "ov_depth": 336, "operand": {"kind": "continuous"}, "num_kv_stages": 1, "num_qk_stages": 7)",
          R"("depth": 512, "ov_depth": 64, "num_kv_stages": 1, "num_qk_stages": 1, "mask": {"chunked": 48})",
          R"("depth": 64, "ov_depth": 512, "num_kv_stages": 1, "operand": {"kind": "paged", "page_size": 16})",
      },
      20);
}

TEST_CASE("sm100_decode over wide rows of bytes" * doctest::test_suite("breadth")) {
  check_wide(
      {
          R"("depth": 256, "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_token"}}, "mask": "causal", "lse": true)",
          R"("depth": 256, "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_head"}}, "BM": 64, "group": 30)",
          R"("depth": 208, "ov_depth": 176, "kv_dtype": "fp8_e4m3", "operand": {"kind": "continuous", "quantization": {"granularity": "per_tensor"}}, "split_kv": 3)",
          R"("depth": 256, "ov_depth": 80, "kv_dtype": "int8", "operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}}, "BM": 32, "sink": true)",
          R"("depth": 256, "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 1}, "mask": "custom")",
          R"("depth": 112, "ov_depth": 256, "kv_dtype": "fp8_e4m3", "mask": {"sliding_window": 70})",
      },
      30);
}
