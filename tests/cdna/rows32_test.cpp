// Streaming decode by 32x32 instructions: 32 packed query rows in one tile.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::string rows32(const char* target, const char* dtype, int depth, const std::string& more = "") {
  return config_text(target, dtype, depth,
                     R"("schedule": "cdna_decode_streaming", "BM": 32, "group": 27)" + more, "decode");
}

int rows_of(const std::string& config) {
  return (*make_plan(parse_config(config, "test")).resolved().mma_shape)[0];
}

/// Lengths of two queries are two tiles of rows, the second one of few.
const std::vector<LadderCase> kCases{{1, 140}, {2, 1}, {2, 65}};

}  // namespace

TEST_CASE("streaming decode of 32 rows, 16 bits") {
  if (!toolchain()) return;
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    check_ladder(rows32(target, "bf16", 64, R"(, "lse": true, "mask": "causal")"), kCases, true);
    check_ladder(rows32(target, "fp16", 128, R"(, "lse": true, "sink": true, "split_kv": 3)"), kCases);
    check_ladder(rows32(target, "bf16", 256, R"(, "operand": {"kind": "paged", "page_size": 16})"), kCases);
    check_ladder(rows32(target, "bf16", 512, R"(, "operand": {"kind": "ragged"}, "shared_kv": true)"),
                 kCases);
  }
}

TEST_CASE("streaming decode of 32 rows, bytes" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::string token =
      R"(, "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 24, "quantization": {"granularity": "per_token"}})";
  for (const int depth : {128, 256, 512}) {
    check_ladder(rows32("gfx942", "fp8_e4m3fnuz", depth, R"(, "lse": true)"), kCases);
    check_ladder(rows32("gfx950", "fp8_e4m3", depth, R"(, "mask": "causal")"), kCases);
  }
  check_ladder(rows32("gfx950", "fp8_e4m3", 64), kCases, true);
  for (const char* target : {"gfx90a", "gfx942", "gfx950"})
    check_ladder(rows32(target, "bf16", 128, token), kCases);
}

TEST_CASE("streaming decode of 32 rows: V in blocks and by elements, waves of any keys" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  check_ladder(rows32("gfx942", "bf16", 96), kCases);
  check_ladder(rows32("gfx950", "fp16", 192, R"(, "mask": {"sliding_window": 70})"), kCases);
  check_ladder(rows32("gfx942", "bf16", 128, R"(, "v_layout": "blocked")"), kCases);
  check_ladder(rows32("gfx942", "bf16", 128, R"(, "BN": 192, "WN": 96)"), kCases);
  check_ladder(rows32("gfx942", "fp8_e4m3fnuz", 256, R"(, "BN": 192, "WN": 96)"), kCases);
  // Each wave has one fragment's columns: the swizzle moves vectors within them only.
  for (const char* target : {"gfx90a", "gfx942", "gfx950"})
    check_ladder(rows32(target, "bf16", 128, R"(, "v_load": "block", "BN": 128, "WN": 32)"), kCases);
  // Rows move vectors across the columns of several waves.
  check_ladder(rows32("gfx950", "bf16", 128,
                      R"(, "v_load": "block", "swizzle_v": {"bits": 2, "base": 1, "shift": 6})"),
               kCases);
}

TEST_CASE("streaming decode of 32 rows keeps to the registers") {
  if (!toolchain()) return;
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    for (const int depth : {64, 128, 256, 512}) check_compiled(rows32(target, "bf16", depth), true);
  }
  for (const int depth : {128, 256, 512}) {
    check_compiled(rows32("gfx942", "fp8_e4m3fnuz", depth), true);
    check_compiled(rows32("gfx950", "fp8_e4m3", depth), true);
  }
}

TEST_CASE("rows of a tile follow the named group and queries") {
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    CHECK(rows_of(config_text(target, "bf16", 128, "", "decode")) == 16);
    CHECK(rows_of(config_text(target, "bf16", 128, R"("group": 16)", "decode")) == 16);
    CHECK(rows_of(config_text(target, "bf16", 128, R"("group": 17)", "decode")) == 32);
    CHECK(rows_of(config_text(target, "bf16", 128, R"("group": 8, "queries": 4)", "decode")) == 32);
    CHECK(rows_of(config_text(target, "bf16", 128, R"("num_q_heads": 64, "kv_num_heads": 2)", "decode")) ==
          32);
    CHECK(rows_of(config_text(target, "bf16", 128, R"("BM": 32)", "decode")) == 32);
    CHECK(rows_of(config_text(target, "bf16", 256, R"("BM": 32)", "decode")) ==
          32);  // strips fit, tiles would not
    // Tiles that the config fixes stay those of 16 rows.
    CHECK(rows_of(config_text(target, "bf16", 128, R"("group": 32, "BN": 64)", "decode")) == 16);
    CHECK(rows_of(config_text(target, "bf16", 128, R"("group": 32, "BM": 16)", "decode")) == 16);
    // Whole tiles take 16x16 instructions.
    CHECK(rows_of(config_text(target, "bf16", 192, R"("group": 32)", "decode")) == 16);
  }
  CHECK(rows_of(config_text("gfx942", "fp8_e4m3fnuz", 64, R"("group": 32)", "decode")) == 16);
}

TEST_CASE("what 32 rows do not take is refused with the nearest legal value") {
  CHECK(refusal(rows32("gfx942", "fp8_e4m3fnuz", 64)).find("multiple of 128 (nearest legal: 16)") !=
        std::string::npos);
  CHECK(refusal(rows32("gfx942", "bf16", 128, R"(, "BN": 128, "WN": 32)"))
            .find("multiple of 64 (nearest legal: 64)") != std::string::npos);
  CHECK(refusal(config_text("gfx942", "bf16", 128, R"("BM": 64)", "decode")).find("(nearest legal: 32)") !=
        std::string::npos);
  CHECK(refusal(config_text("gfx942", "bf16", 128, R"("mma_shape": [32, 32, 8], "BM": 64)", "decode"))
            .find("(nearest legal: 32)") != std::string::npos);
  CHECK(refusal(rows32("gfx950", "bf16", 128, R"(, "BN": 512, "WN": 512)")).find("V32") != std::string::npos);
}
