// Scales per token of which those of a head are contiguous (`layout` head_major), on the emulated device:
// every operand kind and page size, copied as tiles (sm_90a) or one by one, with poison wherever no key has a
// scale.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/ladder_check.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;

namespace {

Plan plan_of(const std::string& keys) {
  nlohmann::ordered_json config = {{"target", "sm_90a"},
                                   {"operation", "decode"},
                                   {"dtype", "bf16"},
                                   {"depth", 64},
                                   {"kv_dtype", "fp8_e4m3"}};
  config.update(nlohmann::ordered_json::parse("{" + keys + "}"));
  return make_plan(parse_config(config.dump(), "test"));
}

std::string operand(const std::string& kind) {
  return fmt::format(
      R"("operand": {{{}, "quantization": {{"granularity": "per_token", "layout": "head_major"}}}})", kind);
}
std::string paged(int size) {
  return operand(fmt::format(R"("kind": "paged", "page_size": {})", size));
}
const std::string kContiguous = operand(R"("kind": "contiguous")"), kRagged = operand(R"("kind": "ragged")"),
                  kContinuous = operand(R"("kind": "continuous")");

void check_up_the_ladder(const std::vector<std::string>& configs) {
  std::uint64_t seed = 0;
  for (const std::string& keys : configs) {
    CAPTURE(keys);
    check_at_tile_ends(plan_of(keys), ++seed, 3);
  }
}

bool maps_scales(const std::string& keys) {
  const KernelSource source = generate(plan_of(keys));
  const bool maps = source.manifest.takes("k_scale", KernelParam::Kind::tensor_map);
  CHECK(maps == source.manifest.takes("v_scale", KernelParam::Kind::tensor_map));
  CHECK(maps == (source.text.find("copy_async_4") == std::string::npos));
  return maps;
}

}  // namespace

TEST_CASE("scales by head in decode on sm_90a, up the ladder") {
  const std::string int8 = R"(, "kv_dtype": "int8")", fp8_q = R"(, "dtype": "fp8_e4m3", "depth": 128)";
  check_up_the_ladder({
      kContiguous + R"(, "depth": 128, "lse": true)",
      kContiguous + int8 + R"(, "mask": "causal")",
      kRagged + R"(, "depth": 128)",
      kRagged + int8 + R"(, "mask": {"sliding_window": 70})",
      kContinuous + R"(, "mask": "causal", "lse": true)",
      kContinuous + int8 + R"(, "depth": 128, "score_mod": {"softcap": 20})",
      paged(1) + R"(, "depth": 128)",
      paged(1) + int8,
      paged(8) + R"(, "mask": "causal")",
      paged(8) + int8 + R"(, "depth": 256)",
      paged(16) + R"(, "depth": 128, "score_mod": "alibi", "lse": true)",
      paged(16) + int8 + R"(, "BN": 64)",
      paged(64) + R"(, "mask": {"chunked": 100}, "BM": 32)",
      paged(64) + int8 + R"(, "depth": 128, "mask": "custom", "num_kv_stages": 2)",
      paged(256) + R"(, "depth": 128, "sink": true)",
      paged(256) + int8 + R"(, "split_kv": 3, "mask": "causal")",
      paged(48) + R"(, "mask": "causal")",
      paged(64) + fp8_q + R"(, "mask": "causal", "lse": true)",
      paged(16) + fp8_q,
      kContiguous + fp8_q + R"(, "mask": {"sliding_window": 70})",
      paged(64) + R"(, "depth": 576, "ov_depth": 512, "v_from_k": true)",
  });
}

TEST_CASE("scales by head in prefill on sm_90a, up the ladder") {
  const std::string prefill = R"(, "operation": "prefill", "mask": "causal")",
                    fp8 = prefill + R"(, "dtype": "fp8_e4m3")";
  check_up_the_ladder({
      kContiguous + prefill + R"(, "depth": 128, "mask": "none", "lse": true)",
      kRagged + prefill + R"(, "kv_dtype": "int8")",
      kContinuous + prefill + R"(, "mask": "custom")",
      paged(16) + prefill + R"(, "depth": 128, "sink": true)",
      paged(64) + prefill + R"(, "depth": 128, "kv_dtype": "int8", "lse": true)",
      paged(256) + prefill + R"(, "depth": 128, "mask": {"sliding_window": 70})",
      paged(32) + prefill + R"(, "score_mod": {"softcap": 20})",
      kContiguous + fp8 + R"(, "mask": "none", "depth": 128)",
      kRagged + fp8 + R"(, "depth": 128)",
      kContinuous + fp8 + R"(, "score_mod": {"softcap": 20})",
      paged(16) + fp8 + R"(, "depth": 256)",
      paged(64) + fp8 + R"(, "depth": 128, "lse": true)",
      paged(256) + fp8 + R"(, "depth": 128, "mask": {"chunked": 100}, "sink": true)",
  });
}

TEST_CASE("scales by head on sm_80, up the ladder") {
  const std::string sm80 = R"(, "target": "sm_80")", prefill = sm80 + R"(, "operation": "prefill")";
  check_up_the_ladder({
      kContiguous + sm80 + R"(, "mask": "causal")",
      kRagged + sm80 + R"(, "kv_dtype": "int8", "depth": 128)",
      kContinuous + sm80,
      paged(16) + sm80 + R"(, "depth": 128, "lse": true)",
      paged(1) + sm80 + R"(, "kv_dtype": "int8")",
      kContiguous + prefill + R"(, "mask": "causal", "depth": 128)",
      kRagged + prefill + R"(, "kv_dtype": "int8")",
      kContinuous + prefill,
      paged(16) + prefill + R"(, "depth": 128, "mask": "causal")",
      paged(1) + prefill + R"(, "kv_dtype": "int8")",
  });
}

TEST_CASE("scales are copied as tiles where a tensor copy can take them") {
  CHECK(maps_scales(kContiguous));
  CHECK(maps_scales(kContinuous));
  CHECK_FALSE(maps_scales(kRagged));
  for (const int size : {16, 32, 64, 96, 128, 256}) CHECK(maps_scales(paged(size)));
  for (const int size : {1, 2, 4, 8, 24, 40}) CHECK_FALSE(maps_scales(paged(size)));
  const std::string prefill = R"(, "operation": "prefill", "depth": 128)";
  CHECK(maps_scales(kContiguous + prefill));
  CHECK_FALSE(maps_scales(kRagged + prefill));
  CHECK(maps_scales(paged(32) + prefill));
  CHECK_FALSE(maps_scales(paged(16) + prefill));
  const KernelSource source = generate(plan_of(paged(64)));
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
