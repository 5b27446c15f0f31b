// Decode with `shared_kv`: V takes K's place in LDS, tile by tile or strip by strip.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

int lds_of(const std::string& config) {
  return make_plan(parse_config(config, "test")).resources().smem_bytes;
}

}  // namespace

TEST_CASE("K and V that do not fit LDS beside each other come in turn") {
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    for (int depth = 272; depth <= 576; depth += 16) {
      CAPTURE(target);
      CAPTURE(depth);
      const Plan plan = make_plan(parse_config(decode_config(target, "bf16", depth), "test"));
      if (depth == 512) continue;  // strips
      const bool both = std::string(target) == "gfx950" || depth <= 448;
      CHECK(*plan.resolved().shared_kv == !both);
      // A resolved config plans to itself.
      CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
    }
  }
}

TEST_CASE("decode with K and V in one place" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}};
  // whole tiles: copied directly, and through registers
  check_ladder(decode_config("gfx942", "bf16", 496, R"("mask": "causal", "lse": true)"), cases, true);
  check_ladder(decode_config("gfx90a", "fp16", 192, R"("shared_kv": true, "BN": 64)"), cases, true);
  check_ladder(decode_config("gfx942", "bf16", 512, R"("schedule": "cdna_decode", "shared_kv": true)"),
               cases);
  check_ladder(decode_config("gfx942", "bf16", 192, R"("kv_dtype": "int8", "shared_kv": true)"), cases, true);
  // strips
  check_ladder(decode_config("gfx950", "bf16", 512, R"("shared_kv": true)"), cases, true);
  check_ladder(decode_config("gfx942", "fp16", 128,
                             R"("shared_kv": true, "operand": {"kind": "paged", "page_size": 1})"),
               cases, true);
  check_ladder(decode_config("gfx942", "bf16", 128, R"("shared_kv": true, "kv_dtype": "fp8_e4m3")"), cases,
               true);
}

TEST_CASE("one place takes as much LDS as the larger of both") {
  for (const char* target : {"gfx942", "gfx950"}) {
    const std::string strips = decode_config(target, "bf16", 256),
                      shared = decode_config(target, "bf16", 256, R"("shared_kv": true)");
    CHECK(lds_of(shared) < lds_of(strips));
  }
  const std::string two =
      R"("schedule": "cdna_decode", "double_buffer_k_only": true, "BN": 32, "shared_kv": true)";
  CHECK(refusal(decode_config("gfx950", "bf16", 192, two)).find("one stage") != std::string::npos);
}
