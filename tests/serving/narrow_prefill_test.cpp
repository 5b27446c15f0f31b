// Prefill over caches of one byte an element on sm_90a and sm_80, on the emulated device: operand kinds, page
// sizes, masks and scales at the lengths where tiles end; what is made of E4M3 and int8 is exact.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::check_output_of;
using kiln::test::check_up_the_ladder;
using kiln::test::emulated;
using kiln::test::plan_with;

namespace {

Plan narrow_plan(const std::string& keys) {
  return plan_with({{"target", "sm_90a"},
                    {"operation", "prefill"},
                    {"dtype", "bf16"},
                    {"depth", 64},
                    {"kv_dtype", "fp8_e4m3"},
                    {"mask", "causal"}},
                   keys);
}

std::string narrow_operand(const char* kind, const char* granularity) {
  return fmt::format(R"("operand": {{{}, "quantization": {{"granularity": {}}}}})", kind, granularity);
}
constexpr const char* kToken = "\"per_token\"";
constexpr const char* kHead = "\"per_head\"";
constexpr const char* kTensor = "\"per_tensor\"";

// Every config compiled without spills, and run at the lengths where tiles end.
void check_narrow(const std::vector<std::string>& configs) {
  check_up_the_ladder(configs, narrow_plan);
}

std::string paged_kind(int size) {
  return fmt::format(R"("kind": "paged", "page_size": {})", size);
}
constexpr const char *kContiguousKind = R"("kind": "contiguous")", *kRaggedKind = R"("kind": "ragged")",
                     *kContinuousKind = R"("kind": "continuous")";

}  // namespace

TEST_CASE("prefill over bytes up the ladder on sm_80" * doctest::test_suite("breadth")) {
  std::vector<std::string> configs{
      R"("mask": "none", "lse": true)",
      R"("operand": {"kind": "ragged"}, "kv_dtype": "int8", "dtype": "fp16", "num_kv_stages": 3)",
      narrow_operand(kContiguousKind, kTensor) + R"(, "kv_dtype": "int8", "mask": "none")",
      narrow_operand(kContiguousKind, kToken) + R"(, "depth": 128, "mask": "none", "lse": true, "BM": 128)",
      narrow_operand(kRaggedKind, kToken) + R"(, "kv_dtype": "int8", "depth": 128, "num_kv_stages": 2)",
      narrow_operand(kRaggedKind, "64") + R"(, "mask": {"chunked": 100}, "depth": 192, "ov_depth": 128)",
      narrow_operand(kContinuousKind, kHead) +
          R"(, "depth": 96, "mask": {"sliding_window": 70}, "dtype": "fp16")",
      narrow_operand(kContinuousKind, "32") + R"(, "mask": "custom", "kv_dtype": "int8", "BM": 16)",
      narrow_operand(paged_kind(16).c_str(), kToken) + R"(, "depth": 128, "sink": true, "lse": true)",
      narrow_operand(paged_kind(1).c_str(), kHead) + R"(, "kv_dtype": "int8", "BN": 48)",
      narrow_operand(paged_kind(24).c_str(), kToken) +
          R"(, "mask": {"sliding_window": 70}, "BM": 32, "BN": 128)",
      narrow_operand(paged_kind(64).c_str(), kHead) +
          R"(, "depth": 128, "score_mod": {"softcap": 20}, "lse": true)",
      narrow_operand(paged_kind(256).c_str(), kTensor) +
          R"(, "dtype": "fp16", "score_mod": "alibi", "lse": true)",
      narrow_operand(paged_kind(16).c_str(), kToken) + R"(, "depth": 256, "kv_dtype": "int8")",
      narrow_operand(paged_kind(8).c_str(), "32") + R"(, "depth": 192, "lse": true, "dtype": "fp16")",
      narrow_operand(paged_kind(16).c_str(), kTensor) + R"(, "depth": 256, "mask": "custom")",
      narrow_operand(paged_kind(2).c_str(), kToken) + R"(, "depth": 80, "swizzle": "none")",
      narrow_operand(paged_kind(3).c_str(), "64") + R"(, "depth": 160, "kv_dtype": "int8")",
      narrow_operand(paged_kind(16).c_str(), kHead) +
          R"(, "depth": 64, "head_dim_offset": 16, "cache_depth": 96, "BK": 32, "kv_dtype": "int8")",
  };
  for (std::string& keys : configs) keys += R"(, "target": "sm_80")";
  check_narrow(configs);
}

