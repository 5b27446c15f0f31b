// sm80_prefill as planned: defaults, documented constants, and what is refused.
#include <doctest/doctest.h>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>
#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "tests/generator/plans.hpp"

using namespace kiln;
using namespace kiln::test;
using Json = nlohmann::ordered_json;

namespace {

Json sm80_prefill() {
  return {{"target", "sm_80"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 128}};
}
Json with(Json config, const Json& more) {
  config.update(more);
  return config;
}

}  // namespace

TEST_CASE("a minimal config resolves to tiles, swizzle and stages") {
  const Json plan = json_of(plan_of(sm80_prefill()).to_json());
  const Json& r = plan["resolved"];
  CHECK(r["schedule"] == "sm80_prefill");
  CHECK(r["BM"] == 64);
  CHECK(r["BN"] == 64);
  CHECK(r["BK"] == 64);
  CHECK(r["WM"] == 16);
  CHECK(r["WN"] == 64);
  CHECK(r["num_threads"] == 128);
  CHECK(r["mma_shape"] == Json{16, 8, 16});
  CHECK(r["swizzle"] == "128B");
  CHECK(r["num_kv_stages"] == 2);
  CHECK(r["num_smem_stages"] == 2);
  CHECK(r["bk_smem"] == 64);
  CHECK(r["smem_depth"] == 128);
  CHECK(plan["resources"]["smem_bytes"] == 16384 + 2 * 2 * 16384);
  CHECK(plan["resources"]["num_threads"] == 128);
  CHECK(plan["resources"]["max_registers"] == 255);
  // A resolved config is legal and resolves to itself.
  const Json again = json_of(make_plan(parse_config(write_json(r), "resolved")).to_json());
  CHECK(again["resolved"] == r);
}

TEST_CASE("derived constants keep their documented names and formulas") {
  const Json plan = json_of(plan_of(with(sm80_prefill(), {{"BN", 128}, {"BK", 32}, {"BM", 128}})).to_json());
  const Json &k = plan["systems"]["kv_buffer"]["k"], &v = plan["systems"]["kv_buffer"]["v"];
  CHECK(k["num_mmas"] == 128 / 8);
  CHECK(v["num_mmas"] == 128 / 8);
  CHECK(k["num_k_mmas2"] == 2);
  CHECK(k["input_frag_size"] == 4);
  CHECK(k["simd_width"] == 8);
  CHECK(k["num_k_tiles"] == 4);
  CHECK(v["num_k_tiles"] == 4);
  CHECK(k["num_repeats"] == 4);
  CHECK(k["smem_cols"] == 128);
  CHECK(k["smem_stage_size"] == 128 * 128);
  CHECK(k["_blocks_per_stage"] == 4);
  CHECK(k["_smem_total_cols"] == plan["resolved"]["num_kv_stages"].get<int>() * 128);
  CHECK(k["_num_warps"] == 8);
  CHECK(k["_mma_total_rows"] == 16 * 2 * 4);
  CHECK(k["vm_exact"] == 128 * 128 / 8 / 256);  // cp.async of 16 bytes a thread
  const Json& op = plan["systems"]["kv_mma_op"]["v"];
  CHECK(op["num_mmas"] == 16);
  CHECK(op["num_k_mmas"] == 2);
  CHECK(op["num_k_tiles"] == 4);
  CHECK(op["_total_rows"] == 16 * 2 * 4);
}

TEST_CASE("every tile knob is honoured") {
  for (int BM : {16, 32, 64, 128, 256}) {
    const Plan plan = plan_of(with(sm80_prefill(), {{"depth", 64}, {"BM", BM}, {"BN", 32}, {"BK", 32}}));
    CHECK(plan.resources().num_threads == 2 * BM);
    CHECK(generate(plan).manifest.grid.block_rows == BM);
  }
  for (int stages : {1, 2, 3, 4}) {
    const Plan plan = plan_of(with(sm80_prefill(), {{"BN", 32}, {"BK", 32}, {"num_kv_stages", stages}}));
    CHECK(plan.resources().smem_bytes == 64 * 256 + stages * 2 * 32 * 256);
    CHECK(plan_of(with(sm80_prefill(), {{"BN", 32}, {"BK", 32}, {"num_smem_stages", stages}}))
              .resources()
              .smem_bytes == plan.resources().smem_bytes);
  }
  for (int depth = 16; depth <= 256; depth += 16) {
    CAPTURE(depth);
    CHECK(violations(with(sm80_prefill(), {{"depth", depth}})).empty());
  }
}

