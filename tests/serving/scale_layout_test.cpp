// Scales per token of which those of a head are contiguous (`layout` head_major), on the emulated device:
// every operand kind and page size, copied as tiles (sm_90a) or one by one, with poison wherever no key has a
// scale.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::check_up_the_ladder;
using kiln::test::plan_with;

namespace {

Plan scaled_plan(const std::string& keys) {
  return plan_with({{"target", "sm_90a"},
                    {"operation", "decode"},
                    {"dtype", "bf16"},
                    {"depth", 64},
                    {"kv_dtype", "fp8_e4m3"}},
                   keys);
}

std::string head_major(const std::string& kind) {
  return fmt::format(
      R"("operand": {{{}, "quantization": {{"granularity": "per_token", "layout": "head_major"}}}})", kind);
}
std::string head_major_paged(int size) {
  return head_major(fmt::format(R"("kind": "paged", "page_size": {})", size));
}
const std::string kHeadMajorContiguous = head_major(R"("kind": "contiguous")"),
                  kHeadMajorRagged = head_major(R"("kind": "ragged")"),
                  kHeadMajorContinuous = head_major(R"("kind": "continuous")");

void check_scales(const std::vector<std::string>& configs) {
  check_up_the_ladder(configs, scaled_plan, 3);
}

bool maps_scales(const std::string& keys) {
  const KernelSource source = generate(scaled_plan(keys));
  const bool maps = source.manifest.takes("k_scale", KernelParam::Kind::tensor_map);
  CHECK(maps == source.manifest.takes("v_scale", KernelParam::Kind::tensor_map));
  CHECK(maps == (source.text.find("copy_async_4") == std::string::npos));
  return maps;
}

}  // namespace

TEST_CASE("scales by head in decode and prefill, copied as tiles and by threads") {
  check_scales({
      kHeadMajorContinuous + R"(, "mask": "causal", "lse": true)",
      kHeadMajorRagged + R"(, "operation": "prefill", "mask": "causal", "kv_dtype": "int8")",
  });
}

TEST_CASE("scales by head in decode on sm_90a, up the ladder" * doctest::test_suite("breadth")) {
  const std::string int8 = R"(, "kv_dtype": "int8")", fp8_q = R"(, "dtype": "fp8_e4m3", "depth": 128)";
  check_scales({
      kHeadMajorContiguous + R"(, "depth": 128, "lse": true)",
      kHeadMajorContiguous + int8 + R"(, "mask": "causal")",
      kHeadMajorRagged + R"(, "depth": 128)",
      kHeadMajorRagged + int8 + R"(, "mask": {"sliding_window": 70})",
      kHeadMajorContinuous + R"(, "mask": "causal", "lse": true)",
      kHeadMajorContinuous + int8 + R"(, "depth": 128, "score_mod": {"softcap": 20})",
      head_major_paged(1) + R"(, "depth": 128)",
      head_major_paged(1) + int8,
      head_major_paged(8) + R"(, "mask": "causal")",
      head_major_paged(8) + int8 + R"(, "depth": 256)",
      head_major_paged(16) + R"(, "depth": 128, "score_mod": "alibi", "lse": true)",
      head_major_paged(16) + int8 + R"(, "BN": 64)",
      head_major_paged(64) + R"(, "mask": {"chunked": 100}, "BM": 32)",
      head_major_paged(64) + int8 + R"(, "depth": 128, "mask": "custom", "num_kv_stages": 2)",
      head_major_paged(256) + R"(, "depth": 128, "sink": true)",
      head_major_paged(256) + int8 + R"(, "split_kv": 3, "mask": "causal")",
      head_major_paged(48) + R"(, "mask": "causal")",
      head_major_paged(64) + fp8_q + R"(, "mask": "causal", "lse": true)",
      head_major_paged(16) + fp8_q,
      kHeadMajorContiguous + fp8_q + R"(, "mask": {"sliding_window": 70})",
      head_major_paged(64) + R"(, "depth": 576, "ov_depth": 512, "v_from_k": true)",
  });
}

