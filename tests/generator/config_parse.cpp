// Reading and writing configs: round trips, names, the JSON Schema, and texts nobody meant to write.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include <kiln/config.hpp>
#include <kiln/generator.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/config/rules.hpp"
#include "generator/config/schema.hpp"

using namespace kiln;

namespace {

constexpr std::string_view kMinimal =
    R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128})";

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A legal value of each key, for the target that has it.
const char* const kSamples[][2] = {
    {"sm_90a",
     R"json({"name": "k_1", "kv_dtype": "fp8_e4m3", "out_dtype": "f32", "ov_depth": 64, "q_depth": 128,
                   "cache_depth": 256, "head_dim_offset": 64, "rope_depth": 64, "nope_depth": 64, "v_from_k": false,
                   "num_q_heads": 32, "kv_num_heads": 8, "BM": 192, "BN": 128, "num_threads": 512, "swizzle": "128B",
                   "mma_shape": [64, 128, 16], "group": 4, "queries": 8, "split_kv": 2, "lse": true, "scale": 0.125, "sink": true,
                   "operand": {"kind": "paged", "page_size": 16,
                               "quantization": {"granularity": 64, "scale_dtype": "f32"}},
                   "mask": {"sliding_window": 4096}, "score_mod": {"softcap": 30.5}, "num_kv_stages": 3,
                   "num_qk_stages": 2, "shared_ring": true, "tma_fold": "none", "base_alignment": 16,
                   "rope": {"layout": "tail", "padded_depth": 512, "dtype": "bf16"}, "schedule": "sm90_prefill",
                   "scale_placement": "post", "pv_operand": "registers", "cluster": 2, "fp8_flush_interval": 4,
                   "exp_offload": 0.25, "source_style": "compact", "BK": 64})json"},
    {"gfx950", R"json({"swizzle_k": {"bits": 3, "base": 0, "shift": 4, "domain": "vector"}, "swizzle_v": null,
                   "swizzle_p": {"bits": 3, "base": 0, "shift": 3, "domain": "vector"}, "WM": 32, "WN": 64,
                   "BM": 128, "BN": 64, "full_kv": true, "bk_smem": 32, "smem_depth": 128, "reg_chunk_depth": 64,
                   "reg_chunk_keys": 32, "num_smem_stages": 2, "double_buffer": true, "double_buffer_k_only": false,
                   "shared_kv": false, "dma": "lds_direct", "v_load": "tr32", "v_layout": "flat",
                   "wait_policy": "counted", "mask": {"chunked": 128}, "score_mod": {"expr": "score * (q - k)"},
                   "operand": {"kind": "ragged", "quantization": {"granularity": "per_head", "scale_dtype": "f32"}}})json"},
    {"sm_100a",
     R"json({"gather4": {"tile_height": 64, "tile_width": 576, "tile_stride": 576, "tma_dtype": "bf16",
                                "swizzle": "128B", "l2_promotion": "256B"}, "num_pv_stages": 2, "pair_cta": true,
                    "single_o": false, "bn_cap": 128, "mask": "custom", "score_mod": "alibi",
                    "scheduler": "launch_control"})json"},
};

Json sample_config(std::size_t i) {
  Json out = json_of(kMinimal);
  out["target"] = kSamples[i][0];
  out.update(json_of(kSamples[i][1]));
  return out;
}

}  // namespace

TEST_CASE("a window without sides shows every key") {
  const auto mask = [](const std::string& window) {
    const Config config = parse_config(
        R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 64, "mask": {"window": )" +
            window + "}}",
        "test");
    return config_to_dom(make_plan(config).resolved())["mask"].dump();
  };
  CHECK(mask("{}") == R"("none")");
  CHECK(mask(R"({"left_padding": false})") == R"("none")");
  CHECK(mask(R"({"left_padding": true})") == R"({"window":{"left_padding":true}})");
}

