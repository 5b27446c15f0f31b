// NVIDIA kernels over head rows of the cache of which they read a part (cache_depth, head_dim_offset), with
// NaN in the columns around: pointers of cp.async, bases and extents of tensor maps.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "runtime/launch/pack.hpp"
#include "tests/serving/emulated.hpp"
#include "workbench/verify/ladder.hpp"

using namespace kiln;
using kiln::test::emulated;

namespace {

LadderRun run_cache_rows(const nlohmann::ordered_json& config, const std::vector<LadderCase>& cases,
                         int said_first = -1) {
  const Plan plan = make_plan(parse_config(write_json(config), "test"));
  KernelSource source = generate(plan);
  if (said_first >= 0) source.manifest.head_dim_offset = said_first;
  EmulatorOptions emulator;
  emulator.policy = EmulatorOptions::Policy::random;
  emulator.seed = 3;
  return run_cases(emulated(), plan, source, cases, emulator, 2);
}

void check_cache_rows(const char* target, const char* operation, int depth, int cache_depth, int first,
                      const char* more, const std::vector<LadderCase>& cases) {
  nlohmann::ordered_json config = {
      {"target", target}, {"operation", operation},     {"dtype", "bf16"},          {"depth", depth},
      {"mask", "causal"}, {"cache_depth", cache_depth}, {"head_dim_offset", first}, {"lse", true}};
  config.merge_patch(json_of(std::string("{") + more + "}"));
  const std::string text = write_json(config);
  CAPTURE(text);
  const LadderRun result = run_cache_rows(config, cases);
  for (const std::string& failure : result.check.failures) FAIL_CHECK(failure);
  for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
}

constexpr const char* kPagesOf16 = R"("operand": {"kind": "paged", "page_size": 16})";

}  // namespace

TEST_CASE("sm_80 reads a part of each cache row") {
  check_cache_rows("sm_80", "prefill", 64, 96, 16, "", {{20, 140}});
  check_cache_rows("sm_80", "prefill", 80, 128, 40, kPagesOf16, {{20, 140}});
  check_cache_rows("sm_80", "decode", 64, 576, 512, "", {{2, 140}});
  check_cache_rows("sm_80", "decode", 64, 96, 8, kPagesOf16, {{2, 140}});
  check_cache_rows("sm_80", "decode", 576, 640, 32, R"("ov_depth": 512, "v_from_k": true)", {{2, 70}});
  check_cache_rows("sm_80", "prefill", 64, 96, 16, R"("kv_dtype": "int8", "operand": {"kind": "ragged"})",
                   {{20, 140}});
  check_cache_rows("sm_80", "decode", 64, 96, 16, R"("kv_dtype": "int8", "operand": {"kind": "ragged"})",
                   {{2, 140}});
}

TEST_CASE("sm_90a reads a part of each cache row" * doctest::test_suite("breadth")) {
  check_cache_rows("sm_90a", "prefill", 64, 96, 16, "", {{20, 140}});
  check_cache_rows("sm_90a", "prefill", 128, 200, 24, R"("ov_depth": 64)", {{20, 140}});
  check_cache_rows("sm_90a", "prefill", 80, 128, 40, R"("operand": {"kind": "ragged"})", {{20, 140}});
  check_cache_rows("sm_90a", "prefill", 64, 96, 16, R"("kv_dtype": "fp8_e4m3")", {{20, 140}});
  check_cache_rows("sm_90a", "decode", 64, 576, 512, kPagesOf16, {{2, 140}});
  check_cache_rows("sm_90a", "decode", 96, 128, 16, "", {{2, 140}});
  check_cache_rows("sm_90a", "decode", 576, 640, 32, R"("ov_depth": 512, "v_from_k": true)", {{2, 70}});
}

TEST_CASE("a kernel whose manifest names another column is caught") {
  for (const char* operation : {"prefill", "decode"}) {
    const nlohmann::ordered_json config = {{"target", "sm_80"}, {"operation", operation},
                                           {"dtype", "bf16"},   {"depth", 64},
                                           {"cache_depth", 96}, {"head_dim_offset", 16}};
    CHECK(run_cache_rows(config, {{5, 40}}, 16).passed());
    CHECK_FALSE(run_cache_rows(config, {{5, 40}}, 24).passed());
    CHECK_FALSE(run_cache_rows(config, {{5, 40}}, 8).passed());
  }
}

TEST_CASE("the manifest carries cache rows, and only where rows are longer than what is read") {
  const auto manifest = [](const char* rows) {
    return generate(
               make_plan(parse_config(
                   std::string(R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128,
                                        "ov_depth": 64)") +
                       rows + "}",
                   "test")))
        .manifest;
  };
  const Manifest part =
      manifest_from_json(to_json(manifest(R"(, "cache_depth": 200, "head_dim_offset": 24)")));
  CHECK(part.cache_depth == 200);
  CHECK(part.head_dim_offset == 24);
  CHECK(part.k_row() == 200);
  CHECK(part.v_row() == 136);
  const Manifest whole = manifest("");
  CHECK(to_json(whole).find("\n  \"cache_depth\"") == std::string::npos);
  CHECK(whole.k_row() == 128);
  CHECK(whole.v_row() == 64);
  for (const char* bad : {"-8", "80"}) {
    std::string text = to_json(part);
    const std::string key = "\n  \"head_dim_offset\": ";
    text.replace(text.find(key) + key.size(), 2, bad);
    CHECK_THROWS_AS(manifest_from_json(text), Error);
  }
}
