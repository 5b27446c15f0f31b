// Kernels that once spilled registers or drew a warning: what is loaded and kept at the end of an item, or beside the
// products of many groups of columns, is close to what a thread may have.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "generator/config/json_text.hpp"
#include "tests/emulated_options.hpp"

using namespace kiln;

namespace {

void check_no_spills(nlohmann::ordered_json config, const char* more) {
  config.update(json_of(more));
  CAPTURE(write_json(config));
  const auto binary = test::compiler().compile(generate(make_plan(parse_config(write_json(config), "test"))));
  CHECK(binary->spill_bytes == 0);
  CHECK(binary->warnings.empty());
}

}  // namespace

TEST_CASE("8-bit decode of 48 packed rows with scales of n elements takes tiles of 64 keys") {
  nlohmann::ordered_json base = {
      {"target", "sm_90a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 128}};
  check_no_spills(
      base,
      R"({"kv_dtype": "fp8_e4m3", "group": 40, "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": 64}}})");
}

TEST_CASE("sm_90a prefill over bytes with two scales a row takes tiles and pages that leave registers") {
  const nlohmann::ordered_json base = {{"target", "sm_90a"},
                                       {"operation", "prefill"},
                                       {"dtype", "bf16"},
                                       {"kv_dtype", "fp8_e4m3"},
                                       {"mask", "causal"}};
  const auto operand = [](int page_size, int columns) {
    return nlohmann::ordered_json{
        {"kind", "paged"}, {"page_size", page_size}, {"quantization", {{"granularity", columns}}}};
  };
  for (const auto& [depth, page_size] : {std::pair{128, 16}, {192, 1}, {192, 64}, {256, 16}}) {
    const nlohmann::ordered_json more = {{"depth", depth}, {"operand", operand(page_size, depth / 2)}};
    check_no_spills(base, write_json(more).c_str());
  }
}

TEST_CASE("sm_80 at depth 256 over pages, with a sink and log-sum-exps, keeps to the registers") {
  const nlohmann::ordered_json base = {{"target", "sm_80"}, {"operation", "decode"}, {"dtype", "bf16"},
                                       {"depth", 256},      {"sink", true},          {"lse", true}};
  for (const char* keys : {
           R"({"operand": {"kind": "paged", "page_size": 16}})",
           R"({"operand": {"kind": "paged", "page_size": 256}, "dtype": "fp16"})",
           R"({"operand": {"kind": "paged", "page_size": 16}, "mask": "custom"})",
           R"({"operand": {"kind": "paged", "page_size": 256}, "mask": "custom", "dtype": "fp16"})",
           R"({"operand": {"kind": "paged", "page_size": 16}, "mask": {"sliding_window": 70}})",
       })
    check_no_spills(base, keys);
}

TEST_CASE("sm_80 over a latent cache has half of O in registers, and what masks and modifiers keep") {
  const nlohmann::ordered_json base = {
      {"target", "sm_80"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 576},
      {"ov_depth", 512},   {"v_from_k", true},      {"sink", true},    {"lse", true}};
  for (
      const char* keys : {
          R"({"operand": {"kind": "paged", "page_size": 16}, "mask": "causal", "score_mod": {"softcap": 20}})",
          R"({"operand": {"kind": "paged", "page_size": 1}, "mask": {"sliding_window": 70}, "score_mod": "alibi"})",
          R"({"operand": {"kind": "continuous"}, "mask": "custom", "dtype": "fp16", "score_mod": "alibi"})",
      })
    check_no_spills(base, keys);
}

TEST_CASE("sm_90a over a latent cache: two warpgroups with 64 rows each keep to the registers") {
  const nlohmann::ordered_json base = {
      {"target", "sm_90a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 576},
      {"ov_depth", 512},    {"v_from_k", true},      {"BM", 64},        {"lse", true}};
  for (
      const char* keys : {
          R"({"operand": {"kind": "contiguous"}})",
          R"({"operand": {"kind": "paged", "page_size": 16}, "mask": "causal", "sink": true, "score_mod": {"softcap": 20}})",
          R"({"operand": {"kind": "paged", "page_size": 1}, "mask": {"sliding_window": 70}, "score_mod": "alibi"})",
          R"({"operand": {"kind": "continuous"}, "mask": "custom", "dtype": "fp16", "score_mod": "alibi", "sink": true})",
          R"({"operand": {"kind": "ragged"}, "mask": {"chunked": 100}})",
          R"({"operand": {"kind": "paged", "page_size": 64}, "mask": "causal", "split_kv": 4})",
          R"({"operand": {"kind": "paged", "page_size": 24}, "mask": "causal", "depth": 448, "ov_depth": 384})",
      })
    check_no_spills(base, keys);
}

TEST_CASE("sm_90a with a scale for every n elements keeps to the registers of two blocks") {
  const nlohmann::ordered_json base = {{"target", "sm_90a"}, {"operation", "decode"}, {"dtype", "fp16"},
                                       {"depth", 128},       {"mask", "causal"},      {"kv_dtype", "int8"}};
  for (
      const char* keys : {
          R"({"operand": {"kind": "contiguous", "quantization": {"granularity": 32}}})",
          R"({"operand": {"kind": "contiguous", "quantization": {"granularity": 64}}, "dtype": "bf16"})",
          R"({"operand": {"kind": "paged", "page_size": 32, "quantization": {"granularity": 32}}})",
          R"({"operand": {"kind": "paged", "page_size": 256, "quantization": {"granularity": 64}}, "kv_dtype": "fp8_e4m3"})",
          R"({"operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": 32}}, "kv_dtype": "fp8_e4m3", "mask": "none"})",
      })
    check_no_spills(base, keys);
}

TEST_CASE("FP8 prefill past depth 128 keeps to the registers, whatever hides or moves its keys") {
  const nlohmann::ordered_json config = {
      {"target", "sm_90a"}, {"operation", "prefill"}, {"dtype", "fp8_e4m3"}, {"depth", 256}};
  check_no_spills(config,
                  R"({"mask": {"sliding_window": 70}, "operand": {"kind": "continuous"}, "lse": true})");
  check_no_spills(config, R"({"mask": "causal", "operand": {"kind": "paged", "page_size": 16}})");
  check_no_spills(config,
                  R"({"depth": 192, "mask": "custom", "operand": {"kind": "paged", "page_size": 16}})");
}

TEST_CASE(
    "sm_90a prefill with O of floats over tables keeps to the registers where hidden values are repaired") {
  const nlohmann::ordered_json base = {
      {"target", "sm_90a"}, {"operation", "prefill"}, {"dtype", "bf16"},    {"depth", 192},
      {"ov_depth", 128},    {"mask", "causal"},       {"out_dtype", "f32"}, {"lse", true}};
  check_no_spills(base, R"({"operand": {"kind": "continuous"}})");
  check_no_spills(base, R"({"operand": {"kind": "paged", "page_size": 16}})");
  check_no_spills(base, R"({"operand": {"kind": "continuous"}, "lse": false})");
  const char* const token = R"({"dtype": "fp8_e4m3", "depth": 256, "ov_depth": 256,
      "operand": {"kind": "continuous", "quantization": {"granularity": "per_token"}}})";
  check_no_spills(base, token);
}

TEST_CASE("sm_90a prefill at depth 256 under windows over rows of one length watches less of S at a time") {
  const nlohmann::ordered_json base = {
      {"target", "sm_90a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 256}, {"lse", true}};
  check_no_spills(base, R"({"mask": {"chunked": 200}})");
  check_no_spills(base, R"({"mask": {"window": {"left": 100, "chunk": 256}}, "sink": true})");
  check_no_spills(base, R"({"mask": {"window": {"left": "launch", "right": "launch"}}, "lse": false})");
  check_no_spills(base, R"({"mask": {"window": {"left_padding": true}}})");
}

TEST_CASE("sm_90a decode chooses as many rows for a large group as leave a thread its registers") {
  const nlohmann::ordered_json base = {
      {"target", "sm_90a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"group", 40}, {"depth", 256}};
  for (const char* more : {
           R"({"operand": {"kind": "paged", "page_size": 64}, "mask": "causal"})",
           R"({"operand": {"kind": "paged", "page_size": 64}, "mask": "causal", "group": 64})",
           R"({"operand": {"kind": "contiguous"}, "mask": "custom", "lse": true, "depth": 192})",
           R"({"operand": {"kind": "contiguous"}, "depth": 128})",
           R"({"operand": {"kind": "paged", "page_size": 64}, "kv_dtype": "fp8_e4m3", "mask": "custom"})",
           R"({"operand": {"kind": "contiguous"}, "kv_dtype": "fp8_e4m3", "group": 64})",
       })
    check_no_spills(base, more);
}

TEST_CASE("sm_90a prefill with log-sum-exps, without turns or at depth 240 keeps to the registers") {
  const nlohmann::ordered_json base = {
      {"target", "sm_90a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 64}};
  for (const char* keys : {
           R"({"lse": true})",
           R"({"schedule": "sm90_prefill"})",
           R"({"schedule": "sm90_prefill", "lse": true, "dtype": "fp16"})",
           R"({"schedule": "sm90_prefill", "lse": true, "mask": "causal"})",
           R"({"depth": 240, "score_mod": "alibi", "mask": "causal"})",
       })
    check_no_spills(base, keys);
}

TEST_CASE("captured tensors leave the registers of a tile that the planner chooses") {
  const char* const one = R"({"score_mod": {"expr": "score + bias[h, q, k]", "tensors": {"bias": "f32"}}})";
  const char* const four =
      R"({"score_mod": {"expr": "score + bias[b, h, q, k] * slope[h] + c[q] - d[b, k]",
          "tensors": {"bias": "f32", "slope": "f32", "c": "bf16", "d": "int8"}}})";
  for (const auto& [more, tensors] : {
           std::pair{R"({"target": "sm_90a", "dtype": "fp8_e4m3", "depth": 64, "mask": "causal",
                         "operand": {"kind": "paged", "page_size": 16}})",
                     one},
           std::pair{R"({"target": "sm_90a", "depth": 128, "lse": true, "sink": true})", one},
           std::pair{R"({"target": "sm_90a", "depth": 256, "mask": {"sliding_window": 70}})", four},
           std::pair{R"({"target": "sm_90a", "operation": "decode", "group": 24, "depth": 128, "lse": true,
                         "mask": {"sliding_window": 70}, "operand": {"kind": "ragged"}})",
                     one},
           std::pair{R"({"target": "sm_80", "depth": 192, "operand": {"kind": "continuous"}})", one},
           std::pair{R"({"target": "sm_80", "depth": 96, "mask": "custom"})", four},
           std::pair{R"({"target": "sm_80", "operation": "decode", "depth": 256, "mask": {"chunked": 100}})",
                     one},
           std::pair{R"({"target": "sm_100a", "depth": 48, "lse": true})", four},
           std::pair{R"({"target": "sm_100a", "operation": "decode", "group": 64, "depth": 128})", four},
       }) {
    nlohmann::ordered_json config = {{"operation", "prefill"}, {"dtype", "bf16"}};
    config.update(json_of(tensors));
    check_no_spills(config, more);
  }
}

