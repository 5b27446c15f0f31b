// Rows that end inside a strip (zero_partial_tile_pad, load_prefill_split without has_hi), and K and V by way
// of registers (dma reg_staged), which is how pages smaller than a copy are read.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string_view>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("80 columns: half of the last strip, and columns of V that only fill a group" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const char* target : {"gfx90a", "gfx950"}) {
    const std::string config = config_text(target, "bf16", 80, R"("mask": "causal", "lse": true)");
    check_kernel(config, {{20, 100}}, false, 2, 1);
    check_compiled(config, false);
  }
  // 72 = 2 strips of 32 and 8 columns: half of the lanes of the only step that is left read past the row.
  const std::string ragged =
      config_text("gfx942", "fp16", 72, R"("operand": {"kind": "ragged"}, "lse": true)");
  check_kernel(ragged, {{5, 70}, {0, 3}, {33, 65}}, true, 2, 1);
  const std::string& text = build(ragged).source.text;
  CHECK(count(text, "zero_past(lds_read_16(") > 0);
  CHECK(count(text, "zero_past(buffer_load_16(") == 1);
}

TEST_CASE("FP8 strips of 128 in blocks of 64: the last one has no upper half" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::string prefill =
      config_text("gfx950", "fp8_e4m3", 192,
                  R"("ov_depth": 128, "mma_shape": [16, 16, 128], "mask": "causal", "lse": true)");
  check_kernel(prefill, {{20, 200}}, true, 2, 1);
  check_compiled(prefill, false);
  // K: 8 fragments of 16 keys, and Q, twice in the text (two stages).
  CHECK(count(build(prefill).source.text, "k_reg[") > 0);
  CHECK(count(build(prefill).source.text, "] = (u32x4)(0u);") == 2 * 8 + 1);
  const std::string mla = R"("ov_depth": 512, "v_from_k": true, "mask": "causal", "lse": true)";
  check_ladder(config_text("gfx950", "fp8_e4m3", 576, mla, "decode"), {{2, 300}}, true);
  check_ladder(config_text("gfx942", "fp8_e4m3fnuz", 576, mla, "decode"), {{2, 300}});
  check_ladder(config_text("gfx942", "fp8_e4m3fnuz", 576, mla), {{20, 140}});
}

TEST_CASE("pages of one row, and of three, go through registers" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const auto paged = [](int page, const char* more = "") {
    return fmt::format(R"("operand": {{"kind": "paged", "page_size": {}}}, "mask": "causal", "lse": true{})",
                       page, more);
  };
  check_ladder(config_text("gfx942", "bf16", 128, paged(1)), {{20, 140}, {3, 1}}, true);
  check_ladder(config_text("gfx950", "fp16", 64, paged(3)), {{20, 140}, {3, 1}});
  check_ladder(config_text("gfx90a", "bf16", 128, paged(1), "decode"), {{1, 140}, {2, 1}}, true);
  check_ladder(config_text("gfx950", "fp8_e4m3", 128, paged(3), "decode"), {{1, 200}});
  check_ladder(
      config_text("gfx942", "bf16", 576, paged(1, R"(, "ov_depth": 512, "v_from_k": true)"), "decode"),
      {{1, 100}});
  CHECK(build(config_text("gfx942", "bf16", 128, paged(1))).plan.resolved().dma == "reg_staged");
  CHECK(build(config_text("gfx942", "bf16", 128, paged(16))).plan.resolved().dma == "lds_direct");
}

TEST_CASE("reg_staged by choice: every arrangement of stages" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const char* stages :
       {R"("double_buffer": false)", R"("double_buffer": true)", R"("double_buffer_k_only": true)",
        R"("double_buffer": true, "wait_policy": "drain")"}) {
    CAPTURE(stages);
    const std::string config = config_text(
        "gfx942", "bf16", 64, fmt::format(R"("dma": "reg_staged", "BN": 32, "lse": true, {})", stages));
    check_kernel(config, {{20, 140}}, true, 2, 1);
    check_compiled(config, true);
  }
  const std::string blocks = R"("dma": "reg_staged", "full_kv": false, "mask": "causal", "lse": true)";
  check_kernel(config_text("gfx942", "bf16", 256, blocks), {{20, 100}}, true, 1, 1);
}

TEST_CASE("strips of bytes: every wave copies a share, and of K the keys it reads") {
  if (!toolchain()) return;
  // 64 keys of 32 bytes are 128 pieces of 16 bytes, for 256 threads: pieces of 8.
  for (const char* operand : {R"({"kind": "paged", "page_size": 16})", R"({"kind": "ragged"})"}) {
    CAPTURE(operand);
    const Built& decode = build(config_text(
        "gfx90a", "bf16", 128, fmt::format(R"("kv_dtype": "fp8_e4m3", "operand": {})", operand), "decode"));
    const std::string& text = decode.source.text;
    CHECK(count(text, "K: 64 x 32 a load by way of registers, 64 rows of 4 threads, 8 bytes to a thread") ==
          1);
    CHECK(count(text, "V: 32 x 128 a load by way of registers, 32 rows of 8 threads, 16 bytes to a thread") ==
          1);
    // Waves meet before a segment's tiles, and in a tile where maxima, P and V's strips change hands.
    CHECK(count(text, "BARRIER();  //") == 1);
    const std::string tile = text.substr(text.find("for (int n = tile_begin;;)"));
    CHECK(count(tile.substr(0, tile.find("// ---- row sums")), "SYNC();") == 1 + 2 + 1);
  }
  const Built& prefill = build(config_text("gfx90a", "bf16", 128, R"("kv_dtype": "fp8_e4m3")"));
  CHECK(count(prefill.source.text, "16 bytes to a thread") +
            count(prefill.source.text, "32 bytes to a thread") ==
        2);
}
