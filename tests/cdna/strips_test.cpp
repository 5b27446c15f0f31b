// Streaming decode of depths that are no power of two: V's strips are blocks of BK columns, shared out among the
// waves in whole ones.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::string strips(const char* target, const char* dtype, int depth, const std::string& more = "") {
  return config_text(target, dtype, depth, R"("schedule": "cdna_decode_streaming")" + more, "decode");
}

}  // namespace

TEST_CASE("streaming decode of 96 and 192 columns" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}};
  check_ladder(strips("gfx942", "bf16", 96), cases, true);
  check_ladder(strips("gfx950", "fp16", 96, R"(, "out_dtype": "f32", "shared_kv": true)"), cases, true);
  check_ladder(strips("gfx90a", "bf16", 192, R"(, "operand": {"kind": "paged", "page_size": 16})"), cases);
  check_ladder(strips("gfx950", "bf16", 192, R"(, "kv_dtype": "fp8_e4m3", "mask": "causal", "lse": true)"),
               cases);
  check_ladder(strips("gfx942", "fp8_e4m3fnuz", 192), cases);
}

TEST_CASE("streaming decode of rows that end within a strip of K" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}, {3, 65}};
  const std::string paged1 =
      R"(, "operand": {"kind": "paged", "page_size": 1, "quantization": {"granularity": "per_token"}}, "kv_dtype": "int8")";
  check_ladder(strips("gfx942", "bf16", 80), cases, true);
  check_ladder(strips("gfx950", "fp16", 80, R"(, "mask": "causal", "lse": true)"), cases, true);
  check_ladder(strips("gfx90a", "bf16", 112, R"(, "operand": {"kind": "paged", "page_size": 16})"), cases);
  check_ladder(strips("gfx950", "bf16", 72, R"(, "operand": {"kind": "ragged"}, "shared_kv": true)"), cases);
  check_ladder(strips("gfx90a", "fp16", 80, paged1), cases);
  check_ladder(strips("gfx942", "fp8_e4m3fnuz", 80), cases);
  check_ladder(strips("gfx950", "fp8_e4m3", 80), cases);
  check_compiled(strips("gfx942", "bf16", 80), false);
}

TEST_CASE("a swizzle that moves V's columns of one wave among those of another") {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 33}};
  check_ladder(strips("gfx950", "fp8_e4m3", 256, R"(, "swizzle_v": "128B")"), cases, true);
  check_ladder(strips("gfx90a", "bf16", 128, R"(, "swizzle": "128B")"), cases, true);
  check_ladder(strips("gfx942", "fp16", 256,
                      R"(, "swizzle_v": {"bits": 4, "base": 0, "shift": 5, "domain": "vector"})"),
               cases);
}

TEST_CASE("a wave of many keys whose rows are looked up has the registers for them, or is refused") {
  const char* pages = R"(, "operand": {"kind": "paged", "page_size": 33}, "WN": )";
  for (const auto& [target, type] : {std::pair{"gfx950", "fp8_e4m3"}, std::pair{"gfx942", "fp8_e4m3fnuz"}})
    for (const char* keys : {"448", "512"})
      CHECK(refusal(strips(target, type, 64, pages + std::string(keys))).find("V32") != std::string::npos);
  if (!toolchain()) return;
  check_compiled(strips("gfx950", "fp8_e4m3", 64, pages + std::string("384")), false);
  check_compiled(strips("gfx950", "bf16", 64, pages + std::string("320")), false);
  check_compiled(strips("gfx950", "fp8_e4m3", 64, R"(, "WN": 512)"), false);
}

TEST_CASE("streaming decode takes flat rows of V that are a power of two") {
  CHECK(refusal(strips("gfx942", "bf16", 96, R"(, "BK": 64)")).empty());
  CHECK(refusal(strips("gfx942", "bf16", 120)).find("V8") != std::string::npos);
  CHECK(refusal(strips("gfx942", "bf16", 96, R"(, "v_layout": "flat")")).find("power of two") !=
        std::string::npos);
  const Plan plan = make_plan(parse_config(strips("gfx942", "bf16", 96), "test"));
  CHECK(*plan.resolved().v_layout == "blocked");
  CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
}