TEST_CASE("sm_90a prefill at depth 256 has narrower tiles beside soft caps and ALiBi with bounds") {
  const nlohmann::ordered_json base = {
      {"target", "sm_90a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 256}, {"lse", true}};
  check_no_spills(base, R"({"mask": "causal", "score_mod": "alibi", "sink": true})");
  check_no_spills(base, R"({"mask": "causal", "score_mod": {"softcap": 20}, "sink": true})");
  check_no_spills(base, R"({"mask": "custom", "score_mod": "alibi"})");
}

TEST_CASE("sm_100a shares out registers by mask and depth, and narrows tiles of ALiBi") {
  const nlohmann::ordered_json base = {{"target", "sm_100a"}, {"operation", "prefill"}, {"dtype", "bf16"}};
  for (const char* keys : {
           R"({"depth": 128, "score_mod": "alibi"})",
           R"({"depth": 32, "mask": {"chunked": 100}})",
           R"({"depth": 128, "ov_depth": 16, "mask": {"chunked": 100}})",
           R"({"depth": 64, "ov_depth": 32, "mask": {"sliding_window": 70}})",
           R"({"depth": 192, "mask": {"sliding_window": 70}, "operand": {"kind": "paged", "page_size": 16}})",
           R"({"operation": "decode", "depth": 128, "group": 40, "mask": {"chunked": 100}, "lse": true})",
           R"({"operation": "decode", "depth": 96, "group": 40, "mask": {"sliding_window": 70}, "lse": true,
               "operand": {"kind": "paged", "page_size": 16}})",
       })
    check_no_spills(base, keys);
}

