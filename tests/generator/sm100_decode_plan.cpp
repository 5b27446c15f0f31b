// sm100_decode as planned: tile, stages, tensor memory, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "tests/generator/plans.hpp"

using namespace kiln;
using namespace kiln::test;
using Json = nlohmann::ordered_json;

namespace {

Plan sm100_decode_plan(const Json& more) {
  Json config{{"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 128}};
  config.update(more);
  return plan_of(config);
}
Json resolved(const Json& more) {
  return json_of(sm100_decode_plan(more).to_json())["resolved"];
}
std::string refused_key(const Json& more) {
  try {
    sm100_decode_plan(more);
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
  const Json plan = json_of(sm100_decode_plan({{"BM", 32}}).to_json());
  const Json& pipelines = plan["systems"]["tma_consumer_pipeline"];
  CHECK(pipelines["k"]["tmem_1"] == 32);
  CHECK(pipelines["v"]["tmem_0"] == 64);
  CHECK(pipelines["k"]["full_kv_bytes"] == 128 * 128 * 2);
  const Manifest manifest = generate(sm100_decode_plan(Json::object())).manifest;
  CHECK(manifest.grid.ctas_per_sm == 1);
  // 8 steps along the depth and 8 along the keys
  CHECK(manifest.expectations[0].count == 16);
  CHECK(generate(sm100_decode_plan({{"split_kv", 4}})).manifest.workspace_bytes_per_item ==
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
  CHECK(refused_key(with({{"BM", 64}})) == "/BM");
  CHECK(refused_key(with({{"mask", "custom"}, {"score_mod", "alibi"}})) == "/score_mod");
  const auto pages = [&](int depth, int rows) {
    return with({{"depth", depth}, {"operand", {{"kind", "paged"}, {"page_size", rows}}}});
  };
  CHECK(refused_key(pages(80, 4)) == "/operand/page_size");
  CHECK(refused_key(pages(80, 1)) == "/operand/page_size");  // gathered, four rows of 80 bytes
  CHECK(refused_key(pages(64, 1)).empty());
  const Json groups{{"kind", "paged"}, {"page_size", 64}, {"quantization", {{"granularity", 64}}}};
  CHECK(refused_key(with({{"operand", groups}})) == "/operand/quantization/granularity");
  // of P V, in FP16 whatever Q is
  CHECK(generate(sm100_decode_plan(bytes)).manifest.expectations[0].count == 16);
}

TEST_CASE("decode on sm_100a over wide rows: tiles of 64 keys, of one slot in chunks") {
  const Json r = resolved({{"depth", 256}, {"mask", "causal"}, {"lse", true}});
  CHECK(r["BN"] == 64);
  CHECK(r["mma_shape"] == Json::array({64, 16, 16}));
  CHECK(r["num_kv_stages"] == 3);
  CHECK(r["num_qk_stages"] == 1);
  CHECK(resolved(r) == r);
  CHECK(resolved({{"depth", 128}, {"ov_depth", 144}})["num_kv_stages"] == 4);
  const Json two = resolved({{"depth", 256}, {"group", 64}});
  CHECK(two["num_kv_stages"] == 2);
  CHECK(two["num_qk_stages"] == 2);
  CHECK(resolved(two) == two);
  CHECK(resolved({{"depth", 512}, {"ov_depth", 256}})["num_kv_stages"] == 2);
  CHECK(resolved({{"depth", 256}, {"group", 64}, {"mask", "custom"}})["BM"] == 32);
  for (const int rows : {16, 32, 64}) {
    const Json one = resolved({{"depth", 512}, {"group", rows}});
    CHECK(one["BM"] == rows);
    CHECK(one["num_kv_stages"] == 1);
    CHECK(one["num_qk_stages"] == 4);
    CHECK(one["BK"] == 128);
    CHECK(resolved(one) == one);
  }
  // Blocks of O have 128 columns: slots of V are as wide.
  const Json pipelines = json_of(
      sm100_decode_plan({{"depth", 256}, {"ov_depth", 176}}).to_json())["systems"]["tma_consumer_pipeline"];
  CHECK(pipelines["v"]["slot_bytes"] == 64 * 256 * 2);
  CHECK(pipelines["v"]["tmem_0"] == 32);
  CHECK(generate(sm100_decode_plan({{"depth", 512}})).manifest.expectations[0].count == 32 + 4 * 4);

  CHECK(refused_key({{"depth", 256}, {"BN", 128}}) == "/BN");
  CHECK(refused_key({{"depth", 512}, {"num_kv_stages", 2}}) == "/num_kv_stages");
  CHECK(refused_key({{"depth", 512}, {"num_qk_stages", 3}}) == "/num_qk_stages");
  CHECK(refused_key({{"depth", 512}, {"ov_depth", 528}}) == "/ov_depth");
  const Json bytes = resolved({{"depth", 256}, {"kv_dtype", "fp8_e4m3"}, {"group", 64}});
  CHECK(bytes["BM"] == 64);
  CHECK(bytes["BN"] == 64);
  CHECK(resolved(bytes) == bytes);
  CHECK(refused_key({{"depth", 272}, {"kv_dtype", "fp8_e4m3"}}) == "/depth");
  CHECK(refused_key({{"depth", 256}, {"kv_dtype", "fp8_e4m3"}, {"num_kv_stages", 1}}) == "/num_kv_stages");
  const Json blocks{{"kind", "ragged"}, {"quantization", {{"granularity", 32}, {"scale_dtype", "ue8m0"}}}};
  CHECK(refused_key({{"depth", 256}, {"kv_dtype", "fp8_e4m3"}, {"operand", blocks}}) ==
        "/operand/quantization/scale_dtype");
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
  CHECK(resolved(latent({{"group", 16}, {"queries", 4}}))["BM"] == 64);
  // From 65 rows on pairs of blocks share them, unless the config says otherwise.
  CHECK(resolved(latent({{"group", 128}}))["schedule"] == "sm100_latent_pair");
  CHECK(resolved(latent({{"group", 13}, {"queries", 5}}))["pair_cta"] == true);
  CHECK(resolved(latent({{"group", 128}, {"queries", 8}, {"pair_cta", false}}))["BM"] == 64);
  CHECK(resolved(latent({{"group", 128}, {"BM", 64}}))["schedule"] == "sm100_decode");
  CHECK(resolved(latent({{"group", 128}, {"kv_dtype", "fp8_e4m3"}}))["BM"] == 64);
  CHECK(resolved(latent({{"mask", "custom"}}))["BM"] == 32);
  CHECK(resolved(latent({{"depth", 192}, {"ov_depth", 128}}))["num_kv_stages"] == 4);

  const Plan plan = sm100_decode_plan(latent(Json::object()));
  const Json pipelines = json_of(plan.to_json())["systems"]["tma_consumer_pipeline"];
  // S' of two tiles takes 2 x 64 columns, O' 4 x 64 for 512 columns of V.
  CHECK(pipelines["v"]["tmem_0"] == 128);
  CHECK(pipelines["k"]["slot_bytes"] == 64 * 576 * 2);
  CHECK(pipelines["v"]["slot_bytes"] == 64 * 576 * 2);
  const Manifest manifest = generate(plan).manifest;
  CHECK(std::none_of(manifest.params.begin(), manifest.params.end(),
                     [](const KernelParam& param) { return param.role == "v"; }));
  CHECK(manifest.expectations[0].count == 36 + 4 * 4);

  CHECK(refused_key(latent({{"BN", 128}})) == "/BN");
  CHECK(refused_key(latent({{"BM", 128}})) == "/BM");
  CHECK(refused_key(latent({{"BM", 64}, {"mask", "custom"}})) == "/BM");
  CHECK(refused_key(latent({{"num_kv_stages", 3}})) == "/num_kv_stages");
  CHECK(refused_key(latent({{"num_qk_stages", 2}})) == "/num_qk_stages");
  CHECK(refused_key({{"num_qk_stages", 2}}) == "/num_qk_stages");
  CHECK(refused_key(latent({{"BK", 576}})) == "/BK");
  CHECK(refused_key({{"v_from_k", true}}) == "/v_from_k");
  CHECK(refused_key(latent({{"depth", 592}})) == "/depth");
  CHECK(refused_key(latent({{"depth", 512}})) == "/ov_depth");
  CHECK(refused_key(latent({{"depth", 64}, {"ov_depth", 16}})) == "/depth");
  CHECK(refused_key(latent({{"mma_shape", Json::array({128, 64, 16})}})) == "/mma_shape");
}

TEST_CASE("decode on sm_100a over latent rows of bytes: chunks of them, one place of FP16 or two") {
  const auto latent = [](Json more) {
    Json config{{"depth", 576}, {"ov_depth", 512}, {"v_from_k", true}, {"kv_dtype", "fp8_e4m3"}};
    config.update(more);
    return config;
  };
  const Json tail{{"rope_depth", 64}, {"rope", {{"layout", "tail"}}}},
      separate{{"rope_depth", 64}, {"rope", {{"layout", "separate"}}}};
  const auto with = [&](Json more, const Json& rope) {
    more.update(rope);
    return latent(more);
  };
  const Json few = resolved(latent({{"group", 16}}));
  CHECK(few["num_threads"] == 320);
  CHECK(few["num_qk_stages"] == 5);
  CHECK(few["BK"] == 128);
  CHECK(few["num_kv_stages"] == 7);
  CHECK(resolved(few) == few);
  const auto places = [&](const Json& config) {
    const Json k = json_of(sm100_decode_plan(config).to_json())["systems"]["tma_consumer_pipeline"]["k"];
    CHECK(k["num_qk_stages_effective"] ==
          (k["num_kv_stages"] == 2 ? Json(1) : resolved(config)["num_qk_stages"]));
    return k["num_kv_stages"].get<int>();
  };
  CHECK(places(latent({{"group", 16}})) == 2);
  CHECK(places(latent({{"group", 16}, {"queries", 2}})) == 2);
  CHECK(places(latent({{"group", 128}})) == 1);
  for (const Json& rope : {tail, separate}) {
    const Json r = resolved(with({{"group", 16}}, rope));
    CHECK(r["num_qk_stages"] == 4);
    CHECK(resolved(r) == r);
    CHECK(places(with({{"group", 16}}, rope)) == 2);
    CHECK(places(with({{"group", 64}}, rope)) == 1);
    CHECK(resolved(with({{"num_qk_stages", 2}}, rope))["BK"] == 256);
    CHECK(refused_key(with({{"num_qk_stages", 1}}, rope)) == "/num_qk_stages");
    CHECK(refused_key(with({{"rope_depth", 80}, {"depth", 560}, {"ov_depth", 448}},
                           {{"rope", rope["rope"]}})) == "/rope_depth");
    CHECK(refused_key(with({{"ov_depth", 528}}, rope)) == "/ov_depth");
    CHECK(refused_key(
              with({{"dtype", "fp16"}, {"rope", {{"layout", rope["rope"]["layout"]}, {"dtype", "bf16"}}}},
                   {{"rope_depth", 64}})) == "/rope/dtype");
    const Manifest manifest = generate(sm100_decode_plan(with({{"group", 16}}, rope))).manifest;
    CHECK(manifest.params[0].map.dims[0].box == 128);
    CHECK(manifest.params[1].role == "k_rope");
    CHECK(manifest.params[1].map.dims[0].box == 64);
    CHECK(manifest.expectations[0].count == 36 + 4 * 4);
  }
  // Rotary columns have accumulators of their own where the others have scales.
  const auto first_of_o = [&](const Json& config) {
    return json_of(sm100_decode_plan(config).to_json())["systems"]["tma_consumer_pipeline"]["v"]["tmem_0"]
        .get<int>();
  };
  const Json scaled{
      {"operand", {{"kind", "paged"}, {"page_size", 64}, {"quantization", {{"granularity", "per_token"}}}}}};
  CHECK(first_of_o(with({{"group", 16}}, tail)) == 32);
  CHECK(first_of_o(with({{"group", 16}, {"operand", scaled["operand"]}}, tail)) == 64);

  CHECK(refused_key(latent({{"operand", {{"kind", "ragged"}, {"quantization", {{"granularity", 128}}}}}})) ==
        "/operand/quantization/granularity");
  CHECK(refused_key(latent({{"num_kv_stages", 16}})) == "/num_kv_stages");
  // Beside 16-bit columns they are the panel behind the others; a tail lies behind bytes only.
  Json wide = latent(separate);
  wide["kv_dtype"] = "bf16";
  CHECK(resolved(wide)["num_qk_stages"] == 3);
  CHECK(resolved(resolved(wide)) == resolved(wide));
  wide["rope"] = tail["rope"];
  CHECK(refused_key(wide) == "/kv_dtype");
}

TEST_CASE("decode on sm_100a refuses at the key what it does not do") {
  CHECK(refused_key({{"BM", 48}}) == "/BM");
  CHECK(refused_key({{"BM", 64}, {"score_mod", "alibi"}}) == "/BM");
  CHECK(refused_key({{"BN", 64}}) == "/BN");
  CHECK(refused_key({{"num_threads", 512}}) == "/num_threads");
  CHECK(refused_key({{"num_kv_stages", 4}}) == "/num_kv_stages");
  CHECK(refused_key({{"depth", 528}}) == "/depth");
  CHECK(refused_key({{"mma_shape", Json::array({64, 16, 16})}}) == "/mma_shape");
}