TEST_CASE("prefill over bytes up the ladder on sm_90a" * doctest::test_suite("breadth")) {
  check_narrow({
      R"("mask": "none", "lse": true)",
      R"("operand": {"kind": "ragged"}, "kv_dtype": "int8", "dtype": "fp16")",
      narrow_operand(kContiguousKind, kTensor) + R"(, "kv_dtype": "int8", "mask": "none")",
      narrow_operand(kContiguousKind, kToken) + R"(, "depth": 128, "mask": "none", "lse": true)",
      narrow_operand(kRaggedKind, kToken) + R"(, "kv_dtype": "int8", "depth": 128)",
      narrow_operand(kRaggedKind, "64") + R"(, "mask": {"chunked": 100})",
      narrow_operand(kContinuousKind, kHead) +
          R"(, "depth": 96, "mask": {"sliding_window": 70}, "dtype": "fp16")",
      narrow_operand(kContinuousKind, kToken) + R"(, "mask": "custom")",
      narrow_operand(paged_kind(16).c_str(), kToken) + R"(, "depth": 128, "sink": true, "lse": true)",
      narrow_operand(paged_kind(2).c_str(), kHead) + R"(, "kv_dtype": "int8")",
      narrow_operand(paged_kind(8).c_str(), kToken) + R"(, "depth": 80, "mask": "none")",
      narrow_operand(paged_kind(64).c_str(), kHead) +
          R"(, "depth": 128, "score_mod": {"softcap": 20}, "lse": true)",
      narrow_operand(paged_kind(256).c_str(), kTensor) +
          R"(, "dtype": "fp16", "score_mod": "alibi", "lse": true)",
      narrow_operand(paged_kind(16).c_str(), kToken) + R"(, "depth": 256)",
      narrow_operand(paged_kind(16).c_str(), kHead) + R"(, "depth": 192, "ov_depth": 128, "lse": true)",
      narrow_operand(paged_kind(16).c_str(), kHead) +
          R"(, "depth": 256, "mask": {"sliding_window": 70}, "dtype": "fp16")",
      narrow_operand(paged_kind(2).c_str(), kTensor) + R"(, "depth": 256, "kv_dtype": "int8", "lse": true)",
      narrow_operand(paged_kind(16).c_str(), kHead) + R"(, "BM": 192, "schedule": "sm90_prefill_pingpong")",
      narrow_operand(paged_kind(16).c_str(), kHead) + R"(, "BM": 64, "num_kv_stages": 3)",
  });
}

TEST_CASE("prefill on sm_90a over bytes with scales of n elements, which need not divide a row" *
          doctest::test_suite("breadth")) {
  check_narrow({
      narrow_operand(paged_kind(16).c_str(), "32") + R"(, "depth": 128, "lse": true)",
      narrow_operand(kContiguousKind, "16") + R"(, "depth": 80, "mask": "none", "kv_dtype": "int8")",
      narrow_operand(kRaggedKind, "48") +
          R"(, "depth": 128, "kv_dtype": "int8", "mask": {"sliding_window": 70})",
      narrow_operand(kContinuousKind, "48") + R"(, "depth": 64, "dtype": "fp16", "sink": true)",
      narrow_operand(paged_kind(24).c_str(), "64") + R"(, "depth": 192, "ov_depth": 128)",
      narrow_operand(paged_kind(64).c_str(), "128") + R"(, "depth": 256, "mask": "custom")",
      narrow_operand(paged_kind(1).c_str(), "16") +
          R"(, "depth": 64, "kv_dtype": "int8", "score_mod": {"softcap": 20})",
      narrow_operand(paged_kind(16).c_str(), "32") + R"(, "depth": 192, "lse": true)",
      narrow_operand(paged_kind(1).c_str(), "16") + R"(, "depth": 192)",
  });
}