TEST_CASE("sm_100a over a latent cache: half of 64 rows in a thread, and what masks and modifiers keep") {
  const nlohmann::ordered_json base = {
      {"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 576},
      {"ov_depth", 512},     {"v_from_k", true},      {"sink", true},    {"lse", true}};
  for (const char* keys : {
           R"({"mask": {"chunked": 100}, "operand": {"kind": "paged", "page_size": 7}, "score_mod": "alibi",
               "split_kv": 3, "out_dtype": "f32"})",
           R"({"mask": {"chunked": 100}, "operand": {"kind": "paged", "page_size": 3},
               "score_mod": {"expr": "score + a[k] + c[h] + d[q] + e[b]",
                             "tensors": {"a": "f32", "c": "f32", "d": "f32", "e": "f32"}}})",
           R"({"mask": "custom", "operand": {"kind": "paged", "page_size": 7},
               "score_mod": {"expr": "score + a[k] + c[h] + d[q] + e[b]",
                             "tensors": {"a": "f32", "c": "f32", "d": "f32", "e": "f32"}}})",
           R"({"mask": "causal", "depth": 192, "ov_depth": 112, "score_mod": {"softcap": 20}})",
       })
    check_no_spills(base, keys);
}

TEST_CASE(
    "sm_100a over wide rows of K and V apart: half of 64 rows in a thread, also beside warps that convert") {
  const nlohmann::ordered_json base = {{"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "bf16"},
                                       {"depth", 512},        {"group", 64},           {"sink", true},
                                       {"lse", true}};
  for (const char* keys : {
           R"({"mask": {"chunked": 100}, "operand": {"kind": "paged", "page_size": 7}, "score_mod": "alibi",
               "split_kv": 3, "out_dtype": "f32"})",
           R"({"mask": "custom", "operand": {"kind": "paged", "page_size": 7},
               "score_mod": {"expr": "score + a[k] + c[h] + d[q] + e[b]",
                             "tensors": {"a": "f32", "c": "f32", "d": "f32", "e": "f32"}}})",
           R"({"depth": 256, "mask": {"chunked": 100}, "operand": {"kind": "paged", "page_size": 3},
               "score_mod": {"expr": "score + a[k] + c[h] + d[q] + e[b]",
                             "tensors": {"a": "f32", "c": "f32", "d": "f32", "e": "f32"}}})",
           R"({"depth": 256, "kv_dtype": "int8", "mask": {"chunked": 100}, "score_mod": "alibi",
               "operand": {"kind": "paged", "page_size": 7, "quantization": {"granularity": "per_token"}}})",
           R"({"depth": 256, "kv_dtype": "fp8_e4m3", "mask": "causal", "score_mod": {"softcap": 20},
               "operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}}})",
       })
    check_no_spills(base, keys);
}

