// Readers of V in decode: each wave its share of the output columns, also of less than one block of LDS.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::string tiles(const char* target, const char* dtype, int depth, const std::string& more = "") {
  return config_text(target, dtype, depth, R"("schedule": "cdna_decode")" + more, "decode");
}

nlohmann::json reader_of(const std::string& config) {
  const Plan plan = make_plan(parse_config(config, "test"));
  return json_of(plan.to_json())["systems"]["kv_buffer"]["v"]["reader"];
}

}  // namespace

TEST_CASE("two waves read a block of 32 columns, 16 each: fact F-18") {
  const std::string config = tiles("gfx950", "bf16", 64, R"(, "BN": 128, "WN": 32)");
  const nlohmann::json reader = reader_of(config);
  CHECK(reader["depth_per_warp"] == 16);
  CHECK(reader["smem_depth"] == 32);
  CHECK(reader["base_offsets"] == nlohmann::json({0, 16, 4096, 4112}));
  // The emitted addresses: whole blocks by the wave's pair, columns by its place in it.
  const std::string text = generate(make_plan(parse_config(config, "test"))).text;
  CHECK(text.find("v_frag_col = (lane & 3) * 4 + warp % 2 * 16;") != std::string::npos);
  CHECK(text.find(" + warp / 2 * 8192 + v_frag_vector") == std::string::npos);
  CHECK(text.find(" + warp / 2 * 8192 + ") != std::string::npos);
}

TEST_CASE("no LDS and no products for columns that are not there") {
  // Four waves of 32 columns once took 128 bytes of each of 64 columns' rows.
  CHECK(reader_of(tiles("gfx950", "bf16", 64))["base_offsets"].size() == 4);
  CHECK(reader_of(tiles("gfx950", "fp8_e4m3", 128))["depth_per_warp"] == 32);
  // Where fragments come in pairs, a wave reads whole ones.
  const std::string pairs = tiles("gfx942", "bf16", 64, R"(, "BK": 64, "bk_smem": 64, "BN": 128, "WN": 32)");
  CHECK(reader_of(pairs)["depth_per_warp"] == 32);
}

TEST_CASE("decode whose waves share blocks of V" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}};
  check_ladder(tiles("gfx950", "bf16", 64, R"(, "BN": 128, "WN": 32)"), cases, true);
  check_ladder(tiles("gfx950", "fp16", 48, R"(, "mask": "causal", "kv_dtype": "int8")"), cases);
  check_ladder(tiles("gfx950", "fp8_e4m3", 128), cases, true);
  check_ladder(tiles("gfx942", "bf16", 64, R"(, "BN": 128, "WN": 32, "v_load": "block")"), cases, true);
  check_ladder(tiles("gfx942", "fp16", 64, R"(, "BK": 64, "bk_smem": 64, "BN": 128, "WN": 32)"), cases);
  check_ladder(tiles("gfx950", "bf16", 64, R"(, "BN": 128, "WN": 32, "shared_kv": true)"), cases);
}

TEST_CASE("decode has a kernel for every multiple of 16 columns") {
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    for (int depth = 16; depth <= 576; depth += 16) {
      CAPTURE(depth);
      CHECK(refusal(config_text(target, "bf16", depth, "", "decode")) == "");
    }
  }
}
