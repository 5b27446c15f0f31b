// `kiln plan` names: every system that a shipped config uses is there under its name, with every derived
// constant that its system documents.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"

using namespace kiln;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

// By system; `DecodeStreamingKVBuffer` of sm_80 copies with cp.async, so that nothing is dealt to warps.
const std::map<std::string, Names> kConstants{
    {"kv_buffer",
     {"MMA_N",        "MMA_K",           "num_mmas",           "num_k_mmas2",      "input_frag_size",
      "simd_width",   "num_k_tiles",     "_reg_num_k_tiles",   "warp_tile_rows",   "num_repeats",
      "smem_cols",    "smem_stage_size", "_blocks_per_stage",  "_smem_total_cols", "_num_warps",
      "_total_tiles", "_tiles_per_warp", "vm_instrs_per_load", "vm_exact",         "wtile_dim0",
      "wtile_dim1",   "_rows_per_k_mma", "_rows_per_k_tile",   "_mma_total_rows",  "mma_layout"}},
    {"decode_streaming_kv_buffer",
     {"input_frag_size", "_num_warps_n", "num_mmas", "num_k_mmas2", "mma_layout", "_strip_rows",
      "_strip_cols"}},
    {"kv_mma_op", {"MMA_M", "MMA_N", "MMA_K", "input_frag_size", "_rows_per_k_tile", "_total_rows"}},
    {"mha_operand",
     {"kind", "dtype", "scale_dtype", "page_size", "quantization_enabled", "quantization_granularity",
      "eff_page", "num_pages", "kv_sub_tile_rows", "kv_num_sub_tiles"}},
    {"tma_consumer_pipeline",
     {"num_kv_stages", "num_qk_stages_effective", "BMN", "BK", "is_k", "is_k_major", "staged_k_bytes",
      "full_kv_bytes", "page_dense"}},
};

nlohmann::json systems_of(const std::string& text) {
  return json_of(make_plan(parse_config(text, "test")).to_json())["systems"];
}

}  // namespace

TEST_CASE("shipped configs: every constant of every system under its documented name") {
  std::set<std::string> met;
  for (const auto& file : fs::recursive_directory_iterator(fs::path(KILN_SOURCE_DIR) / "configs")) {
    const std::string folder = file.path().parent_path().filename();
    if (file.is_directory() || (!folder.starts_with("sm_") && !folder.starts_with("gfx"))) continue;
    std::ostringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const auto systems = systems_of(text.str());
    CAPTURE(file.path());
    CHECK(systems.contains("mha_operand"));
    CHECK(systems.size() >= 2);
    for (const auto& [name, system] : systems.items()) {
      CAPTURE(name);
      met.insert(name);
      REQUIRE(kConstants.contains(name));
      for (const char* role : {"k", "v"}) {
        for (const std::string& constant : kConstants.at(name)) {
          CAPTURE(constant);
          CHECK(system.at(role).contains(constant));
        }
      }
      const bool amd = folder.starts_with("gfx");
      if (name == "decode_streaming_kv_buffer" && amd) {
        CHECK(system["k"].contains("_total_dma_tiles"));
        CHECK(system["k"].contains("k_tr"));
        CHECK(system["v"].contains("v_tc"));
      }
    }
  }
  CHECK(met.size() == kConstants.size());
}

TEST_CASE("mha_operand says how K and V lie and are scaled") {
  const auto operand = [](const std::string& keys) {
    return systems_of(R"({"target": "gfx950", "operation": "prefill", "dtype": "bf16", "depth": 128)" + keys +
                      "}")["mha_operand"]["k"];
  };
  const auto plain = operand("");
  CHECK(plain["kind"] == "contiguous");
  CHECK(plain["dtype"] == "bf16");
  CHECK(plain["scale_dtype"] == "bf16");
  CHECK(plain["page_size"] == 0);
  CHECK(plain["quantization_enabled"] == false);
  CHECK(plain["num_pages"] == 1);
  const auto paged =
      operand(R"(, "kv_dtype": "fp8_e4m3", "BN": 64, "operand": {"kind": "paged", "page_size": 16,
                 "quantization": {"granularity": "per_token"}})");
  CHECK(paged["dtype"] == "fp8_e4m3");
  CHECK(paged["scale_dtype"] == "f32");
  CHECK(paged["page_size"] == 16);
  CHECK(paged["eff_page"] == 16);
  CHECK(paged["num_pages"] == 4);
  CHECK(paged["quantization_enabled"] == true);
  CHECK(paged["quantization_granularity"] == 128);
}
