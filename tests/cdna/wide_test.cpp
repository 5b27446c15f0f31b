// cdna_prefill with wide rows: other output columns than key columns, blocks through a ring of stages
// (full_kv false), and V in the columns of K (MLA).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

constexpr const char* kMla = R"("ov_depth": 512, "v_from_k": true, "mask": "causal", "lse": true)";

}  // namespace

TEST_CASE("192 columns of K, 128 of V") {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    const std::string config = config_text(
        target, "bf16", 192, R"("ov_depth": 128, "rope_depth": 64, "mask": "causal", "lse": true)");
    check_kernel(config, {{20, 100}}, target == "gfx942", 2, 1);
    check_compiled(config, target == "gfx950");
  }
}

TEST_CASE("more columns of V than of K: tiles follow the wider" * doctest::test_suite("breadth")) {
  for (const std::string& target : kTargets) {
    for (const auto& [depth, ov_depth] :
         {std::pair{64, 192}, {80, 192}, {96, 192}, {128, 192}, {64, 256}, {128, 256}, {192, 256}}) {
      CAPTURE(depth);
      CAPTURE(ov_depth);
      const std::string config =
          config_text(target, "fp16", depth, fmt::format(R"("ov_depth": {})", ov_depth));
      CHECK_NOTHROW(make_plan(parse_config(config, "test")));
      // These spilled with the tiles of their depth.
      if (ov_depth == 192 && depth < 100 && toolchain()) check_compiled(config, true);
    }
  }
  if (!toolchain()) return;
  check_kernel(config_text("gfx942", "fp16", 80, R"("ov_depth": 192, "mask": "causal", "lse": true)"),
               {{20, 100}}, true, 2, 1);
}

TEST_CASE("512 columns: blocks through a ring on 64 KiB of LDS, whole rows on 160 KiB" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    const std::string config = config_text(target, "bf16", 512, kCausalLse);
    check_kernel(config, {{20, 140}}, target == "gfx942", 1, 1);
    check_kernel(config, {{3, 1}}, false, 1, 1);
    check_compiled(config, true);
    const Config& resolved = build(config).plan.resolved();
    CHECK(*resolved.full_kv == (target == "gfx950"));
  }
}

TEST_CASE("few waves copy wide rows with offsets of their own for every tile" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::string one = config_text("gfx942", "bf16", 320, R"("num_threads": 64)");
  check_kernel(one, {{20, 140}}, false, 1, 1);
  check_compiled(one, false);
  check_compiled(config_text("gfx90a", "bf16", 512, R"("num_threads": 128, "mask": "causal")"), false);
  check_compiled(config_text("gfx942", "bf16", 128, R"("num_threads": 448)"), false);
  const char* pages = R"("num_threads": 64, "operand": {"kind": "paged", "page_size": 64})";
  check_ladder(config_text("gfx942", "fp8_e4m3fnuz", 448, pages), {{9, 140}});
}

TEST_CASE("MLA: V is the first 512 of K's 576 columns" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    const std::string config = config_text(target, "bf16", 576, kMla);
    check_kernel(config, {{20, 140}}, target == "gfx942", 2, 1);
    check_compiled(config, target == "gfx950");
    for (const KernelParam& param : build(config).source.manifest.params) CHECK(param.role != "v");
  }
  // Without a mask the loop is one basic block, and descriptors of pages are the compiler's hardest case.
  for (const std::string& target : kTargets)
    check_compiled(
        config_text(target, "bf16", 576,
                    R"("ov_depth": 512, "v_from_k": true, "operand": {"kind": "paged", "page_size": 64})"),
        target == "gfx950");
  check_kernel(config_text("gfx950", "fp16", 576, std::string(kMla) + R"(, "operand": {"kind": "ragged"})"),
               {{5, 70}, {0, 3}, {33, 65}}, false, 2, 1);
  check_kernel(
      config_text("gfx950", "bf16", 576, std::string(kMla) + R"(, "BN": 32, "double_buffer": false)"),
      {{5, 70}}, true, 1, 1);
}

TEST_CASE("rings of two, three and four stages, waits that count and waits that drain" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    for (const int stages : {2, 3, 4}) {
      const std::string config = config_text(
          target, "bf16", 128,
          fmt::format(R"("full_kv": false, "num_smem_stages": {}, "BM": 128, "lse": true)", stages));
      check_kernel(config, {{20, 200}}, stages == 3, 1, 1);
      check_compiled(config, true);
    }
    check_kernel(
        config_text(target, "fp16", 192,
                    R"("ov_depth": 128, "full_kv": false, "wait_policy": "drain", "mask": "causal")"),
        {{20, 100}}, false, 1, 1);
  }
}

