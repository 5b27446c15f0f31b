// FP8 on AMD: matrix products in the target's encoding (FNUZ on gfx942, OCP on gfx950), P converted to FP8,
// scales per tensor and per head, and FP8 caches widened to Q's type in decode.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

struct Fp8Target {
  std::string name, dtype, wide;  ///< `wide`: the instruction of prefill at depth 128
};
const std::vector<Fp8Target> kFp8Targets = {
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
  for (const Fp8Target& t : kFp8Targets) {
    check_ladder(config_text(t.name, t.dtype, 128, kPerHead), {{40, 40}, {0, 5}, {7, 0}, {1, 129}}, true);
    check_ladder(config_text(t.name, t.dtype, 128, kPerTensor), {{33, 150}});
    check_ladder(config_text(t.name, t.dtype, 64, R"("sink": true, "lse": true)"), {{20, 70}});
    check_ladder(config_text(t.name, t.dtype, 256, R"("mask": "causal", "lse": true)"), {{40, 70}});
    check_ladder(config_text(t.name, t.dtype, 192, R"("score_mod": {"softcap": 5.0})"), {{5, 70}});
  }
}

TEST_CASE("decode in FP8, and with FP8 keys under a 16-bit query") {
  if (!toolchain()) return;
  for (const Fp8Target& t : kFp8Targets) {
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

TEST_CASE("FP8 caches under a 16-bit query in every schedule, widened by instruction and by hand" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> chunks = {{33, 150}, {0, 5}, {7, 7}, {1, 129}},
                                rows = {{1, 300}, {3, 65}, {2, 128}};
  const std::string fnuz = R"("kv_dtype": "fp8_e4m3fnuz", )", ocp = R"("kv_dtype": "fp8_e4m3", )",
                    causal = R"(, "mask": "causal")";
  check_ladder(config_text("gfx942", "bf16", 128, fnuz + kPerTensor + causal), chunks, true);
  check_ladder(config_text("gfx950", "fp16", 64, ocp + kPerHead), chunks);
  check_ladder(config_text("gfx90a", "bf16", 128, ocp + kPerTensor + causal), chunks);
  check_ladder(config_text("gfx942", "bf16", 512, ocp + R"("mask": "causal")"), {{20, 70}});
  const std::string mla = R"("ov_depth": 512, "v_from_k": true, )";
  check_ladder(config_text("gfx942", "bf16", 576, fnuz + mla + kPerTensor), {{20, 140}});
  // gfx90a has no FP8, gfx942 another one.
  check_ladder(config_text("gfx90a", "bf16", 128, ocp + kPerTensor, "decode"), rows, true);
  check_ladder(config_text("gfx942", "fp16", 128, ocp + kPerHead, "decode"), rows);
  check_ladder(config_text("gfx942", "bf16", 576, fnuz + mla + kPerTensor, "decode"), rows);
  check_ladder(config_text("gfx950", "bf16", 192, ocp + R"("ov_depth": 128, )" + kPerHead, "decode"), rows);
}

TEST_CASE("scales of a token's row, and of parts of it" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> chunks = {{33, 150}, {0, 5}, {7, 7}, {1, 129}},
                                rows = {{1, 300}, {3, 65}, {2, 128}};
  const auto keys = [](const char* kv, const char* kind, const char* granularity) {
    return fmt::format(
        R"("kv_dtype": "{}", "operand": {{{}, "quantization": {{"granularity": {}}}}}, "mask": "causal", "lse": true)",
        kv, kind, granularity);
  };
  const char *paged16 = R"("kind": "paged", "page_size": 16)", *paged1 = R"("kind": "paged", "page_size": 1)",
             *ragged = R"("kind": "ragged")", *dense = R"("kind": "contiguous")",
             *blocks = R"("kind": "continuous")", *token = R"("per_token")";
  const char *ocp = "fp8_e4m3", *fnuz = "fp8_e4m3fnuz";
  check_ladder(config_text("gfx942", "bf16", 128, keys(fnuz, paged16, token), "decode"), rows, true);
  check_ladder(config_text("gfx950", "fp16", 64, keys(ocp, ragged, token), "decode"), rows);
  check_ladder(config_text("gfx90a", "bf16", 256, keys(ocp, paged1, token), "decode"), rows);
  check_ladder(config_text("gfx950", "bf16", 128, keys(ocp, blocks, token), "decode"), rows);
  check_ladder(config_text("gfx942", "bf16", 128, keys(fnuz, dense, token), "decode"), {{1, 300}, {1, 300}});
  // Scales of a head together.
  const char* by_head = R"("per_token", "layout": "head_major")";
  check_ladder(config_text("gfx942", "bf16", 128, keys(fnuz, paged16, by_head), "decode"), rows, true);
  check_ladder(config_text("gfx950", "bf16", 64, keys(ocp, ragged, by_head), "decode"), rows);
  check_ladder(config_text("gfx90a", "bf16", 64, keys(ocp, blocks, by_head)), chunks);
  check_ladder(config_text("gfx942", "fp16", 64, keys(fnuz, dense, by_head)), {{20, 70}, {20, 70}});
  // Several scales a row: K's parts are summed apart, V's piece by piece. The last part may be short.
  check_ladder(config_text("gfx942", "bf16", 128, keys(fnuz, paged16, "64"), "decode"), rows, true);
  check_ladder(config_text("gfx950", "bf16", 128, keys(ocp, ragged, "32"), "decode"), rows);
  check_ladder(config_text("gfx90a", "fp16", 256, keys(ocp, dense, "96"), "decode"), {{1, 100}, {1, 100}});
  check_ladder(
      config_text("gfx942", "bf16", 192, R"("ov_depth": 128, )" + keys(fnuz, paged16, token), "decode"),
      rows);
  check_ladder(config_text("gfx942", "bf16", 128, keys(fnuz, paged16, token)), chunks, true);
  check_ladder(config_text("gfx950", "bf16", 64, keys(ocp, ragged, token)), chunks);
  check_ladder(config_text("gfx90a", "fp16", 128, keys(ocp, blocks, "128")), chunks);
  check_ladder(config_text("gfx942", "bf16", 512, keys(fnuz, dense, token)), {{20, 70}, {20, 70}});
}

TEST_CASE("scales of a token's row under an FP8 query: K's are of scores, V's join the exponent of P" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<LadderCase> chunks = {{33, 150}, {0, 5}, {7, 7}, {1, 129}},
                                rows = {{1, 300}, {3, 65}, {1, 0}, {2, 128}};
  const auto keys = [](const char* kind, const char* layout, const char* more = "") {
    return fmt::format(
        R"("operand": {{{}, "quantization": {{"granularity": "per_token", "layout": "{}"}}}}, "lse": true{})",
        kind, layout, more);
  };
  const char *paged16 = R"("kind": "paged", "page_size": 16)", *paged1 = R"("kind": "paged", "page_size": 1)",
             *ragged = R"("kind": "ragged")", *dense = R"("kind": "contiguous")",
             *blocks = R"("kind": "continuous")", *by_token = "token_major", *by_head = "head_major",
             *causal = R"(, "mask": "causal")";
  for (const Fp8Target& t : kFp8Targets) {
    CAPTURE(t.name);
    const auto decode = [&](int depth, const std::string& more) {
      check_ladder(config_text(t.name, t.dtype, depth, more, "decode"), rows, depth == 128);
    };
    decode(128, keys(paged16, by_token, causal));
    decode(64, keys(ragged, by_head, R"(, "schedule": "cdna_decode_streaming")"));
    decode(256, keys(blocks, by_token, R"(, "sink": true, "full_kv": false)"));
    decode(128, keys(paged1, by_token, R"(, "shared_kv": true, "mask": {"sliding_window": 70})"));
    decode(64, keys(paged16, by_token, R"(, "mask": "custom", "score_mod": {"softcap": 5.0})"));
    decode(576, R"("ov_depth": 512, "v_from_k": true, )" + keys(paged16, by_token));
    const auto prefill = [&](int depth, const std::string& more) {
      check_ladder(config_text(t.name, t.dtype, depth, more), chunks, depth == 128);
    };
    prefill(128, keys(paged16, by_token, causal));
    prefill(64, keys(ragged, by_head, R"(, "sink": true)"));
    prefill(256, keys(blocks, by_token, R"(, "mask": {"sliding_window": 70})"));
    prefill(128, keys(paged1, by_token,
                      t.name == "gfx950" ? R"(, "full_kv": false)"
                                         : R"(, "full_kv": false, "mma_shape": [16, 16, 32])"));
    check_ladder(config_text(t.name, t.dtype, 64, keys(dense, by_token, R"(, "score_mod": "alibi")")),
                 {{20, 70}, {20, 70}});
    prefill(576, R"("ov_depth": 512, "v_from_k": true, )" + keys(paged16, by_token));
  }
  CHECK(
      refusal(config_text("gfx950", "fp8_e4m3", 128,
                          R"("operand": {"kind": "ragged", "quantization": {"granularity": 64}})", "decode"))
          .find("one scale a row") != std::string::npos);
  CHECK(refusal(config_text("gfx950", "fp8_e4m3", 128,
                            keys(ragged, by_token, R"(, "schedule": "cdna_prefill_pingpong")")))
            .find("a scale for a tensor or a head") != std::string::npos);
}

TEST_CASE("FP8 kernels are compiled to what the plan says") {
  if (!toolchain()) return;
  for (const Fp8Target& t : kFp8Targets) {
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
  CHECK(refusal(config_text("gfx90a", "fp8_e4m3", 128)).find("gfx90a does not compute in FP8") !=
        std::string::npos);
  CHECK(refusal(config_text("gfx942", "fp8_e4m3", 128)).find("gfx942 takes FP8 as fp8_e4m3fnuz only") !=
        std::string::npos);
  const std::string groups = R"("operand": {"kind": "ragged", "quantization": {"granularity": 64}})";
  for (const char* operation : {"prefill", "decode"})
    CHECK(refusal(config_text("gfx950", "fp8_e4m3", 128, groups, operation)).find("has one scale a row") !=
          std::string::npos);
  const auto parts = [&](const char* n, int depth, const char* operation, const char* more = "") {
    return refusal(config_text(
        "gfx950", "bf16", depth,
        fmt::format(
            R"("kv_dtype": "fp8_e4m3", {}"operand": {{"kind": "ragged", "quantization": {{"granularity": {}}}}})",
            more, n),
        operation));
  };
  CHECK(parts("24", 128, "decode").find("takes a scale for a multiple of 16 elements, or for a row") !=
        std::string::npos);
  CHECK(parts("16", 128, "decode").find("takes a scale for whole strips of BK (32) columns") !=
        std::string::npos);
  CHECK(parts("48", 128, "prefill").find("takes a scale for whole strips of BK (32) columns") !=
        std::string::npos);
  CHECK(parts("64", 576, "prefill", R"("v_from_k": true, "ov_depth": 512, )")
            .find("takes one scale for a row of K where V lies in it") != std::string::npos);
}

TEST_CASE("several scales a row in tiles and in blocks, and MLA prefill with one" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const auto keys = [](const char* kv, const char* n, const char* kind, const char* more = "") {
    return fmt::format(
        R"("kv_dtype": "{}", "operand": {{{}, "quantization": {{"granularity": {}}}}}, "lse": true{})", kv,
        kind, n, more);
  };
  const char *pages = R"("kind": "paged", "page_size": 16)", *ragged = R"("kind": "ragged")",
             *dense = R"("kind": "contiguous")";
  const std::vector<LadderCase> chunks = {{33, 150}, {0, 5}, {1, 129}}, rows = {{1, 200}, {3, 65}};
  check_ladder(config_text("gfx950", "bf16", 128, keys("fp8_e4m3", "64", pages, R"(, "mask": "causal")")),
               chunks, true);
  check_ladder(config_text("gfx90a", "fp16", 96, keys("int8", "64", ragged)), chunks);
  check_ladder(config_text("gfx942", "bf16", 512, keys("fp8_e4m3fnuz", "128", dense)), {{20, 70}, {20, 70}});
  check_ladder(config_text("gfx942", "bf16", 192, R"("ov_depth": 128, )" + keys("fp8_e4m3fnuz", "64", pages),
                           "decode"),
               rows, true);
  const char* mla = R"(, "v_from_k": true, "ov_depth": 512)";
  check_ladder(config_text("gfx950", "bf16", 576, keys("fp8_e4m3", R"("per_token")", pages, mla)), {{17, 80}},
               true);
  check_ladder(config_text("gfx90a", "bf16", 576, keys("int8", R"("per_token")", ragged, mla)),
               {{17, 80}, {1, 9}});
}

TEST_CASE("MLA decode with a scale for a row: scores take it, and P for V in K's rows") {
  if (!toolchain()) return;
  const auto config = [](const char* target, const char* dtype, const char* kind, const char* n) {
    return config_text(
        target, dtype, 576,
        fmt::format(
            R"("kv_dtype": "int8", "v_from_k": true, "ov_depth": 512, "operand": {{{}, "quantization": {{"granularity": {}}}}})",
            kind, n),
        "decode");
  };
  const std::vector<LadderCase> cases{{3, 140}, {2, 1}};
  const char *pages = R"("kind": "paged", "page_size": 16)", *rows = R"("kind": "ragged")",
             *token = R"("per_token")";
  check_ladder(config("gfx942", "bf16", pages, token), cases, true);
  check_ladder(config("gfx950", "fp16", rows, "576"), cases);
  check_ladder(config("gfx90a", "bf16", R"("kind": "contiguous")", token), cases);
  CHECK(refusal(config("gfx950", "fp16", rows, "64")).find("one scale for a row of K") != std::string::npos);
}