// Scales of columns that are zero, negative, or nothing beside the others of their row.
TEST_CASE("prefill on sm_90a over bytes with scales of n elements of any sign and size" *
          doctest::test_suite("breadth")) {
  for (const std::string keys : {R"("kv_dtype": "int8")", R"("kv_dtype": "fp8_e4m3")"}) {
    CAPTURE(keys);
    const Plan plan = narrow_plan(narrow_operand(R"("kind": "paged", "page_size": 16)", "16") +
                                  R"(, "lse": true, )" + keys);
    ProblemShape shape;
    shape.heads_q = shape.heads_kv = 2;
    shape.depth = shape.ov_depth = 64;
    shape.ragged = true;
    shape.lengths_q = {70, 1, 130}, shape.lengths_k = {300, 197, 130};
    Workload work = random_workload(shape, plan.resolved(), 7);
    for (std::size_t i = 0; i < work.k_scale->values.size(); ++i) {
      const std::size_t row = i / 4, column = i % 4;
      if (row % 5 == column || row % 7 == 3) work.k_scale->values[i] = work.v_scale->values[i] = 0;
      if (row % 3 == column) work.k_scale->values[i] *= -1, work.v_scale->values[i] *= -1;
      if (row % 11 == column) work.k_scale->values[i] *= 0x1p-70F;
    }
    const auto kernel = emulated().load(generate(plan));
    EmulatorOptions how;
    how.policy = EmulatorOptions::Policy::lazy;
    RunOptions options;
    options.emulator = &how;
    check_output_of(work, plan.resolved(), run_workload(emulated(), *kernel, work, options));
  }
}

TEST_CASE("prefill on sm_90a over pages whose rows do not fill 128 bytes" * doctest::test_suite("breadth")) {
  check_narrow({
      narrow_operand(paged_kind(1).c_str(), kHead) + R"(, "kv_dtype": "int8")",
      narrow_operand(paged_kind(3).c_str(), kToken) + R"(, "depth": 128, "lse": true)",
      narrow_operand(paged_kind(2).c_str(), kTensor) + R"(, "depth": 80, "mask": "none")",
      narrow_operand(paged_kind(3).c_str(), kHead) +
          R"(, "depth": 192, "ov_depth": 128, "BN": 96, "dtype": "fp16")",
      narrow_operand(paged_kind(1).c_str(), kToken) + R"(, "depth": 256, "mask": {"sliding_window": 70})",
      narrow_operand(paged_kind(2).c_str(), kToken) + R"(, "depth": 256, "lse": true)",
      // 96 threads widen rows of three panels of 32 at a time
      narrow_operand(paged_kind(4).c_str(), kTensor) + R"(, "depth": 240)",
      narrow_operand(paged_kind(2).c_str(), kToken) +
          R"(, "depth": 80, "BN": 32, "kv_dtype": "int8", "mask": "none")",
      narrow_operand(paged_kind(1).c_str(), kHead) + R"(, "dtype": "fp8_e4m3", "depth": 64)",
      narrow_operand(paged_kind(3).c_str(), kToken) + R"(, "dtype": "fp8_e4m3", "depth": 96, "lse": true)",
      narrow_operand(paged_kind(1).c_str(), kTensor) +
          R"(, "dtype": "fp8_e4m3", "depth": 192, "ov_depth": 64)",
      R"("kv_dtype": "bf16", "depth": 96, "operand": {"kind": "paged", "page_size": 1})",
      R"("kv_dtype": "bf16", "depth": 80, "operand": {"kind": "paged", "page_size": 3}, "lse": true)",
      R"("kv_dtype": "bf16", "depth": 224, "operand": {"kind": "paged", "page_size": 1}, "mask": "none")",
  });
}