TEST_CASE("8-bit keys: one tile of 16 bits, stages of bytes") {
  const Json narrow = with(sm80_prefill(), {{"kv_dtype", "int8"}});
  CHECK(plan_of(narrow).resources().smem_bytes == 16384 + 2 * 16384 + 16384);
  CHECK(plan_of(with(narrow, {{"num_kv_stages", 3}})).resources().smem_bytes ==
        16384 + 2 * 16384 + 3 * 16384);
  const Json token = {{"kind", "paged"}, {"page_size", 16}, {"quantization", {{"granularity", "per_token"}}}};
  const Plan plan = plan_of(with(narrow, {{"operand", token}}));
  CHECK(plan.resources().smem_bytes == 16384 + 2 * 16384 + 2 * 64 * 4 + 16384);
  const Json k = json_of(plan.to_json())["systems"]["kv_buffer"]["k"];
  CHECK(k["smem_stage_bytes"] == 16384);
  CHECK(k["byte_stage_bytes"] == 8192);
  CHECK(k["vm_exact"] == 64 * 128 / 16 / 128);
  // Products of a group of columns stand beside S: half the keys.
  const Json rows = {{"kind", "contiguous"}, {"quantization", {{"granularity", 32}}}};
  CHECK(plan_of(with(narrow, {{"operand", rows}})).resolved().BN == 32);
  CHECK(plan_of(with(narrow, {{"depth", 256}})).resources().smem_bytes == 65536 + 65536 + 32768);
  for (const auto& proof : plan.schedule().layout_proofs()) {
    CAPTURE(proof.what);
    CHECK(proof.holds);
    CHECK(proof.bank_conflicts == 0);
  }
}

TEST_CASE("what cannot work is refused at its key") {
  CHECK(refused_at(with(sm80_prefill(), {{"BK", 48}}), "/BK", "V8"));
  CHECK(refused_at(with(sm80_prefill(), {{"depth", 112}, {"BK", 64}}), "/BK",
                   "V8"));  // 48 of 64 columns in the last strip
  CHECK(refused_at(with(sm80_prefill(), {{"BN", 40}}), "/BN", ""));
  CHECK(refused_at(with(sm80_prefill(), {{"BN", 96}, {"BK", 64}}), "/BK", "V9"));
  CHECK(refused_at(with(sm80_prefill(), {{"WN", 32}}), "/WN", "sm80_prefill"));
  CHECK(refused_at(with(sm80_prefill(), {{"WM", 32}}), "/WM", "sm80_prefill"));
  CHECK(refused_at(with(sm80_prefill(), {{"BM", 48}}), "/BM", "sm80_prefill"));
  CHECK(
      refused_at(with(sm80_prefill(), {{"BM", 128}, {"num_threads", 128}}), "/num_threads", "sm80_prefill"));
  CHECK(refused_at(with(sm80_prefill(), {{"num_kv_stages", 5}}), "/num_kv_stages", "sm80_prefill"));
  CHECK(refused_at(with(sm80_prefill(), {{"num_kv_stages", 2}, {"num_smem_stages", 3}}), "/num_smem_stages",
                   "sm80_prefill"));
  CHECK(refused_at(with(sm80_prefill(), {{"depth", 256}, {"BN", 64}, {"num_kv_stages", 3}}), "/num_kv_stages",
                   "V15"));
  CHECK(refused_at(with(sm80_prefill(), {{"depth", 256}, {"BN", 128}, {"BM", 64}, {"num_kv_stages", 1}}),
                   "/BN", "V32"));
  CHECK(refused_at(with(sm80_prefill(), {{"depth", 272}}), "/depth", "sm80_wide_prefill"));
  CHECK(refused_at(with(sm80_prefill(), {{"depth", 72}}), "/depth", "sm80_prefill"));
  CHECK(refused_at(with(sm80_prefill(), {{"mma_shape", {16, 8, 8}}}), "/mma_shape", "V10"));
  CHECK(refused_at(with(sm80_prefill(), {{"bk_smem", 32}}), "/bk_smem", "V6"));
  CHECK(refused_at(
      with(sm80_prefill(), {{"swizzle", {{"bits", 3}, {"base", 0}, {"shift", 3}, {"domain", "element"}}}}),
      "/swizzle", "V11"));
  CHECK(refused_at(with(sm80_prefill(), {{"scale", 0}}), "/scale", ""));
}

