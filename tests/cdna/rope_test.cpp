// Rotary columns of K in a tensor of their own: a third buffer beside those of K and V.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::string rope(const char* target, int depth, const std::string& more, const char* operation = "prefill",
                 const char* dtype = "bf16") {
  return config_text(target, dtype, depth, R"("rope_depth": 64, "rope": {"layout": "separate"})" + more,
                     operation);
}

}  // namespace

TEST_CASE("the waits of MLA prefill count the loads of K, of its rotary columns and of V: fact F-19") {
  const Plan plan = make_plan(parse_config(
      rope("gfx950", 192, R"(, "ov_depth": 128, "BN": 64, "WN": 64, "BK": 32, "num_threads": 256)"), "test"));
  const auto systems = json_of(plan.to_json())["systems"]["kv_buffer"];
  CHECK(systems["k"]["vm_exact"] == 4);
  CHECK(systems["k_rope"]["vm_exact"] == 2);
  CHECK(systems["v"]["vm_exact"] == 4);
  const std::string text = generate(plan).text;
  CHECK(text.find("WAIT_LOADS_AND_SYNC(10);") != std::string::npos);
  CHECK(text.find("WAIT_LOADS_AND_SYNC(4);") != std::string::npos);
  CHECK(generate(make_plan(plan.resolved())).text == text);
}

TEST_CASE("prefill with rotary columns apart") {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{70, 150}, {1, 33}};
  const std::string wide = R"(, "ov_depth": 128, "mask": "causal", "lse": true)";
  check_ladder(rope("gfx950", 192, wide), cases, true);
  check_ladder(rope("gfx942", 192, wide), cases, true);
  check_ladder(
      rope("gfx90a", 192, wide + R"(, "operand": {"kind": "paged", "page_size": 16})", "prefill", "fp16"),
      cases);
  check_ladder(rope("gfx942", 192, wide + R"(, "operand": {"kind": "paged", "page_size": 1})"), cases, true);
  check_ladder(rope("gfx950", 128, R"(, "operand": {"kind": "ragged"})"), cases);
  const std::string latent = R"(, "ov_depth": 512, "v_from_k": true, "mask": "causal")";
  check_ladder(rope("gfx950", 576, latent), cases, true);
  check_ladder(rope("gfx942", 576, latent), cases);
  check_compiled(rope("gfx950", 192, wide), false);
}

TEST_CASE("decode with rotary columns apart" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 150}, {2, 1}};
  const std::string latent = R"(, "ov_depth": 512, "v_from_k": true, "mask": "causal", "lse": true)";
  check_ladder(rope("gfx950", 576, latent, "decode"), cases, true);
  check_ladder(rope("gfx942", 576, latent + R"(, "operand": {"kind": "paged", "page_size": 16})", "decode"),
               cases, true);
  check_ladder(
      rope("gfx90a", 576, latent + R"(, "operand": {"kind": "paged", "page_size": 3})", "decode", "fp16"),
      cases);
  check_ladder(rope("gfx950", 192, R"(, "ov_depth": 128, "BN": 64, "double_buffer_k_only": true)", "decode"),
               cases, true);
  check_ladder(rope("gfx942", 192, R"(, "ov_depth": 128, "shared_kv": true)", "decode"), cases, true);
  check_compiled(rope("gfx942", 576, latent, "decode"), false);
}

TEST_CASE("what rotary columns apart ask for") {
  CHECK(refusal(rope("gfx942", 192, R"(, "ov_depth": 128, "kv_dtype": "int8")")).find("/kv_dtype") !=
        std::string::npos);
  CHECK(refusal(rope("gfx942", 192, R"(, "ov_depth": 128, "schedule": "cdna_prefill_pingpong")"))
            .find("/rope") != std::string::npos);
  CHECK(refusal(rope("gfx942", 128, R"(, "full_kv": false)", "decode")).find("/rope") != std::string::npos);
  CHECK(refusal(rope("gfx942", 144, R"(, "BK": 32)")).find("whole strips of BK (32)") != std::string::npos);
  CHECK(refusal(config_text("gfx950", "bf16", 192,
                            R"("rope_depth": 64, "rope": {"layout": "tail", "padded_depth": 256})"))
            .find("tensor of their own") != std::string::npos);
}
