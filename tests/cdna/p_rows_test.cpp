// Decode over tiles of any number of keys: P's rows in LDS are as long as the next power of two.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

TEST_CASE("decode over tiles of no power of two keys" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 200}, {2, 1}};
  // Waves of 48 keys: each 16 of them have an address of their own.
  check_ladder(decode_config("gfx950", "bf16", 128, R"("BN": 192, "mask": "causal")"), cases, true);
  check_ladder(decode_config("gfx950", "bf16", 256, R"("BN": 96, "v_from_k": true)"), cases, true);
  check_ladder(
      decode_config("gfx942", "fp8_e4m3fnuz", 64, R"("BN": 192, "schedule": "cdna_decode_streaming")"), cases,
      true);
  check_ladder(decode_config("gfx942", "bf16", 64, R"("BN": 160, "WN": 160, "schedule": "cdna_decode")"),
               cases);
}

TEST_CASE("every tile of keys that is accepted puts P where it is read") {
  int planned = 0;
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    for (const char* schedule : {"cdna_decode", "cdna_decode_streaming"}) {
      for (int BN = 32; BN <= 512; BN += 32) {
        for (int WN = 16; WN <= BN; WN += 16) {
          const std::string config = decode_config(
              target, "bf16", 128, fmt::format(R"("BN": {}, "WN": {}, "schedule": "{}")", BN, WN, schedule));
          const std::string reason = refusal(config);
          CHECK_MESSAGE(reason.find("P:") == std::string::npos, reason);
          planned += reason.empty() ? 1 : 0;
        }
      }
    }
  }
  CHECK(planned >= 60);
}
