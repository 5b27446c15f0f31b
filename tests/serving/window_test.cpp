// Windows of two sides, chunks beside them and left padding, known from the config or at launch, in every schedule of
// sm_80 and sm_90a on the emulated device: right at the lengths where tiles end, and tiles that no row sees are left
// out.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::emulated;
using kiln::test::plan_with;

namespace {

Plan window_plan(const std::string& target, const std::string& operation, const std::string& keys) {
  return plan_with(
      {{"target", target}, {"operation", operation}, {"dtype", "bf16"}, {"depth", 64}, {"lse", true}}, keys);
}

constexpr const char* kAtLaunch =
    R"("mask": {"window": {"left": "launch", "right": "launch", "chunk": "launch"}})";
constexpr const char* kPadded = R"("mask": {"window": {"left": "launch", "right": 0, "left_padding": true}})";
constexpr const char* kAndPaged = R"(, "operand": {"kind": "paged", "page_size": 16})";

/// Multiply-adds of a launch of one head whose window is `window`.
std::uint64_t matrix_flops(const Plan& plan, std::int64_t rows, std::int64_t keys,
                           AttentionArgs::Window window) {
  ProblemShape shape;
  shape.depth = plan.resolved().depth, shape.ov_depth = *plan.resolved().ov_depth;
  shape.lengths_q = {rows}, shape.lengths_k = {keys};
  Workload work = random_workload(shape, plan.resolved(), 3);
  work.window = window;
  const auto kernel = emulated().load(generate(plan));
  const RunResult result = run_workload(emulated(), *kernel, work);
  for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  for (const auto& [name, value] : result.counters)
    if (name == "matrix_flops") return value;
  return 0;
}

}  // namespace

TEST_CASE("windows of two sides in prefill" * doctest::test_suite("breadth")) {
  const std::vector<std::pair<const char*, std::string>> configs{
      {"sm_80", R"("mask": {"window": {"left": 40, "right": 9}})"},
      {"sm_80", std::string(kAtLaunch) + R"(, "operand": {"kind": "ragged"})"},
      {"sm_80", std::string(kPadded) + kAndPaged},
      {"sm_90a", R"("mask": {"window": {"left": 70, "right": 30}}, "depth": 128)"},
      {"sm_90a", R"("mask": {"window": {"right": 5, "chunk": 48}})"},
      {"sm_90a", kAtLaunch},
      {"sm_90a", std::string(kAtLaunch) + R"(, "depth": 128, "operand": {"kind": "ragged"})"},
      {"sm_90a", std::string(kPadded) + R"(, "depth": 128)" + kAndPaged},
      {"sm_90a", std::string(kAtLaunch) + R"(, "dtype": "fp8_e4m3", "depth": 128)"},
      {"sm_90a", std::string(kAtLaunch) + R"(, "depth": 512)"},
  };
  std::uint64_t seed = 0;
  for (const auto& [target, keys] : configs) {
    CAPTURE(target);
    CAPTURE(keys);
    check_at_tile_ends(window_plan(target, "prefill", keys), ++seed);
  }
}

TEST_CASE("warpgroups whose rows all lie before their sequence's first key") {
  for (const std::string keys : {R"("depth": 48)", R"("operand": {"kind": "ragged"})", R"("depth": 128)"}) {
    CAPTURE(keys);
    const Plan plan = window_plan(
        "sm_90a", "prefill", keys + R"(, "BN": 48, "mask": {"window": {"right": 0, "left_padding": true}})");
    ProblemShape shape;
    shape.heads_q = shape.heads_kv = 2;
    shape.depth = plan.resolved().depth, shape.ov_depth = *plan.resolved().ov_depth;
    shape.lengths_q = {200, 200}, shape.lengths_k = {233, 233};
    Workload work = random_workload(shape, plan.resolved(), 5);
    work.first_keys = {190, 232};  // whole tiles, and all rows but one
    const auto kernel = emulated().load(generate(plan));
    const RunResult result = run_workload(emulated(), *kernel, work);
    for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    const Semantics semantics = semantics_of(plan.resolved(), work);
    const Reference reference =
        reference_attention(work, semantics, choose_rows(shape, semantics.mask, 1e300, 0));
    const CheckReport report = check_output(work, result.output, reference, tolerance_of(plan.resolved()));
    for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  }
}

