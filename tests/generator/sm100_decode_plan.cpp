// sm100_decode as planned: tile, stages, tensor memory, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

using namespace kiln;
using Json = nlohmann::ordered_json;

namespace {

Plan plan_of(const Json& more) {
  Json config{{"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 128}};
  config.update(more);
  return make_plan(parse_config(config.dump(), "test"));
}
Json resolved(const Json& more) {
  return Json::parse(plan_of(more).to_json())["resolved"];
}
std::string refusal(const Json& more) {
  try {
    plan_of(more);
  } catch (const Error& error) {
    return error.violations().empty() ? error.what() : error.violations()[0].pointer;
  }
  return "";
}

}  // namespace

TEST_CASE("decode on sm_100a: keys fill the wide side, packed rows are 16, 32 or 64") {
  const Json r = resolved(Json::object());
  CHECK(r["schedule"] == "sm100_decode");
  CHECK(r["mma_shape"] == Json::array({128, 16, 16}));
  CHECK(r["BM"] == 16);
  CHECK(r["BN"] == 128);
  CHECK(r["num_threads"] == 192);
  CHECK(r["num_kv_stages"] == 3);
  CHECK(resolved({{"depth", 64}})["num_kv_stages"] == 4);
  CHECK(resolved({{"depth", 192}, {"ov_depth", 128}})["num_kv_stages"] == 2);
  CHECK(resolved({{"group", 8}})["BM"] == 16);
  CHECK(resolved({{"group", 8}, {"queries", 4}})["BM"] == 32);
  CHECK(resolved({{"group", 8}, {"queries", 8}})["BM"] == 64);
  CHECK(resolved({{"group", 8}, {"queries", 8}, {"mask", "custom"}})["BM"] == 32);
}

TEST_CASE("decode on sm_100a: tensor memory holds two tiles of S' and O'") {
  const Json plan = Json::parse(plan_of({{"BM", 32}}).to_json());
  const Json& pipelines = plan["systems"]["tma_consumer_pipeline"];
  CHECK(pipelines["k"]["tmem_1"] == 32);
  CHECK(pipelines["v"]["tmem_0"] == 64);
  CHECK(pipelines["k"]["full_kv_bytes"] == 128 * 128 * 2);
  const Manifest manifest = generate(plan_of(Json::object())).manifest;
  CHECK(manifest.grid.ctas_per_sm == 1);
  // 8 steps along the depth and 8 along the keys
  CHECK(manifest.expectations[0].count == 16);
  CHECK(generate(plan_of({{"split_kv", 4}})).manifest.workspace_bytes_per_item ==
        4 * 4 * (16 * 128 + 2 * 16));
}

TEST_CASE("decode on sm_100a converts caches of bytes by four more warps") {
  const Json bytes{{"kv_dtype", "fp8_e4m3"}};
  const Json r = resolved(bytes);
  CHECK(r["num_threads"] == 320);
  CHECK(r["num_kv_stages"] == 4);
  CHECK(resolved({{"kv_dtype", "int8"}, {"group", 8}, {"queries", 8}})["BM"] == 32);
  const auto with = [&](Json more) {
    more.update(bytes);
    return more;
  };
  CHECK(refusal(with({{"BM", 64}})) == "/BM");
  CHECK(refusal(with({{"mask", "custom"}, {"score_mod", "alibi"}})) == "/score_mod");
  CHECK(refusal(with({{"depth", 64}, {"operand", {{"kind", "paged"}, {"page_size", 1}}}})) ==
        "/operand/page_size");
  const Json groups{{"kind", "paged"}, {"page_size", 64}, {"quantization", {{"granularity", 64}}}};
  CHECK(refusal(with({{"operand", groups}})) == "/operand/quantization/granularity");
  // of P V, in FP16 whatever Q is
  CHECK(generate(plan_of(bytes)).manifest.expectations[0].count == 16);
}

TEST_CASE("decode on sm_100a over a latent cache: tiles of 64 keys in one ring, P behind V's columns") {
  const auto latent = [](Json more) {
    Json config{{"depth", 576}, {"ov_depth", 512}, {"v_from_k", true}};
    config.update(more);
    return config;
  };
  const Json r = resolved(latent({{"mask", "causal"}, {"lse", true}}));
  CHECK(r["BM"] == 64);
  CHECK(r["BN"] == 64);
  CHECK(r["mma_shape"] == Json::array({64, 64, 16}));
  CHECK(r["num_kv_stages"] == 2);
  CHECK(r["num_qk_stages"] == 3);
  CHECK(r["BK"] == 192);
  CHECK(resolved(r) == r);
  CHECK(resolved(latent({{"num_qk_stages", 9}}))["BK"] == 64);
  CHECK(resolved(latent({{"depth", 512}, {"ov_depth", 448}}))["num_qk_stages"] == 2);
  CHECK(resolved(latent({{"group", 16}}))["BM"] == 16);
  CHECK(resolved(latent({{"group", 16}, {"queries", 2}}))["BM"] == 32);
  CHECK(resolved(latent({{"group", 128}, {"queries", 8}}))["BM"] == 64);
  CHECK(resolved(latent({{"mask", "custom"}}))["BM"] == 32);
  CHECK(resolved(latent({{"depth", 192}, {"ov_depth", 128}}))["num_kv_stages"] == 4);

  const Plan plan = plan_of(latent(Json::object()));
  const Json pipelines = Json::parse(plan.to_json())["systems"]["tma_consumer_pipeline"];
  // S' of two tiles takes 2 x 64 columns, O' 4 x 64 for 512 columns of V.
  CHECK(pipelines["v"]["tmem_0"] == 128);
  CHECK(pipelines["k"]["slot_bytes"] == 64 * 576 * 2);
  CHECK(pipelines["v"]["slot_bytes"] == 64 * 576 * 2);
  const Manifest manifest = generate(plan).manifest;
  CHECK(std::none_of(manifest.params.begin(), manifest.params.end(),
                     [](const KernelParam& param) { return param.role == "v"; }));
  CHECK(manifest.expectations[0].count == 36 + 4 * 4);

  CHECK(refusal(latent({{"BN", 128}})) == "/BN");
  CHECK(refusal(latent({{"BM", 128}})) == "/BM");
  CHECK(refusal(latent({{"BM", 64}, {"mask", "custom"}})) == "/BM");
  CHECK(refusal(latent({{"num_kv_stages", 3}})) == "/num_kv_stages");
  CHECK(refusal(latent({{"num_qk_stages", 2}})) == "/num_qk_stages");
  CHECK(refusal({{"num_qk_stages", 2}}) == "/num_qk_stages");
  CHECK(refusal(latent({{"BK", 576}})) == "/BK");
  CHECK(refusal(latent({{"kv_dtype", "fp8_e4m3"}})) == "/kv_dtype");
  CHECK(refusal({{"v_from_k", true}}) == "/v_from_k");
  CHECK(refusal(latent({{"depth", 592}})) == "/depth");
  CHECK(refusal(latent({{"depth", 512}})) == "/ov_depth");
  CHECK(refusal(latent({{"depth", 64}, {"ov_depth", 16}})) == "/depth");
  CHECK(refusal(latent({{"mma_shape", Json::array({128, 64, 16})}})) == "/mma_shape");
  CHECK(refusal(latent({{"rope_depth", 64}, {"nope_depth", 512}, {"rope", {{"layout", "separate"}}}})) ==
        "/rope");
}

TEST_CASE("decode on sm_100a refuses at the key what it does not do") {
  CHECK(refusal({{"BM", 48}}) == "/BM");
  CHECK(refusal({{"BM", 64}, {"score_mod", "alibi"}}) == "/BM");
  CHECK(refusal({{"BN", 64}}) == "/BN");
  CHECK(refusal({{"num_threads", 512}}) == "/num_threads");
  CHECK(refusal({{"num_kv_stages", 4}}) == "/num_kv_stages");
  CHECK(refusal({{"depth", 256}}) == "/depth");
  CHECK(refusal({{"mma_shape", Json::array({64, 16, 16})}}) == "/mma_shape");
}