TEST_CASE("the documented constants of a block") {
  const Plan plan = make_plan(
      parse_config(config_text("gfx950", "bf16", 512, R"("full_kv": false, "BN": 32, "BK": 32)"), "test"));
  const auto k = plan.schedule().systems()["kv_buffer"]["k"], v = plan.schedule().systems()["kv_buffer"]["v"];
  CHECK(k["smem_stage_size"] == 1024);
  CHECK(k["smem_stage_bytes"] == 2048);
  CHECK(k["_total_tiles"] == 1);
  CHECK(k["vm_instrs_per_load"] == 0);
  CHECK(k["_blocks_per_stage"] == 1);
  CHECK(k["num_repeats"] == 16);
  CHECK(v["num_mmas"] == 2);
}

TEST_CASE("rows too wide for the registers of a wave are refused") {
  try {
    make_plan(parse_config(config_text("gfx942", "bf16", 576, std::string(kMla) + R"(, "BM": 128)"), "test"));
    FAIL("8 waves of 576/512 columns");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("/BM = 128: V32: Q, O and S take 208 registers") !=
          std::string::npos);
  }
}

TEST_CASE("decode over wide rows compiles to what the plan says") {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    const bool old = target != "gfx950";
    check_compiled(config_text(target, "bf16", 576, kMla, "decode"), !old);
    check_compiled(config_text(target, "bf16", 192, R"("ov_depth": 128)", "decode"), true);
    check_compiled(config_text(target, "fp16", 192, "", "decode"), !old);
    // The last strip is 8 columns: a read of K covers two instructions on gfx90a and gfx942, one on gfx950.
    check_compiled(config_text(target, "fp16", 72, R"("ov_depth": 128)", "decode"), true);
    check_compiled(config_text(target, "fp16", 512, "", "decode"), true);
    for (const char* stages : {R"("double_buffer": true)", R"("double_buffer_k_only": true)"}) {
      const std::string keys = fmt::format(R"("schedule": "cdna_decode", "BN": 32, {})", stages);
      check_compiled(config_text(target, "bf16", 64, keys + R"(, "WN": 16)", "decode"), true);
    }
  }
}

TEST_CASE("decode tiles whose waves would spill are refused") {
  for (const char* keys :
       {R"("BM": 128, "schedule": "cdna_decode")", R"("BM": 64, "schedule": "cdna_decode")"}) {
    CAPTURE(keys);
    const int spilling = keys[6] == '1' ? 192 : 256;  // 16 waves of 56 and 64 lasting registers
    CHECK_THROWS_WITH_AS(
        make_plan(parse_config(config_text("gfx950", "fp16", spilling, keys, "decode"), "test")),
        doctest::Contains("V32"), Error);
  }
  const std::string fits = R"("BM": 64, "schedule": "cdna_decode")";
  CHECK_NOTHROW(make_plan(parse_config(config_text("gfx950", "fp16", 128, fits, "decode"), "test")));
}

TEST_CASE("decode picks the schedule that takes its rows") {
  const auto schedule = [](const std::string& config) {
    return *make_plan(parse_config(config, "test")).resolved().schedule;
  };
  CHECK(schedule(config_text("gfx942", "bf16", 128, "", "decode")) == "cdna_decode_streaming");
  CHECK(schedule(config_text("gfx942", "bf16", 512, "", "decode")) == "cdna_decode_streaming");
  CHECK(schedule(config_text("gfx942", "bf16", 192, "", "decode")) == "cdna_decode");
  CHECK(schedule(config_text("gfx950", "bf16", 576, kMla, "decode")) == "cdna_decode");
  const Plan mla = make_plan(parse_config(config_text("gfx950", "bf16", 576, kMla, "decode"), "test"));
  CHECK(*mla.resolved().BM == 32);
  const auto v = mla.schedule().systems()["kv_buffer"]["v"];
  CHECK(v["num_mmas"] == 16);  // 256 columns for each of two waves
  CHECK(mla.resources().smem_bytes > 2 * 64 * 576 * 2);
}

TEST_CASE("V in K's rows of 64 bytes is read without bank conflicts") {
  if (!toolchain()) return;
  for (const char* target : {"gfx90a", "gfx942"}) {
    const Built& mla = build(config_text(target, "bf16", 576, R"("ov_depth": 512, "v_from_k": true)"));
    for (const layout::Proof& proof : mla.plan.schedule().layout_proofs()) {
      CHECK_MESSAGE(proof.holds, proof.what);
      CHECK_MESSAGE(proof.bank_conflicts == 0, proof.what);
    }
  }
}