TEST_CASE("windows of two sides in decode" * doctest::test_suite("breadth")) {
  const std::vector<std::string> configs{
      std::string(R"("mask": {"window": {"left": 100, "right": 1}})") + kAndPaged,
      std::string(kAtLaunch) + kAndPaged,
      std::string(kPadded) + R"(, "operand": {"kind": "continuous"})",
      std::string(R"("mask": {"window": {"left": 90, "chunk": 128, "left_padding": true}}, "split_kv": 3)"),
  };
  std::uint64_t seed = 0;
  for (const char* target : {"sm_80", "sm_90a"}) {
    for (const std::string& keys : configs) {
      CAPTURE(target);
      CAPTURE(keys);
      check_at_tile_ends(window_plan(target, "decode", keys), ++seed, 5);
    }
  }
  check_at_tile_ends(
      window_plan("sm_90a", "decode",
                  R"("mask": {"window": {"left": "launch", "right": "launch"}}, "depth": 576, "ov_depth": 512,
                             "rope_depth": 64, "v_from_k": true, "rope": {"layout": "separate"}, "operand": {"kind": "ragged"})"),
      2, 5);
}

TEST_CASE("tiles that a window hides are not computed") {
  for (const char* target : {"sm_80", "sm_90a"}) {
    CAPTURE(target);
    const Plan plan = window_plan(target, "prefill", std::string(kAtLaunch) + R"(, "BM": 64, "BN": 64)");
    // 512 rows and keys in tiles of 64: the diagonal and both neighbours; chunks of 64 alone: the diagonal.
    const std::uint64_t tile = 4 * 64 * 64 * 64;
    CHECK(matrix_flops(plan, 512, 512, {64, 63, 0}) == 22 * tile);
    CHECK(matrix_flops(plan, 512, 512, {-1, -1, 64}) == 8 * tile);
    CHECK(matrix_flops(plan, 512, 512, {-1, -1, 0}) == 64 * tile);
  }
}

TEST_CASE("scales of each sequence and head") {
  const std::string scaled = R"("quantization": {"granularity": "per_sequence"}})";
  const std::vector<std::pair<std::string, std::string>> configs{
      {"prefill", R"("dtype": "fp8_e4m3", "operand": {"kind": "contiguous", )" + scaled},
      {"prefill",
       R"("dtype": "fp8_e4m3", "depth": 128, "mask": "causal", "operand": {"kind": "ragged", )" + scaled},
      {"decode", R"("dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 16, )" + scaled},
      {"decode", R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 16, )" + scaled},
  };
  std::uint64_t seed = 0;
  for (const auto& [operation, keys] : configs) {
    CAPTURE(keys);
    check_at_tile_ends(window_plan("sm_90a", operation, keys), ++seed);
  }
  for (const char* operation : {"prefill", "decode"})
    check_at_tile_ends(window_plan("sm_80", operation, configs.back().second), ++seed);
}

TEST_CASE("what the launch gives has to go with the mask") {
  const auto error_of = [](const Plan& plan, const auto& change) {
    ProblemShape shape;
    shape.depth = shape.ov_depth = 64;
    shape.lengths_q = {8}, shape.lengths_k = {40};
    Workload work = random_workload(shape, plan.resolved(), 1);
    change(work);
    try {
      run_workload(emulated(), *emulated().load(generate(plan)), work);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Plan sides = window_plan("sm_80", "prefill", kAtLaunch),
             padded = window_plan("sm_80", "prefill", kPadded),
             causal = window_plan("sm_80", "prefill", R"("mask": "causal")");
  CHECK(error_of(sides, [](Workload& w) { w.window.left = -2; }).find("window_left is -2") !=
        std::string::npos);
  CHECK(error_of(causal, [](Workload& w) { w.window.right = 3; }).find("window_right was given") !=
        std::string::npos);
  CHECK(error_of(padded, [](Workload& w) { w.first_keys.clear(); }).find("needs first_keys") !=
        std::string::npos);
  CHECK(error_of(causal, [](Workload& w) { w.first_keys = {0}; }).find("first_keys was given") !=
        std::string::npos);
  for (const char* mask : {R"({"window": {"left": -1}})", R"({"window": {"right": "later"}})",
                           R"({"window": {"chunk": 0}})", R"({"window": {"side": 3}})", R"({"window": 5})"})
    CHECK_THROWS_AS(window_plan("sm_80", "prefill", std::string("\"mask\": ") + mask), Error);
}
