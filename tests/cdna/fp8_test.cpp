// FP8 on AMD: matrix products in the target's encoding (FNUZ on gfx942, OCP on gfx950), P converted to FP8,
// scales per tensor and per head, and FP8 caches widened to Q's type in decode.
#include <doctest/doctest.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

struct Fp8Target {
  std::string name, dtype, wide;  ///< `wide`: the instruction of prefill at depth 128
};
const std::vector<Fp8Target> kTargets = {
    {"gfx942", "fp8_e4m3fnuz", "v_mfma_f32_32x32x16_fp8_fp8"},
    {"gfx950", "fp8_e4m3", "v_mfma_f32_32x32x64_f8f6f4"},
};
constexpr const char* kPerHead =
    R"("operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}}, "mask": "causal", "lse": true)";
constexpr const char* kPerTensor =
    R"("operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_tensor"}}, "lse": true)";

}  // namespace

TEST_CASE("prefill in FP8 agrees with the float64 reference over the same quantised values") {
  if (!toolchain()) return;
  for (const Fp8Target& t : kTargets) {
    check_ladder(config_text(t.name, t.dtype, 128, kPerHead), {{40, 40}, {0, 5}, {7, 0}, {1, 129}}, true);
    check_ladder(config_text(t.name, t.dtype, 128, kPerTensor), {{33, 150}});
    check_ladder(config_text(t.name, t.dtype, 64, R"("sink": true, "lse": true)"), {{20, 70}});
    check_ladder(config_text(t.name, t.dtype, 256, R"("mask": "causal", "lse": true)"), {{40, 70}});
    check_ladder(config_text(t.name, t.dtype, 192, R"("score_mod": {"softcap": 5.0})"), {{5, 70}});
  }
}

TEST_CASE("decode in FP8, and with FP8 keys under a 16-bit query") {
  if (!toolchain()) return;
  for (const Fp8Target& t : kTargets) {
    const std::vector<LadderCase> lengths = {{1, 300}, {3, 65}, {1, 0}, {2, 128}};
    check_ladder(config_text(t.name, t.dtype, 128, kPerHead, "decode"), lengths, true);
    check_ladder(config_text(t.name, t.dtype, 64,
                             R"("operand": {"kind": "ragged"}, "sink": true, "lse": true)", "decode"),
                 lengths);
    const std::string cache = R"("kv_dtype": ")" + t.dtype + R"(", )";
    check_ladder(config_text(t.name, "bf16", 128, cache + kPerTensor, "decode"), lengths, true);
    check_ladder(config_text(t.name, "fp16", 64, cache + kPerHead, "decode"), lengths);
  }
}

TEST_CASE("FP8 kernels are compiled to what the plan says") {
  if (!toolchain()) return;
  for (const Fp8Target& t : kTargets) {
    for (const char* operation : {"prefill", "decode"}) {
      const Built& kernel = build(config_text(t.name, t.dtype, 128, kPerHead, operation));
      const Manifest& m = kernel.source.manifest;
      CAPTURE(m.name);
      const auto& info = kernel.module.kernel(m.entry);
      CHECK(info.scratch_bytes == 0);
      CHECK(info.vgpr_spills == 0);
      CHECK(info.vgprs <= kernel.plan.resources().max_registers);
      REQUIRE(m.expectations.size() == 1);
      if (operation[0] == 'p') CHECK(m.expectations[0].instruction == t.wide);
      CHECK(kernel.module.count(m.entry, m.expectations[0].instruction) ==
            static_cast<std::size_t>(m.expectations[0].count));
      CHECK(kernel.module.count(m.entry, "v_cvt_pk_fp8_f32") > 0);
      for (const char* narrow : {"ds_read_u16", "ds_read_u8", "ds_write_b8", "buffer_load_ubyte"})
        CHECK(kernel.module.count(m.entry, narrow) == 0);
      for (const layout::Proof& proof : kernel.plan.schedule().layout_proofs()) {
        CHECK_MESSAGE(proof.holds, proof.what);
        CHECK_MESSAGE(proof.bank_conflicts == 0, proof.what);
      }
    }
  }
}

TEST_CASE("FP8 that a target lacks, and scales that no factor can carry, are refused by name") {
  const auto refusal = [](const std::string& config) -> std::string {
    try {
      make_plan(parse_config(config, "test"));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal(config_text("gfx90a", "fp8_e4m3", 128)).find("gfx90a does not compute in FP8") !=
        std::string::npos);
  CHECK(refusal(config_text("gfx942", "fp8_e4m3", 128)).find("gfx942 takes FP8 as fp8_e4m3fnuz only") !=
        std::string::npos);
  const std::string tokens = R"("operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}})";
  for (const char* operation : {"prefill", "decode"})
    CHECK(refusal(config_text("gfx950", "fp8_e4m3", 128, tokens, operation))
              .find("takes a scale for a tensor or a head") != std::string::npos);
}