TEST_CASE("every key survives a round trip") {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < std::size(kSamples); ++i) {
    const Json document = sample_config(i);
    Violations mistakes;
    const Config config = config_from_dom(document, mistakes);
    INFO((mistakes.empty() ? "" : violation_line(mistakes[0])));
    CHECK(mistakes.empty());
    const Config again = config_from_dom(json_of(to_json(config)), mistakes);
    CHECK(to_json(again) == to_json(config));
    for (const auto& [name, value] : document.items()) {
      CAPTURE(name);
      const Json written = config_to_dom(config)[name];
      CHECK(written == (value.is_null() ? Json("none") : value));
      seen.insert(name);
    }
  }
  for (const KeySpec& key : config_keys()) {
    CAPTURE(key.name);
    CHECK(seen.contains(std::string(key.name)));
  }
}

TEST_CASE("the samples break no rule of their targets") {
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    CHECK_NOTHROW(parse_config(sample_config(i).dump(), "sample"));
}

TEST_CASE("minimal configs of every target and depth break no rule") {
  for (const Target each : kTargetList) {
    const std::string_view target = to_string(each);
    for (const char* operation : {"prefill", "decode"}) {
      for (const char* dtype : {"bf16", "fp16", "fp8_e4m3", "fp8_e4m3fnuz"}) {
        for (const int depth : {64, 96, 128, 192, 256, 512}) {
          const bool fp8 = std::string_view(dtype).starts_with("fp8");
          const bool fnuz = std::string_view(dtype) == "fp8_e4m3fnuz", gfx942 = each == Target::gfx942;
          if (fp8 && (fnuz != gfx942 || each == Target::sm_80 || each == Target::gfx90a)) continue;
          if (fp8 && depth == 512 && each == Target::gfx950) continue;  // 7.1: FP8 prefill up to 256
          // Two 256-column outputs leave no tensor memory for the keys.
          if (is_blackwell(each) && depth > 256) continue;
          Json document{{"target", target}, {"operation", operation}, {"dtype", dtype}, {"depth", depth}};
          CAPTURE(write_json(document));
          CHECK_NOTHROW(parse_config(write_json(document), "minimal"));
        }
      }
    }
  }
  CHECK_NOTHROW(parse_config(R"({"target": "gfx950", "operation": "decode", "dtype": "bf16", "depth": 576,
                                 "ov_depth": 512, "v_from_k": true})",
                             "mla"));
}

TEST_CASE("auto, null and $schema mean nothing set") {
  Json document = json_of(kMinimal);
  document.update(Json{{"$schema", "x"},
                       {"swizzle", "auto"},
                       {"group", "auto"},
                       {"split_kv", "auto"},
                       {"schedule", "auto"},
                       {"num_kv_stages", "auto"},
                       {"shared_ring", "auto"}});
  CHECK(to_json(parse_config(write_json(document), "auto")) == to_json(parse_config(kMinimal, "minimal")));
}

TEST_CASE("names are identifiers, readable, and differ when a key differs") {
  CHECK(config_name(parse_config(kMinimal, "")) == "prefill_bf16_d128_sm90a");
  std::set<std::string> names{"prefill_bf16_d128_sm90a"};
  int count = 1;
  for (std::size_t i = 0; i < std::size(kSamples); ++i) {
    const Json keys = json_of(kSamples[i][1]);
    for (const auto& [key, value] : keys.items()) {
      if (key == "name" || value.is_null()) continue;
      Json document = json_of(kMinimal);
      document["target"] = kSamples[i][0];
      document[key] = value;
      Violations mistakes;
      const std::string name = config_name(config_from_dom(document, mistakes));
      CAPTURE(name);
      CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
            std::string::npos);
      names.insert(name);
      ++count;
    }
    Violations mistakes;
    Json all = sample_config(i);
    all.erase("name");
    CHECK(config_name(config_from_dom(all, mistakes)).size() <= 110);
  }
  CHECK(static_cast<int>(names.size()) == count);
}

