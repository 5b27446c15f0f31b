// What is accepted is right and means something: layout proofs are a rule, every set key changes the kernel
// or is refused, and a resolved config is the same kernel.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <kiln/generator.hpp>
#include <regex>
#include <sstream>

#include "generator/config/json_text.hpp"
#include "generator/layout/swizzle.hpp"
#include "generator/plan/draw.hpp"
#include "generator/schedules/schedule.hpp"
#include "tests/generator/plans.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

Json config_of(const char* target, const char* operation, const char* dtype, int depth,
               const std::string& keys = "") {
  Json out{{"target", target}, {"operation", operation}, {"dtype", dtype}, {"depth", depth}};
  out.update(json_of("{" + keys + "}"));
  return out;
}

/// The refusal, or an empty text.
std::string refusal(const Json& config) {
  try {
    plan_of(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool refuses(const Json& config, const std::string& text) {
  const std::string message = refusal(config);
  CAPTURE(write_json(config));
  CAPTURE(message);
  return message.find(text) != std::string::npos;
}

/// The shipped configs of AMD targets.
std::vector<Json> shipped_amd() {
  namespace fs = std::filesystem;
  std::vector<Json> out;
  for (const auto& file : fs::recursive_directory_iterator(fs::path(KILN_SOURCE_DIR) / "configs")) {
    if (!file.path().parent_path().filename().string().starts_with("gfx")) continue;
    std::ostringstream text;
    text << std::ifstream(file.path()).rdbuf();
    Json config = json_of(text.str());
    config.erase("$schema");
    out.push_back(std::move(config));
  }
  return out;
}

/// How often `what` occurs in the first block that opens with the comment `comment`.
int count_in_block(const std::string& text, const std::string& comment, const std::string& what) {
  std::size_t at = text.find(comment);
  if (at == std::string::npos) return 0;
  int depth = 0, count = 0;
  for (; at < text.size() && depth >= 0; ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}') --depth;
    if (text.compare(at, what.size(), what) == 0) ++count;
  }
  return count;
}

/// Registers of the array that holds an operand's fragments: `u32x4 k_reg[12]` has 48.
int fragment_registers(const std::string& text, const char* name) {
  std::smatch found;
  REQUIRE(std::regex_search(text, found, std::regex("u32x(\\d+) " + std::string(name) + "_reg\\[(\\d+)\\]")));
  return std::stoi(found[1]) * std::stoi(found[2]);
}

}  // namespace

TEST_CASE("what plan says of AMD's buffers is what was emitted") {
  int direct = 0, staged = 0;
  for (const Json& config : shipped_amd()) {
    CAPTURE(write_json(config));
    const Plan plan = plan_of(config);
    const std::string text = generate(plan).text;
    const Json systems = json_of(plan.to_json())["systems"];
    const bool streaming = systems.contains("decode_streaming_kv_buffer");
    const Json& buffers = systems[streaming ? "decode_streaming_kv_buffer" : "kv_buffer"];
    for (const char* name : {"k", "v"}) {
      CAPTURE(name);
      const Json& buffer = buffers[name];
      const std::string load = std::string("// load_") + name;
      const int registers = buffer["mma_layout"][0].get<int>() * buffer["mma_layout"][1].get<int>() *
                            (is_fp8(plan.resolved().dtype) ? 1 : 2) / 4;
      CHECK(fragment_registers(text, name) == registers);
      if (buffer.value("dma", "") == "none") continue;  // V that lies in K
      const bool by_registers = plan.resolved().dma == "reg_staged";
      const Json& loads = buffer[by_registers && streaming ? "vectors_per_thread" : "vm_instrs_per_load"];
      if (loads == 0) continue;  // waves issue different numbers
      const std::string what = by_registers ? std::string(name) + "_stored[" : "BUFFER_TO_LDS_";
      CHECK(count_in_block(text, load, what) == loads);
      ++(by_registers ? staged : direct);
    }
  }
  CHECK(direct > 10);
  CHECK(staged > 0);
}

TEST_CASE("V of streaming decode: the swizzle is an involution that readers share, without conflicts") {
  for (const int depth : {64, 128, 256, 512}) {
    for (const char* dtype : {"bf16", "fp8_e4m3"}) {
      CAPTURE(depth);
      CAPTURE(dtype);
      const Plan plan =
          plan_of(config_of("gfx950", "decode", dtype, depth, R"("schedule": "cdna_decode_streaming")"));
      const XorSwizzle swizzle = std::get<XorSwizzle>(*plan.resolved().swizzle_v);
      CHECK(layout::swizzle_of(swizzle).is_valid());
      for (const layout::Proof& proof : plan.schedule().layout_proofs()) {
        CAPTURE(proof.what);
        CHECK(proof.holds);
        CHECK(proof.bank_conflicts == 0);
      }
    }
  }
  // A key of its own, held to the rule as that of K is.
  CHECK(refuses(
      config_of("gfx950", "decode", "fp8_e4m3", 512, R"("swizzle_v": {"bits": 5, "base": 0, "shift": 4})"),
      "/swizzle_v"));
}

TEST_CASE("a ring of blocks is no deeper than the next tile") {
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    const Json config = config_of(target, "prefill", "bf16", 64, R"("full_kv": false)");
    CHECK(*plan_of(config).resolved().num_smem_stages <= 3);
    Json deep = config;
    deep["num_smem_stages"] = 4;
    CHECK(refuses(deep, "/num_smem_stages = 4"));
  }
}

