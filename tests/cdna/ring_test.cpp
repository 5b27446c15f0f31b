// Decode with `full_kv` false: blocks of columns of K, then of V, through one ring of stages.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::string ring(const char* target, const char* dtype, int depth, const std::string& more = "") {
  return config_text(target, dtype, depth, R"("full_kv": false)" + more, "decode");
}

std::string text_of(const std::string& config) {
  return generate(make_plan(parse_config(config, "test"))).text;
}

}  // namespace

TEST_CASE("decode by blocks: waits count the blocks on their way") {
  // Four blocks a tile of 64 keys: two waves copy 32 rows of 128 bytes each, 16 copies of 4 bytes a lane.
  const std::string text = text_of(ring("gfx942", "bf16", 128, R"(, "num_smem_stages": 3)"));
  CHECK(text.find("WAIT_LOADS_AND_SYNC(16);") != std::string::npos);
  CHECK(text.find("if (n + 1 < tile_end) WAIT_LOADS_AND_SYNC(16); else WAIT_LOADS_AND_SYNC(0);") !=
        std::string::npos);
  const Plan plan = make_plan(parse_config(ring("gfx950", "bf16", 512), "test"));
  CHECK(*plan.resolved().schedule == "cdna_decode");
  CHECK(*plan.resolved().num_smem_stages == 4);
  CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
  // LDS of the ring, not of the tile: 4 stages of 128 keys by 64 columns.
  const auto systems = json_of(plan.to_json())["systems"]["kv_buffer"];
  CHECK(systems["k"]["_blocks_per_stage"] == 1);
  CHECK(plan.resources().smem_bytes < 4 * 128 * 128 + 8192);
}

TEST_CASE("decode by blocks is right, in stages of two to four, directly and through registers" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 300}, {2, 1}};
  check_ladder(ring("gfx942", "bf16", 128, R"(, "num_smem_stages": 3, "mask": "causal", "lse": true)"), cases,
               true);
  check_ladder(ring("gfx90a", "fp16", 64, R"(, "num_smem_stages": 2)"), cases, true);
  check_ladder(ring("gfx950", "bf16", 512), cases, true);
  check_ladder(
      ring("gfx950", "bf16", 192, R"(, "ov_depth": 128, "operand": {"kind": "paged", "page_size": 16})"),
      cases, true);
  check_ladder(ring("gfx942", "fp8_e4m3fnuz", 128, R"(, "mask": {"sliding_window": 100}, "sink": true)"),
               cases, true);
  check_ladder(ring("gfx950", "fp8_e4m3", 128, R"(, "out_dtype": "f32")"), cases);
  check_ladder(ring("gfx942", "bf16", 128, R"(, "kv_dtype": "int8", "mask": "custom")"), cases, true);
  check_ladder(ring("gfx950", "fp16", 128,
                    R"(, "kv_dtype": "fp8_e4m3",
                       "operand": {"kind": "paged", "page_size": 3,
                                   "quantization": {"granularity": "per_token", "scale_dtype": "f32"}})"),
               cases);
  check_ladder(ring("gfx942", "bf16", 64, R"(, "v_load": "block", "WN": 16)"), cases, true);
  check_compiled(ring("gfx942", "bf16", 512), false);
  check_compiled(ring("gfx950", "bf16", 128), false);
  // Eight waves: LDS would hold two blocks, registers do not.
  const std::string tall =
      ring("gfx950", "fp16", 96, R"(, "kv_dtype": "int8", "BM": 64, "num_smem_stages": 2)");
  check_compiled(tall, false);
  check_ladder(tall, cases);
}

TEST_CASE("what a ring of blocks does not take") {
  CHECK(refusal(ring("gfx942", "bf16", 80)).find("whole blocks of BK (32) columns") != std::string::npos);
  CHECK(refusal(ring("gfx942", "bf16", 128, R"(, "BN": 64, "WN": 16)")).find("nearest legal: 32") !=
        std::string::npos);
  CHECK(refusal(ring("gfx942", "bf16", 576, R"(, "v_from_k": true, "ov_depth": 512)")).find("/full_kv") !=
        std::string::npos);
  CHECK(refusal(ring("gfx942", "bf16", 128, R"(, "kv_dtype": "int8", "num_smem_stages": 3)"))
            .find("2 stages") != std::string::npos);
  CHECK(refusal(ring("gfx950", "bf16", 128, R"(, "shared_kv": false)")).find("/shared_kv") !=
        std::string::npos);
}