TEST_CASE("the JSON Schema in configs is the key table's") {
  const std::string path = KILN_SOURCE_DIR "/configs/kiln-config.schema.json";
  if (std::getenv("KILN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << config_schema();
  CHECK((read(path) == config_schema()));
}

TEST_CASE("docs/config.md describes every key and every rule") {
  const std::string text = read(KILN_SOURCE_DIR "/docs/config.md");
  for (const KeySpec& key : config_keys()) {
    CAPTURE(key.name);
    CHECK(text.find("`" + std::string(key.name) + "`") != std::string::npos);
  }
  for (const Rule& rule : config_rules()) {
    CAPTURE(rule.id);
    CHECK(text.find(std::string(rule.id)) != std::string::npos);
    for (const std::string_view key : rule.keys)
      CHECK(find_key(key.substr(1, key.find('/', 1) - 1)) != nullptr);
  }
}

TEST_CASE("huge and hostile texts are refused, quickly and with a place") {
  const auto what = [](const std::string& text) -> std::string {
    try {
      parse_config(text, "t");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(what(std::string(kMaxConfigBytes + 1, ' ')).find("bytes") != std::string::npos);
  const std::string digits = what(R"({"depth": )" + std::string(900000, '9') + "}");
  CHECK(digits.find("/depth = 9999") != std::string::npos);
  CHECK(digits.size() < 4000);
  CHECK(what(std::string(500000, '[')).find("deeper") != std::string::npos);
  std::string many = "{";
  for (int i = 0; i < 60000; ++i) many += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1e999";
  CHECK(what(many + "}").find("out of range") != std::string::npos);
  many = "{";
  for (int i = 0; i < 60000; ++i) many += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  CHECK(what(many + "}") == "t: (document) = {...}: schema: an object of more than 256 keys");
  CHECK(
      what(R"({"two\nlines": 1, "target": "sm_80", "operation": "decode", "dtype": "bf16", "depth": 64})") ==
      "t: /two?lines = 1: schema: unknown key");
  CHECK(what("{\"" + std::string(100000, 'k') + "\": 1}").size() < 2000);
  CHECK(what(std::string("{\"a\0b\":1}", 9)).find("line 1") != std::string::npos);
  CHECK(what("\xff\xfe").find("line 1") != std::string::npos);
  CHECK(what(std::string(kMinimal) + '\0' + "x").find("a character of value 0") != std::string::npos);
}

TEST_CASE("mutated configs never crash, and what parses writes back") {
  std::vector<std::string> seeds{std::string(kMinimal)};
  for (std::size_t i = 0; i < std::size(kSamples); ++i) seeds.push_back(sample_config(i).dump());
  const std::string tokens[] = {"1e999", "-1", "null",  "{}",          "[]",         "\"auto\"",
                                "true",  "0",  "1e308", "\"\\u0000\"", "2147483648", ","};
  constexpr unsigned kSeed = 20260101;
  MESSAGE("seed " << kSeed);
  std::mt19937 engine(kSeed);
  const auto random = [&] { return static_cast<unsigned>(engine()); };
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seeds[random() % seeds.size()];
    for (unsigned n = random() % 3 + 1; n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() & 0xff);
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        case 2:
          text.insert(at, tokens[random() % std::size(tokens)]);
          break;
        default: {
          const std::size_t colon = text.find(':', at), end = text.find_first_of(",}", colon);
          if (end != std::string::npos)
            text.replace(colon + 1, end - colon - 1, tokens[random() % std::size(tokens)]);
        }
      }
    }
    try {
      const Config config = parse_config(text, "mutant");
      REQUIRE(to_json(parse_config(to_json(config), "again")) == to_json(config));
      ++parsed;
      make_plan(config);
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::bad_config);
      REQUIRE_FALSE(error.violations().empty());
    }
  }
  CHECK(parsed > 100);
}
