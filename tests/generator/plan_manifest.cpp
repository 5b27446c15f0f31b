// The manifest's JSON: a round trip keeps everything, and damaged text is refused with the member that is
// wrong.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <kiln/error.hpp>
#include <kiln/source.hpp>

#include "generator/config/json_text.hpp"

using namespace kiln;

namespace {

Manifest sample_manifest() {
  Manifest m;
  m.name = "k";
  m.entry = "k_entry";
  m.target = "sm_90a";
  m.config_json = R"({"target":"sm_90a","depth":128})";
  m.num_threads = 384;
  m.smem_bytes = 200000;
  m.cluster = {2, 1, 1};
  m.grid = {GridRule::Kind::persistent, 128, 1};
  KernelParam map;
  map.kind = KernelParam::Kind::tensor_map;
  map.role = "k";
  map.map = {{{"depth", 64}, {"head", 1}, {"seq", 128}}, 128, 256};
  m.params = {map,
              {KernelParam::Kind::pointer, "lse", {}},
              {KernelParam::Kind::i32, "total_q", {}},
              {KernelParam::Kind::i64, "q_stride_seq", {}},
              {KernelParam::Kind::f32, "scale_log2", {}}};
  m.operand = OperandKind::ragged;
  m.depth = m.ov_depth = 128;
  m.writes_lse = true;
  m.scale = 0.08838834764831845;
  m.expectations = {{"wgmma.mma_async", 16}};
  return m;
}

std::string manifest_refusal(const nlohmann::ordered_json& json) {
  try {
    manifest_from_json(write_json(json));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("manifests survive a round trip") {
  const Manifest m = sample_manifest(), back = manifest_from_json(to_json(m));
  CHECK(to_json(back) == to_json(m));
  CHECK(back.params.size() == 5);
  CHECK(back.params[0].map.dims[2].box == 128);
  CHECK(back.params[3].kind == KernelParam::Kind::i64);
  CHECK(back.cluster[0] == 2);
  CHECK(back.scale == m.scale);
  CHECK(back.config_json == m.config_json);
  CHECK(back.expectations[0].count == 16);
}

TEST_CASE("what serving kernels add survives a round trip, and damage to it is refused") {
  Manifest m = sample_manifest();
  m.operand = OperandKind::paged;
  m.page_size = 16;
  m.workspace_bytes_per_block = 4096;
  m.workspace_bytes_per_item = 2048;
  m.grid = {GridRule::Kind::stream_k, 16, 2, 64};
  using Granularity = Quantization::Granularity;
  for (const auto& [granularity, block] : {std::pair{Granularity::per_tensor, 0},
                                           {Granularity::per_head, 0},
                                           {Granularity::per_token, 0},
                                           {Granularity::per_block, 32}}) {
    m.quantization = Quantization{granularity, block, DType::f32};
    m.num_q_heads = block, m.kv_num_heads = block / 4;
    const Manifest back = manifest_from_json(to_json(m));
    CHECK(to_json(back) == to_json(m));
    REQUIRE(back.quantization);
    CHECK(back.num_q_heads == block);
    CHECK(back.kv_num_heads == block / 4);
    CHECK(back.quantization->granularity == granularity);
    CHECK(back.quantization->block == block);
    CHECK(back.page_size == 16);
    CHECK(back.workspace_bytes_per_block == 4096);
    CHECK(back.workspace_bytes_per_item == 2048);
    CHECK(back.grid.kind == GridRule::Kind::stream_k);
    CHECK(back.grid.block_keys == 64);
  }
  m.quantization = Quantization{Granularity::per_token, 0, DType::f32, Quantization::Layout::head_major};
  const auto good = json_of(to_json(m));
  CHECK(manifest_from_json(to_json(m)).quantization->layout == Quantization::Layout::head_major);
  const auto damaged = [&](const auto& change) {
    auto bad = good;
    change(bad);
    return manifest_refusal(bad);
  };
  CHECK(manifest_refusal(good).empty());
  CHECK_FALSE(damaged([](auto& j) { j["quantization"]["layout"] = "token"; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["quantization"]["granularity"] = "per_head"; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["page_size"] = -1; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["page_size"] = "16"; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["workspace_bytes_per_block"] = 1 << 30; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["grid"].erase("block_keys"); }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["grid"]["block_keys"] = 0; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["quantization"] = 1; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["quantization"]["granularity"] = "per_cat"; }).empty());
  CHECK_FALSE(damaged([](auto& j) { j["quantization"]["granularity"] = 0; }).empty());
}

TEST_CASE("damaged manifests are refused at the damaged member") {
  const auto good = json_of(to_json(sample_manifest()));
  CHECK(manifest_refusal(good).empty());
  for (const auto& [name, value] : good.items()) {
    CAPTURE(name);
    auto missing = good;
    missing.erase(name);
    CHECK(manifest_refusal(missing).find("'" + name + "'") != std::string::npos);
    auto wrong = good;
    wrong[name] = value.is_boolean() ? nlohmann::ordered_json("yes") : nlohmann::ordered_json(true);
    if (name != "config") CHECK_FALSE(manifest_refusal(wrong).empty());
  }
  auto box = good;
  box["params"][0]["map"]["dims"][0]["box"] = 1.5;
  CHECK(manifest_refusal(box).find("'box'") != std::string::npos);
  box["params"][0]["map"]["dims"][0]["box"] = 5'000'000'000;
  CHECK(manifest_refusal(box).find("'box'") != std::string::npos);
  auto deep = good;
  deep["config"] = std::string(300000, '[');
  CHECK(manifest_from_json(to_json(manifest_from_json(write_json(deep)))).config_json.size() == 300000);
  std::string nested = write_json(good);
  nested.insert(nested.rfind("\"config\":") + 9,
                std::string(300000, '[') + std::string(300000, ']') + ",\"x\":");
  CHECK_THROWS_AS(manifest_from_json(nested), Error);
  // A million keys would take hours if they were kept.
  std::string keys = "{";
  for (int i = 0; i < 1'000'000; ++i) keys += "\"k" + std::to_string(i) + "\":0,";
  CHECK_THROWS_WITH_AS(manifest_from_json(keys + write_json(good).substr(1)),
                       doctest::Contains("has at most 4096"), Error);
  for (const char* text : {"", "{", "[]", "null", "{\"name\": 1}"})
    CHECK_THROWS_AS(manifest_from_json(text), Error);
}