TEST_CASE("scales by head in prefill on sm_90a, up the ladder" * doctest::test_suite("breadth")) {
  const std::string prefill = R"(, "operation": "prefill", "mask": "causal")",
                    fp8 = prefill + R"(, "dtype": "fp8_e4m3")";
  check_scales({
      kHeadMajorContiguous + prefill + R"(, "depth": 128, "mask": "none", "lse": true)",
      kHeadMajorRagged + prefill + R"(, "kv_dtype": "int8")",
      kHeadMajorContinuous + prefill + R"(, "mask": "custom")",
      head_major_paged(16) + prefill + R"(, "depth": 128, "sink": true)",
      head_major_paged(64) + prefill + R"(, "depth": 128, "kv_dtype": "int8", "lse": true)",
      head_major_paged(256) + prefill + R"(, "depth": 128, "mask": {"sliding_window": 70})",
      head_major_paged(32) + prefill + R"(, "score_mod": {"softcap": 20})",
      kHeadMajorContiguous + fp8 + R"(, "mask": "none", "depth": 128)",
      kHeadMajorRagged + fp8 + R"(, "depth": 128)",
      kHeadMajorContinuous + fp8 + R"(, "score_mod": {"softcap": 20})",
      head_major_paged(16) + fp8 + R"(, "depth": 256)",
      head_major_paged(64) + fp8 + R"(, "depth": 128, "lse": true)",
      head_major_paged(256) + fp8 + R"(, "depth": 128, "mask": {"chunked": 100}, "sink": true)",
  });
}

TEST_CASE("scales by head on sm_80, up the ladder" * doctest::test_suite("breadth")) {
  const std::string sm80 = R"(, "target": "sm_80")", prefill = sm80 + R"(, "operation": "prefill")";
  check_scales({
      kHeadMajorContiguous + sm80 + R"(, "mask": "causal")",
      kHeadMajorRagged + sm80 + R"(, "kv_dtype": "int8", "depth": 128)",
      kHeadMajorContinuous + sm80,
      head_major_paged(16) + sm80 + R"(, "depth": 128, "lse": true)",
      head_major_paged(1) + sm80 + R"(, "kv_dtype": "int8")",
      kHeadMajorContiguous + prefill + R"(, "mask": "causal", "depth": 128)",
      kHeadMajorRagged + prefill + R"(, "kv_dtype": "int8")",
      kHeadMajorContinuous + prefill,
      head_major_paged(16) + prefill + R"(, "depth": 128, "mask": "causal")",
      head_major_paged(1) + prefill + R"(, "kv_dtype": "int8")",
  });
}

TEST_CASE("scales are copied as tiles where a tensor copy can take them") {
  CHECK(maps_scales(kHeadMajorContiguous));
  CHECK(maps_scales(kHeadMajorContinuous));
  CHECK_FALSE(maps_scales(kHeadMajorRagged));
  for (const int size : {16, 32, 64, 96, 128, 256}) CHECK(maps_scales(head_major_paged(size)));
  for (const int size : {1, 2, 4, 8, 24, 40}) CHECK_FALSE(maps_scales(head_major_paged(size)));
  const std::string prefill = R"(, "operation": "prefill", "depth": 128)";
  CHECK(maps_scales(kHeadMajorContiguous + prefill));
  CHECK_FALSE(maps_scales(kHeadMajorRagged + prefill));
  CHECK(maps_scales(head_major_paged(32) + prefill));
  CHECK_FALSE(maps_scales(head_major_paged(16) + prefill));
  const KernelSource source = generate(scaled_plan(head_major_paged(64)));
  for (const KernelParam& param : source.manifest.params) {
    if (param.role != "k_scale") continue;
    REQUIRE(param.map.dims.size() == 3);
    CHECK(param.map.dims[0].axis == "seq");
    CHECK(param.map.dims[0].box == 64);
    CHECK(param.map.dims[1].axis == "head");
    CHECK(param.map.dims[2].axis == "page");
    CHECK(param.map.swizzle_bytes == 0);
  }
  CHECK(source.text.find("mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, " +
                         std::to_string(128 * 64 + 128 * 4) + ")") != std::string::npos);
}
