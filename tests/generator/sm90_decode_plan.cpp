// sm90_decode as planned: defaults, documented constants of the operand, and what is refused.
#include <doctest/doctest.h>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>
#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "tests/generator/plans.hpp"

using namespace kiln;
using namespace kiln::test;
using Json = nlohmann::ordered_json;

namespace {

Json sm90_decode(const Json& more) {
  Json config{{"target", "sm_90a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 128}};
  config.update(more);
  return config;
}
Plan sm90_decode_plan(const Json& more) {
  return plan_of(sm90_decode(more));
}
Json paged(int page_size) {
  return {{"operand", {{"kind", "paged"}, {"page_size", page_size}}}};
}
bool sm90_decode_refused_at(const Json& more, const std::string& pointer, const std::string& rule) {
  return refused_at(sm90_decode(more), pointer, rule);
}

}  // namespace

TEST_CASE(
    "decode on sm_90a packs sixteen query rows, with two stages in each of two blocks or in one alone") {
  const Json plan = json_of(sm90_decode_plan(Json::object()).to_json());
  const Json& r = plan["resolved"];
  CHECK(r["schedule"] == "sm90_decode");
  CHECK(r["BM"] == 16);
  CHECK(r["BN"] == 64);
  CHECK(r["num_kv_stages"] == 2);
  CHECK(json_of(sm90_decode_plan({{"depth", 64}}).to_json())["resolved"]["num_kv_stages"] ==
        3);  // half the bytes
  CHECK(r["num_threads"] == 160);
  CHECK(r["mma_shape"] == Json::array({64, 16, 16}));
  // Rows are query tokens times query heads; more than 16 of 16-bit keys stand on the M side.
  const auto rows = [](Json more) {
    return json_of(sm90_decode_plan(more).to_json())["resolved"]["BM"].get<int>();
  };
  CHECK(rows({{"group", 4}}) == 8);
  CHECK(rows({{"group", 4}, {"queries", 2}}) == 8);
  CHECK(rows({{"group", 4}, {"queries", 4}}) == 16);
  CHECK(rows({{"group", 4}, {"queries", 8}}) == 64);
  CHECK(rows({{"queries", 2}}) == 64);
  CHECK(rows({{"group", 4}, {"queries", 8}, {"kv_dtype", "fp8_e4m3"}}) == 32);
  const Manifest manifest = generate(sm90_decode_plan(Json::object())).manifest;
  CHECK(manifest.grid.ctas_per_sm == 2);
  CHECK(manifest.smem_bytes == plan["resources"]["smem_bytes"]);
  REQUIRE(manifest.stages);
  CHECK(manifest.stages->alone == 2);
  CHECK(manifest.stages->shared == 2);
  CHECK(manifest.stages->alone_megabytes == 8);
  CHECK_FALSE(manifest.takes("num_kv_stages"));
  const Manifest read = manifest_from_json(to_json(manifest));
  CHECK(read.stages->shared_smem_bytes == manifest.stages->shared_smem_bytes);
  CHECK(read.stages->alone_megabytes == 8);
  // Pages smaller than a tile come in more copies; the launch says how many stages there are.
  const Manifest small = generate(sm90_decode_plan(paged(16))).manifest;
  CHECK(small.stages->alone == 3);
  CHECK(small.stages->shared == 2);
  CHECK(small.stages->alone_megabytes == 2);
  CHECK(small.takes("num_kv_stages"));
  CHECK(generate(sm90_decode_plan(paged(64))).manifest.stages->alone_megabytes == 2);
  CHECK(generate(sm90_decode_plan(paged(256))).manifest.stages->alone_megabytes == 8);
  const Manifest more = generate(sm90_decode_plan({{"num_kv_stages", 6}})).manifest;
  CHECK(more.stages->alone == 6);
  CHECK(more.stages->shared == 3);
  // Bytes that one warpgroup is slow to widen, and small tiles, have no choice.
  for (const Json& fixed : {Json{{"kv_dtype", "int8"}}, Json{{"depth", 64}}})
    CHECK_FALSE(generate(sm90_decode_plan(fixed)).manifest.stages);
}

TEST_CASE("a multiprocessor takes no block more than planned, whatever registers are left") {
  // One of the next launch beside two of this one leaves another multiprocessor with one (bench/NOTES.md
  // 114).
  const int all = 233472, reserved = 1024;
  const auto fits = [&](int bytes) { return all / (bytes + reserved); };
  for (const Json& keys :
       {Json::object(), Json{{"depth", 64}}, Json{{"depth", 256}}, Json{{"kv_dtype", "int8"}}, paged(16),
        Json{{"operand", {{"kind", "ragged"}}}}, Json{{"num_kv_stages", 6}}, Json{{"BM", 64}},
        Json{{"depth", 576}, {"ov_depth", 512}, {"v_from_k", true}}}) {
    CAPTURE(keys);
    const Manifest manifest = generate(sm90_decode_plan(keys)).manifest;
    if (manifest.stages) {
      CHECK(fits(manifest.smem_bytes) == 1);
      CHECK(fits(manifest.stages->shared_smem_bytes) == manifest.grid.ctas_per_sm);
    } else {
      CHECK(fits(manifest.smem_bytes) == manifest.grid.ctas_per_sm);
    }
  }
}

TEST_CASE("a copy takes what no end of a page and no end of a tile cuts") {
  for (const int page : {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024}) {
    CAPTURE(page);
    const Json plan = json_of(sm90_decode_plan(paged(page)).to_json());
    const Json& k = plan["systems"]["mha_operand"]["k"];
    CHECK(k["eff_page"] == std::min(page, 64));
    CHECK(k["num_pages"] == std::max(64 / page, 1));
    const Manifest manifest = generate(sm90_decode_plan(paged(page))).manifest;
    CHECK(manifest.page_size == page);
    CHECK(manifest.params[0].map.dims[1].box == std::min(page, 64));
    CHECK(manifest.params[0].map.dims[3].axis == "page");
  }
  for (const auto& [page, rows] : {std::pair{48, 16}, {96, 32}, {100, 4}, {7, 1}}) {
    CAPTURE(page);
    const Manifest manifest = generate(sm90_decode_plan(paged(page))).manifest;
    CHECK(manifest.page_size == page);
    CHECK(manifest.params[0].map.dims[1].box == rows);
  }
}

TEST_CASE("narrow keys are multiplied in fp16, through registers") {
  for (const char* type : {"fp8_e4m3", "int8"}) {
    CAPTURE(type);
    const KernelSource source = generate(sm90_decode_plan({{"kv_dtype", type}}));
    CHECK(source.text.find("wgmma_m64n16k16_rs") != std::string::npos);
    CHECK(source.text.find(".f32.f16.f16") != std::string::npos);
    CHECK(source.text.find("_ss(") == std::string::npos);
    CHECK(source.manifest.params[0].map.dims[0].box == 128);
  }
  const Json scales{{"kind", "paged"}, {"page_size", 16}, {"quantization", {{"granularity", "per_token"}}}};
  const KernelSource source = generate(sm90_decode_plan({{"kv_dtype", "fp8_e4m3"}, {"operand", scales}}));
  CHECK(source.text.find("copy_async_arrive(mbar_k_full") != std::string::npos);
}

TEST_CASE("products of a tile are counted: depth / 16 for each 64 keys, keys / 16 for each 64 columns") {
  for (const int depth : {64, 128, 256}) {
    const Manifest manifest = generate(sm90_decode_plan({{"depth", depth}})).manifest;
    REQUIRE(manifest.expectations.size() == 2);
    CHECK(manifest.expectations[0].count == depth / 16 + depth / 64 * 4);
  }
}

TEST_CASE("the launch before is waited for, as late as the launch's promise allows") {
  // By the plan (where it asks for lengths), each producer, the consumers, and at the end.
  Json fixed = paged(64);
  fixed["split_kv"] = 2;
  for (const auto& [more, waits] :
       {std::pair{Json::object(), 4}, {paged(64), 4}, {paged(16), 5}, {fixed, 3}}) {
    const KernelSource source = generate(sm90_decode_plan(more));
    CHECK(source.manifest.expectations.back().instruction == "griddepcontrol.wait");
    CHECK(source.manifest.expectations.back().count == waits);
    CHECK(source.manifest.takes("launch_before", KernelParam::Kind::i32));
    const std::size_t prefetch = source.text.find("tma_prefetch(&v_map, ");
    const std::size_t next = source.text.find("let_next_launch_begin();\n");
    CHECK(prefetch < next);
    CHECK(next < source.text.find("tma_load(smem_v"));
  }
}

TEST_CASE("what sm90_decode has not is refused at its key") {
  CHECK(sm90_decode_refused_at({{"dtype", "fp8_e4m3"}, {"kv_dtype", "int8"}}, "/kv_dtype", "not-yet"));
  CHECK(sm90_decode_refused_at({{"kv_dtype", "fp16"}}, "/kv_dtype", ""));
  CHECK(sm90_decode_refused_at({{"BM", 24}}, "/BM", ""));
  CHECK(sm90_decode_refused_at({{"BN", 96}}, "/BN", "V3"));
  CHECK(sm90_decode_refused_at({{"v_from_k", true}, {"ov_depth", 64}, {"num_kv_stages", 1}}, "/num_kv_stages",
                               "V25"));
  CHECK(sm90_decode_refused_at({{"num_kv_stages", 12}}, "/num_kv_stages", "V15"));
  CHECK(sm90_decode_refused_at({{"num_threads", 256}}, "/num_threads", "sm90_decode"));
  const Json scales{{"kind", "paged"}, {"page_size", 16}, {"quantization", {{"granularity", "per_token"}}}};
  CHECK(sm90_decode_refused_at({{"operand", scales}}, "/operand/quantization", "not-yet"));
  const auto grouped = [](int n) { return Json{{"kind", "ragged"}, {"quantization", {{"granularity", n}}}}; };
  const char* const granularity = "/operand/quantization/granularity";
  CHECK(sm90_decode_refused_at({{"operand", grouped(24)}, {"kv_dtype", "int8"}}, granularity, "not-yet"));
  CHECK(sm90_decode_refused_at({{"operand", grouped(20)}, {"kv_dtype", "int8"}}, granularity, "not-yet"));
  CHECK(sm90_decode_refused_at({{"operand", grouped(32)}, {"dtype", "fp8_e4m3"}}, granularity, "not-yet"));
}