TEST_CASE(
    "sm_100a over latent rows of bytes: 64 rows in 168 registers of a thread, fewer where more is kept") {
  const nlohmann::ordered_json base = {
      {"target", "sm_100a"},
      {"operation", "decode"},
      {"dtype", "bf16"},
      {"kv_dtype", "int8"},
      {"depth", 576},
      {"ov_depth", 512},
      {"v_from_k", true},
      {"sink", true},
      {"lse", true},
      {"rope_depth", 64},
      {"rope", {{"layout", "tail"}}},
      {"group", 64},
      {"operand", {{"kind", "paged"}, {"page_size", 7}, {"quantization", {{"granularity", "per_token"}}}}}};
  for (const char* keys : {R"({"mask": "causal"})", R"({"mask": {"chunked": 100}, "score_mod": "alibi"})",
                           R"({"mask": "custom", "score_mod": {"softcap": 20}})"})
    check_no_spills(base, keys);
}

TEST_CASE("windows that are open to one side compile without a warning") {
  for (const char* base : {
           R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64})",
           R"({"target": "sm_80", "operation": "decode", "dtype": "fp16", "depth": 64})",
           R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 128})",
       })
    for (const char* keys : {R"({"mask": {"window": {"left": 640}}})",
                             R"({"mask": {"window": {"right": 65}}})", R"({"mask": {"window": {}}})"})
      check_no_spills(json_of(base), keys);
}

TEST_CASE(
    "sm_90a decode of bytes that reads captured tensors has tiles of as many keys as it has registers for") {
  const nlohmann::ordered_json base = {{"target", "sm_90a"},     {"operation", "decode"}, {"dtype", "bf16"},
                                       {"kv_dtype", "fp8_e4m3"}, {"depth", 128},          {"mask", "custom"}};
  const char* const three = R"({"score_mod": {"expr": "score + t0[h,k] + t1[b,q,k] + t2[h,q,k]",
      "tensors": {"t0": "f32", "t1": "f32", "t2": "f32"}}})";
  const char* const four = R"({"score_mod": {"expr": "score + t0[h,k] + t1[b,q,k] + t2[h,q,k] + t3[k]",
      "tensors": {"t0": "f32", "t1": "f32", "t2": "f32", "t3": "f32"}}})";
  check_no_spills(base, three);
  check_no_spills(base, four);
  nlohmann::ordered_json wide = base;
  wide.update(json_of(four));
  wide["BN"] = 128;
  CHECK_THROWS_WITH(make_plan(parse_config(write_json(wide), "test")),
                    doctest::Contains("nearest legal: BN 64"));
}
