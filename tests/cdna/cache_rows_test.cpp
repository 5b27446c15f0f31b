// Head rows of the cache that are longer than what is read of them (cache_depth, head_dim_offset). The
// columns around hold NaN, so a kernel that reads one of them too many cannot pass.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::string rows(int cache_depth, int first, const std::string& more = "") {
  return fmt::format(R"("cache_depth": {}, "head_dim_offset": {}, "mask": "causal", "lse": true{}{})",
                     cache_depth, first, more.empty() ? "" : ", ", more);
}

std::string operand(const char* kind, int page_size = 0) {
  return fmt::format(R"("operand": {{"kind": "{}"{}}})", kind,
                     page_size > 0 ? fmt::format(R"(, "page_size": {})", page_size) : "");
}

}  // namespace

TEST_CASE("prefill of a part of each cache row, in every loop" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{20, 140}, {3, 1}};
  // ping-pong; tiles; blocks; strips with padding at their end
  check_ladder(config_text("gfx942", "bf16", 128, rows(192, 64)), cases, true);
  check_ladder(config_text("gfx950", "bf16", 128, rows(200, 8)), cases);
  check_ladder(config_text("gfx90a", "fp16", 64, rows(576, 512)), cases);
  check_ladder(config_text("gfx942", "bf16", 512, rows(640, 64)), {{3, 70}});
  check_ladder(config_text("gfx950", "bf16", 80, rows(128, 16)), cases);
  check_ladder(config_text("gfx942", "fp8_e4m3fnuz", 128, rows(176, 16)), cases);
  check_ladder(config_text("gfx950", "fp8_e4m3", 64, rows(96, 32)), cases);
}

TEST_CASE("prefill of a part of each cache row, by every operand and copy" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{20, 140}, {3, 1}};
  check_ladder(config_text("gfx942", "bf16", 128, rows(144, 16, operand("ragged"))), cases);
  check_ladder(config_text("gfx950", "bf16", 128, rows(144, 16, operand("continuous"))), cases);
  check_ladder(config_text("gfx90a", "bf16", 128, rows(144, 16, operand("paged", 64))), cases);
  check_ladder(config_text("gfx942", "bf16", 128, rows(144, 16, operand("paged", 3))), cases, true);
  check_ladder(config_text("gfx942", "bf16", 64, rows(96, 24, R"("dma": "reg_staged")")), cases);
  check_ladder(config_text("gfx950", "bf16", 128, rows(160, 32, R"("kv_dtype": "fp8_e4m3")")), cases);
  // V has 16 columns before and 32 behind its 128, as K has around its 192.
  check_ladder(config_text("gfx942", "bf16", 192, rows(240, 16, R"("ov_depth": 128)")), cases);
}

TEST_CASE("decode of a part of each cache row" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> cases{{1, 140}, {2, 1}};
  const auto decode = [&](const char* target, const char* dtype, int depth, const std::string& more,
                          bool all = false) {
    check_ladder(config_text(target, dtype, depth, more, "decode"), cases, all);
  };
  // streaming, and tiles (split)
  decode("gfx942", "bf16", 128, rows(192, 64), true);
  decode("gfx950", "fp16", 64, rows(72, 8, operand("paged", 16)));
  decode("gfx90a", "bf16", 256, rows(320, 16, operand("ragged")));
  decode("gfx942", "bf16", 192, rows(256, 32, R"("ov_depth": 128, "split_kv": 2)"));
  decode("gfx950", "bf16", 128, rows(192, 48, R"("schedule": "cdna_decode", "split_kv": 3)"), true);
  decode("gfx90a", "bf16", 128, rows(192, 64, operand("paged", 1)));
  decode("gfx942", "fp8_e4m3fnuz", 128, rows(160, 32, operand("continuous")));
  decode("gfx950", "fp8_e4m3", 128, rows(160, 16, operand("paged", 16)));
  const char* by_block =
      R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": 64}})";
  decode("gfx942", "bf16", 128, rows(160, 16, by_block));
}

TEST_CASE("MLA: the rotary columns of a latent row, and a latent row inside a longer one") {
  if (!toolchain()) return;
  // cache_depth - rope_depth
  check_ladder(config_text("gfx942", "bf16", 64, rows(576, 512, operand("paged", 64)), "decode"), {{2, 100}});
  const std::string latent = R"("ov_depth": 512, "v_from_k": true)";
  check_ladder(config_text("gfx950", "bf16", 576, rows(640, 48, latent), "decode"), {{2, 100}}, true);
  check_ladder(config_text("gfx942", "fp8_e4m3fnuz", 576, rows(656, 64, latent), "decode"), {{2, 100}});
  check_ladder(config_text("gfx942", "bf16", 576, rows(640, 48, latent)), {{20, 70}});
}

TEST_CASE("a kernel that reads from another column than the manifest says is caught") {
  if (!toolchain()) return;
  Runtime runtime([] {
    RuntimeOptions options;
    options.device = "emulated";
    return options;
  }());
  for (const char* operation : {"prefill", "decode"}) {
    const Plan plan =
        make_plan(parse_config(config_text("gfx942", "bf16", 64, rows(96, 16), operation), "test"));
    for (const int first : {8, 16, 24}) {
      KernelSource source = generate(plan);
      source.manifest.head_dim_offset = first;
      const LadderRun run = run_cases(runtime, plan, source, {{5, 40}}, {}, 2);
      CHECK(run.passed() == (first == 16));
    }
  }
}

TEST_CASE("descriptors end with the last column that is read of the last row") {
  const auto text = [](const std::string& more) {
    return generate(make_plan(parse_config(config_text("gfx942", "bf16", 64, more), "test"))).text;
  };
  const std::string part = text(R"("cache_depth": 96, "head_dim_offset": 16)");
  CHECK(part.find("kv_head * k_stride_head + 16;") != std::string::npos);
  CHECK(part.find("kv_head * v_stride_head + 16;") != std::string::npos);
  for (const char* size : {"* k_row_bytes + 128 : 0);", "* v_row_bytes + 128 : 0);"})
    CHECK(part.find(size) != std::string::npos);
  CHECK(text("").find("kv_head * k_stride_head;") != std::string::npos);
}