TEST_CASE("AMD decode takes every multiple of 16 columns") {
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    for (const char* keys :
         {"", R"("kv_dtype": "int8")", R"("operand": {"kind": "paged", "page_size": 16})"}) {
      for (int depth = 16; depth <= 448; depth += 16) {
        CAPTURE(depth);
        CHECK(refusal(config_of(target, "decode", "bf16", depth, keys)) == "");
      }
    }
  }
}

TEST_CASE("rows of streaming decode that end within a strip plan to themselves") {
  for (const int depth : {80, 112, 264}) {
    const Plan plan =
        plan_of(config_of("gfx942", "decode", "bf16", depth, R"("schedule": "cdna_decode_streaming")"));
    CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
  }
  CHECK(refuses(config_of("gfx942", "decode", "bf16", 257, R"("schedule": "cdna_decode_streaming")"),
                "takes rows of whole 16 bytes (nearest legal: 264)"));
}

TEST_CASE("what a drawn config was accepted for is refused, or the kernel's") {
  CHECK(refuses(config_of("sm_90a", "decode", "bf16", 64, R"("rope_depth": 64)"),
                "rope_depth (64) leaves none of the 64 columns"));
  const std::string rope =
      R"("ov_depth": 128, "rope_depth": 64, "rope": {"layout": "separate"}, "head_dim_offset": 64)";
  for (const char* operation : {"prefill", "decode"})
    CHECK(refuses(config_of("gfx942", operation, "bf16", 192, rope), "/head_dim_offset = 64"));
  CHECK(refuses(config_of("gfx90a", "prefill", "bf16", 512, R"("reg_chunk_depth": 320)"),
                "(nearest legal: 64)"));
  // Whole tiles of K and V have stages of their own, whatever their depth.
  const Plan whole = plan_of(config_of("gfx90a", "prefill", "bf16", 448, R"("full_kv": true)"));
  CHECK_FALSE(*whole.resolved().shared_kv);
  CHECK(generate(make_plan(whole.resolved())).text == generate(whole).text);
}

TEST_CASE("scales are f32 on every target") {
  for (const char* target : {"sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950"}) {
    for (const char* type : {"bf16", "fp16"}) {
      const std::string keys = fmt::format(
          R"("kv_dtype": "fp8_e4m3", "operand": {{"quantization": {{"granularity": "per_token", "scale_dtype": "{}"}}}})",
          type);
      CHECK(refuses(config_of(target, "decode", "bf16", 128, keys), "/operand/quantization/scale_dtype"));
    }
  }
}

TEST_CASE("keys that would change nothing are refused") {
  const char* pingpong = R"("schedule": "cdna_prefill_pingpong", "wait_policy": "counted")";
  CHECK(refuses(config_of("gfx950", "prefill", "bf16", 128, pingpong), "/wait_policy"));
  const char* both = R"("double_buffer": true, "double_buffer_k_only": true)";
  CHECK(refuses(config_of("gfx950", "prefill", "bf16", 128, both), "/double_buffer_k_only"));
  // Alone it has one stage of V, which two of V would not fit.
  const Plan k_only = plan_of(config_of("gfx950", "prefill", "bf16", 128, R"("double_buffer_k_only": true)"));
  CHECK_FALSE(*k_only.resolved().double_buffer);
  for (const char* key : {"num_kv_stages", "num_qk_stages", "num_pv_stages", "shared_ring"})
    CHECK(refuses(config_of("gfx950", "prefill", "bf16", 128, fmt::format(R"("{}": "auto")", key)),
                  std::string("/") + key));
  CHECK(refuses(config_of("sm_90a", "prefill", "bf16", 128, R"("swizzle_v": null)"), "/swizzle_v"));
}

TEST_CASE("sm_90a prefill releases K a chunk at a time") {
  const Json config = config_of("sm_90a", "prefill", "bf16", 128, R"("num_qk_stages": 2)");
  const std::string text = generate(plan_of(config)).text;
  // Both chunks and P V in flight: the first chunk goes back before the second one's products are waited for.
  const std::size_t first = text.find("WGMMA_WAIT(2);"), last = text.find("WGMMA_WAIT(1);", first);
  REQUIRE(first != std::string::npos);
  REQUIRE(last != std::string::npos);
  CHECK(text.substr(first, last - first).find("mbarrier_arrive(mbar_k_empty") != std::string::npos);
}
