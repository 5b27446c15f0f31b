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

TEST_CASE("streaming decode of 96 and 192 columns") {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}};
  check_ladder(strips("gfx942", "bf16", 96), cases, true);
  check_ladder(strips("gfx950", "fp16", 96, R"(, "out_dtype": "f32", "shared_kv": true)"), cases, true);
  check_ladder(strips("gfx90a", "bf16", 192, R"(, "operand": {"kind": "paged", "page_size": 16})"), cases);
  check_ladder(strips("gfx950", "bf16", 192, R"(, "kv_dtype": "fp8_e4m3", "mask": "causal", "lse": true)"),
               cases);
  check_ladder(strips("gfx942", "fp8_e4m3fnuz", 192), cases);
}

TEST_CASE("streaming decode takes whole strips of K, and flat rows of V that are a power of two") {
  CHECK(refusal(strips("gfx942", "bf16", 80)).find("a multiple of BK (32)") != std::string::npos);
  CHECK(refusal(strips("gfx942", "bf16", 96, R"(, "v_layout": "flat")")).find("power of two") !=
        std::string::npos);
  const Plan plan = make_plan(parse_config(strips("gfx942", "bf16", 96), "test"));
  CHECK(*plan.resolved().v_layout == "blocked");
  CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
}