TEST_CASE("chunks of prompts and single tokens at the ends of longer contexts, scales of zero and below") {
  for (const std::string keys :
       {R"("score_mod": "none")", R"("score_mod": {"softcap": 30})", R"("target": "sm_80")"}) {
    CAPTURE(keys);
    const Plan plan = narrow_plan(narrow_operand(R"("kind": "paged", "page_size": 16)", kHead) +
                                  R"(, "kv_dtype": "int8", "lse": true, )" + keys);
    ProblemShape shape;
    shape.heads_q = 6, shape.heads_kv = 3;
    shape.depth = shape.ov_depth = 64;
    shape.ragged = true;
    shape.lengths_q = {70, 1, 0, 130, 3, 1};
    shape.lengths_k = {300, 197, 40, 130, 1, 0};
    Workload work = random_workload(shape, plan.resolved(), 5);
    work.k_scale->values = {0.0F, -work.k_scale->values[1], work.k_scale->values[2]};
    const auto kernel = emulated().load(generate(plan));
    EmulatorOptions how;
    how.policy = EmulatorOptions::Policy::lazy;
    RunOptions options;
    options.emulator = &how;
    check_output_of(work, plan.resolved(), run_workload(emulated(), *kernel, work, options));
  }
}

TEST_CASE("what prefill over bytes has not is refused at its key") {
  const auto pointer_of = [](const std::string& keys) {
    try {
      narrow_plan(keys);
    } catch (const Error& error) {
      return error.violations().empty() ? std::string() : error.violations()[0].pointer;
    }
    return std::string("none");
  };
  const char* const paged = R"("kind": "paged", "page_size": 16)";
  CHECK(pointer_of(narrow_operand(paged, "24")) == "/operand/quantization/granularity");
  CHECK(pointer_of(narrow_operand(paged, "32") + R"(, "depth": 192, "BN": 96)") == "/BN");
  CHECK(pointer_of(narrow_operand(paged, "32") + R"(, "depth": 256)") == "/operand/quantization/granularity");
  CHECK(pointer_of(narrow_operand(R"("kind": "paged", "page_size": 1)", "128") + R"(, "depth": 256)") ==
        "/operand/quantization/granularity");
  CHECK(pointer_of(narrow_operand(paged, "32") + R"(, "dtype": "fp8_e4m3", "depth": 64)") ==
        "/operand/quantization/granularity");
  CHECK(pointer_of(R"("swizzle": "128B")") == "/swizzle");
  CHECK(pointer_of(R"("num_qk_stages": 2, "depth": 128)") == "/num_qk_stages");
  CHECK(pointer_of(R"("cluster": 2, "mask": "none")") == "/cluster");
  CHECK(pointer_of(narrow_operand(paged, kToken) + R"(, "BN": 80)") == "/BN");
  CHECK(pointer_of(R"("depth": 256, "BN": 96)") == "/BN");
  const std::string sm80 = R"(, "target": "sm_80")";
  CHECK(pointer_of(narrow_operand(paged, "16") + sm80) == "/operand/quantization/granularity");
  CHECK(pointer_of(narrow_operand(paged, "32") + sm80 + R"(, "depth": 256)") ==
        "/operand/quantization/granularity");
  CHECK(pointer_of(narrow_operand(paged, kToken) + sm80 + R"(, "BN": 48)") == "/BN");
  CHECK(pointer_of(narrow_operand(paged, kToken) + sm80 + R"(, "BN": 128, "BK": 128)") == "/BK");
  CHECK(pointer_of(R"("num_kv_stages": 4, "depth": 256)" + sm80) == "/num_kv_stages");
  CHECK(pointer_of(R"("dtype": "fp8_e4m3")" + sm80) == "/dtype");
  // 16-bit rows of 64 bytes cannot be copied one at a time.
  CHECK(
      pointer_of(
          R"("kv_dtype": "bf16", "depth": 96, "swizzle": "64B", "operand": {"kind": "paged", "page_size": 1})") ==
      "/operand/page_size");
}