TEST_CASE("a broken limit names the nearest value of every key the user set") {
  const auto found = violations(with(sm80_prefill(), {{"depth", 256}, {"BN", 128}, {"num_kv_stages", 3}}));
  REQUIRE(found.size() == 3);
  for (const Violation& v : found) CHECK(v.rule.rfind("V15", 0) == 0);
  CHECK(found[0].pointer == "/BN");
  CHECK(found[0].suggestion == "32");
  CHECK(violations(with(sm80_prefill(), {{"depth", 256}, {"BN", 32}, {"num_kv_stages", 3}})).empty());
  CHECK_FALSE(violations(with(sm80_prefill(), {{"depth", 256}, {"BN", 48}, {"num_kv_stages", 3}})).empty());
}

TEST_CASE("defaults give way to what the user chose") {
  CHECK(plan_of(with(sm80_prefill(), {{"depth", 64}, {"BM", 256}})).resolved().BN ==
        32);  // 128 registers a thread
  CHECK(plan_of(with(sm80_prefill(), {{"BN", 32}})).resolved().BK == 32);
  CHECK(plan_of(with(sm80_prefill(), {{"BK", 128}})).resolved().BN == 128);
  CHECK(plan_of(with(sm80_prefill(), {{"num_threads", 256}})).resolved().BM == 128);
}

TEST_CASE("what is not there yet says so, and names what is") {
  CHECK(refused_at(with(sm80_prefill(), {{"group", 4}}), "/group", "not-yet"));
  CHECK(refused_at(with(sm80_prefill(), {{"reg_chunk_depth", 64}}), "/reg_chunk_depth", "not-yet"));
}

TEST_CASE("layouts are proven, hot paths without bank conflicts, for every default") {
  for (const char* swizzle : {"auto", "32B", "64B", "128B"}) {
    for (int depth = 16; depth <= 256; depth += 16) {
      CAPTURE(swizzle);
      CAPTURE(depth);
      const Json config = with(sm80_prefill(), {{"depth", depth}, {"swizzle", swizzle}});
      if (std::string(swizzle) != "auto" && !violations(config).empty()) continue;
      const auto proofs = plan_of(config).schedule().layout_proofs();
      CHECK(proofs.size() == 11);
      for (const auto& proof : proofs) {
        CAPTURE(proof.what);
        CHECK(proof.holds);
        if (std::string(swizzle) == "auto") CHECK(proof.bank_conflicts == 0);
      }
    }
  }
  const Plan wide = plan_of(with(sm80_prefill(), {{"BK", 128}, {"BN", 128}, {"num_kv_stages", 1}}));
  for (const auto& proof : wide.schedule().layout_proofs()) CHECK((proof.holds && proof.bank_conflicts == 0));
}

TEST_CASE("the bank counter sees what a missing swizzle costs") {
  const auto proofs = plan_of(with(sm80_prefill(), {{"swizzle", "none"}})).schedule().layout_proofs();
  for (const auto& proof : proofs) {
    CAPTURE(proof.what);
    CHECK(proof.holds);
    if (proof.what.find("ldmatrix") != std::string::npos)
      CHECK(proof.bank_conflicts == 28);  // 4 matrices, 8 ways each
  }
}
