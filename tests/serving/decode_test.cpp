// Decode and paged prefill kernels on the emulated device: every operand kind and element type at the lengths
// where tiles and pages end, poison in everything unused, no findings; results that do not depend on timing
// or on the number of multiprocessors beyond rounding; bad page numbers that read as zeros.
#include <doctest/doctest.h>

#include <cmath>
#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::build_decode;
using kiln::test::Built;
using kiln::test::check_at_tile_ends;
using kiln::test::emulated;
using kiln::test::ints;
using kiln::test::upload;

namespace {

Built build_sm80(const std::string& keys) {
  return build_decode("sm_80", keys);
}

/// Two sequences of which some pages do not exist.
void check_bad_pages(const Built& built) {
  Runtime& runtime = emulated();
  const auto kernel = runtime.load(built.source);
  const DType stored = *built.plan.resolved().kv_dtype;
  const std::vector<float> ones(4 * 16 * 64, 1.0F);
  const DeviceBuffer q = upload(encode(DType::bf16, std::vector<float>(2 * 64, 1.0F))),
                     k = upload(encode(stored, ones)), v = upload(encode(stored, ones)),
                     table = ints({2, -1, 4, 2147483647, -2147483647 - 1, 3}), lengths = ints({40, 48}),
                     offsets = ints({0, 1, 2});
  DeviceBuffer o = runtime.allocate(2 * 64 * 2);
  AttentionArgs args;
  args.q = Tensor::dense(q.address(), DType::bf16, {2, 1, 64});
  args.k = Tensor::dense(k.address(), stored, {4, 16, 1, 64});
  args.v = Tensor::dense(v.address(), stored, {4, 16, 1, 64});
  args.o = Tensor::dense(o.address(), DType::bf16, {2, 1, 64});
  args.page_table = Tensor::dense(table.address(), DType::i32, {2, 3});
  args.seqlens_k = Tensor::dense(lengths.address(), DType::i32, {2});
  args.cu_seqlens_q = Tensor::dense(offsets.address(), DType::i32, {3});
  const std::vector<float> scale_values(4 * 16, 1.0F);
  const auto scale_bytes = std::as_bytes(std::span(scale_values));
  const DeviceBuffer scales = upload({scale_bytes.begin(), scale_bytes.end()});
  if (built.plan.resolved().operand->quantization)
    args.k_scale = args.v_scale = Tensor::dense(scales.address(), DType::f32, {4, 16, 1});
  args.max_seqlen_q = 1;
  args.max_seqlen_k = 48;
  const auto report = kernel->launch(args);
  REQUIRE(report);
  for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  std::vector<std::byte> bytes(o.size());
  o.read(bytes);
  const std::vector<float> out = decode(DType::bf16, bytes);
  // Keys of ones score 8 (64 / sqrt(64)), keys of zeros 0: the ones weigh exp(8) each.
  const double weight = std::exp(8.0);
  CHECK(out[0] == doctest::Approx(16 * weight / (16 * weight + 24)).epsilon(0.01));
  CHECK(out[64] == doctest::Approx(16 * weight / (16 * weight + 32)).epsilon(0.01));
}

}  // namespace

TEST_CASE("every operand kind and element type up the ladder" * doctest::test_suite("breadth")) {
  const char* const configs[] = {
      R"("lse": true)",
      R"("operand": {"kind": "ragged"}, "mask": {"chunked": 33}, "score_mod": {"softcap": 20})",
      R"("operand": {"kind": "paged", "page_size": 16}, "mask": "causal", "score_mod": "alibi")",
      R"("operand": {"kind": "continuous"}, "dtype": "fp16", "sink": true, "lse": true)",
      R"("operand": {"kind": "paged", "page_size": 1}, "lse": true)",
      R"("operand": {"kind": "paged", "page_size": 24}, "mask": {"sliding_window": 70}, "depth": 96)",
      R"("operand": {"kind": "paged", "page_size": 256}, "num_kv_stages": 1, "split_kv": 1)",
      R"("operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}}, "kv_dtype": "fp8_e4m3", "lse": true)",
      R"("operand": {"kind": "paged", "page_size": 2, "quantization": {"granularity": 32}}, "kv_dtype": "int8", "mask": "causal")",
      R"("operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_head"}}, "kv_dtype": "fp8_e4m3", "dtype": "fp16")",
      R"("operand": {"kind": "contiguous", "quantization": {"granularity": "per_tensor"}}, "kv_dtype": "int8", "dtype": "fp16")",
      // V in K's rows.
      R"("v_from_k": true, "depth": 576, "ov_depth": 512, "mask": "causal", "lse": true)",
      R"("v_from_k": true, "depth": 576, "ov_depth": 512, "operand": {"kind": "paged", "page_size": 1}, "mask": "custom", "dtype": "fp16", "sink": true)",
      R"("v_from_k": true, "depth": 208, "ov_depth": 128, "operand": {"kind": "ragged"}, "mask": {"sliding_window": 70}, "BM": 16, "lse": true)",
      R"("v_from_k": true, "depth": 320, "ov_depth": 256, "operand": {"kind": "paged", "page_size": 24}, "BM": 32, "BN": 32, "score_mod": {"softcap": 20}, "split_kv": 3, "lse": true)",
      R"("v_from_k": true, "depth": 448, "ov_depth": 384, "operand": {"kind": "continuous"}, "num_kv_stages": 2, "score_mod": "alibi", "split_kv": 1)",
      // Append and chunked prefill: queries at the end of a longer context, beside decodes of one row.
      R"("operation": "prefill", "operand": {"kind": "paged", "page_size": 16}, "mask": "causal", "lse": true)",
      R"("operation": "prefill", "operand": {"kind": "paged", "page_size": 5}, "mask": {"sliding_window": 70}, "num_kv_stages": 1)",
      R"("operation": "prefill", "operand": {"kind": "continuous"}, "mask": "causal", "num_kv_stages": 3, "BN": 32)",
  };
  std::uint64_t seed = 0;
  for (const char* keys : configs) {
    const std::string text = keys;
    CAPTURE(text);
    check_at_tile_ends(build_sm80(keys).plan, ++seed, 3);
  }
}

TEST_CASE("pages on sm_90a that neither divide a tile nor are whole tiles" * doctest::test_suite("breadth")) {
  const std::string by_token = R"(, "quantization": {"granularity": "per_token"}}, "kv_dtype": "fp8_e4m3")";
  const auto pages = [](int rows) {
    return R"("operand": {"kind": "paged", "page_size": )" + std::to_string(rows);
  };
  const std::string configs[] = {
      pages(48) + R"(}, "mask": "causal")",
      pages(5) + R"(}, "depth": 128, "lse": true)",
      pages(100) + R"(}, "mask": {"sliding_window": 70})",
      pages(48) + by_token,
      pages(7) + by_token + R"(, "depth": 128)",
      pages(40) + R"(}, "v_from_k": true, "depth": 576, "ov_depth": 512)",
      pages(48) + R"(}, "operation": "prefill", "mask": "causal", "BN": 64)",
      pages(9) + R"(}, "operation": "prefill", "depth": 128, "mask": "custom")",
      pages(20) + by_token + R"(, "operation": "prefill", "depth": 128, "mask": "causal")",
  };
  std::uint64_t seed = 0;
  for (const std::string& text : configs) {
    CAPTURE(text);
    check_at_tile_ends(build_sm80(R"("target": "sm_90a", )" + text).plan, ++seed, 3);
  }
}

TEST_CASE("a launch may rely on what the one before leaves alone, and on no more") {
  for (const char* keys : {R"("operand": {"kind": "paged", "page_size": 16})",
                           R"("operand": {"kind": "paged", "page_size": 128}, "BM": 64)",
                           R"("operand": {"kind": "continuous"}, "lse": true)",
                           R"("operand": {"kind": "ragged"}, "mask": "causal", "split_kv": 3)",
                           R"("operand": {"kind": "contiguous"})",
                           R"("operand": {"kind": "paged", "page_size": 64}, "kv_dtype": "fp8_e4m3")"}) {
    const std::string text = keys;
    CAPTURE(text);
    const Built built = build_sm80(R"("target": "sm_90a", )" + text);
    for (const LaunchBefore before : {LaunchBefore::keeps_tables, LaunchBefore::unrelated}) {
      EmulatorOptions emulator;
      emulator.policy = EmulatorOptions::Policy::lazy;
      emulator.num_sms = 3;
      const LadderRun run = run_cases(emulated(), built.plan, built.source,
                                      boundary_cases(built.plan.resolved(), true), emulator, 2, before);
      for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
      for (const auto& finding : run.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    }
  }
}

TEST_CASE("a launch chooses between one block a multiprocessor with all stages and two with fewer") {
  Built built =
      build_sm80(R"("target": "sm_90a", "depth": 128, "operand": {"kind": "paged", "page_size": 16})");
  const std::vector<LadderCase> cases{{1, 700}, {2, 90}, {1, 0}};
  const auto run = [&](std::uint64_t seed) {
    EmulatorOptions emulator;
    emulator.policy = EmulatorOptions::Policy::random;
    emulator.num_sms = 2;
    emulator.seed = seed;
    return run_cases(emulated(), built.plan, built.source, cases, emulator, 2);
  };
  REQUIRE(residency_of(1) == Residency::alone);
  REQUIRE(residency_of(2) == Residency::shared);
  CHECK(run(1).passed());
  CHECK(run(2).passed());

  // A length at which a launch has 2 MB a multiprocessor, and one key more.
  const std::int64_t keys = (std::int64_t{2} << 20) * 132 / (8 * 2 * 128 * 2);
  for (const std::int64_t more : {0, 1}) {
    const std::vector<std::int64_t> q{1}, k{keys + more};
    DecodeShape shape{32, 8, q, k, 0};
    const Manifest& manifest = built.source.manifest;
    CHECK(size_decode(manifest, shape, 132).blocks == (more == 0 ? 128 : 256));
    shape.max_blocks = 100;  // what leaves room for another launch leaves shared memory, too
    CHECK(size_decode(manifest, shape, 132).blocks <= 100);
    shape.max_blocks = 0;
    shape.residency = more == 0 ? Residency::shared : Residency::alone;
    CHECK(size_decode(manifest, shape, 132).blocks == (more == 0 ? 256 : 128));
  }

  // The rings end where the launch's shared memory does.
  built.source.manifest.stages->shared_smem_bytes -= 1024;
  CHECK(run(1).passed());
  CHECK_FALSE(run(2).passed());
}

TEST_CASE("parts are combined in order: the same bits whatever the timing") {
  const Built built = build_sm80(R"("operand": {"kind": "paged", "page_size": 16}, "lse": true)");
  ProblemShape shape;
  shape.heads_q = 4;
  shape.heads_kv = 1;
  shape.depth = shape.ov_depth = 64;
  shape.ragged = true;
  shape.lengths_q = {1, 2};
  shape.lengths_k = {700, 90};
  const Workload work = random_workload(shape, built.plan.resolved(), 1);
  const auto kernel = emulated().load(built.source);
  std::vector<std::vector<float>> outputs;
  for (const std::uint64_t seed : {1, 2, 3}) {
    EmulatorOptions emulator;
    emulator.policy = EmulatorOptions::Policy::random;
    emulator.seed = seed;
    emulator.num_sms = 8;
    RunOptions options;
    options.emulator = &emulator;
    const RunResult result = run_workload(emulated(), *kernel, work, options);
    CHECK(result.findings.empty());
    outputs.push_back(result.output.o);
  }
  CHECK(outputs[0] == outputs[1]);
  CHECK(outputs[0] == outputs[2]);
}

TEST_CASE("page numbers outside the pool read as zeros, not as memory") {
  const std::string pages = R"("operand": {"kind": "paged", "page_size": 16)",
                    scaled = R"(, "quantization": {"granularity": "per_token"}}, "kv_dtype": "fp8_e4m3")";
  for (const std::string& keys : {pages + "}", pages + scaled, R"("target": "sm_90a", )" + pages + "}",
                                  R"("target": "sm_90a", )" + pages + scaled,
                                  R"("target": "sm_90a", "operation": "prefill", )" + pages + scaled}) {
    CAPTURE(keys);
    check_bad_pages(build_sm80(keys));
  }
}

TEST_CASE("what sm80_decode does not take is refused with what it takes") {
  const auto refusal = [](const std::string& keys) {
    try {
      build_sm80(keys);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::bad_config);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(R"("BM": 32)").find("/BM") != std::string::npos);
  CHECK(refusal(R"("depth": 72)").find("multiple of 16") != std::string::npos);
  CHECK(refusal(R"("kv_dtype": "int8", "depth": 80)").find("multiple of 32") != std::string::npos);
  CHECK(refusal(R"("BN": 96)").find("/BN") != std::string::npos);
  CHECK(refusal(R"("num_kv_stages": 30)").find("V15") != std::string::npos);
  CHECK(refusal(R"("kv_dtype": "int8", "operand": {"kind": "paged", "quantization": {"granularity": 8}})")
            .find("32") != std::string::npos);
  CHECK(refusal(R"("v_from_k": true)").find("ov_depth is 128") != std::string::npos);
  const std::string latent = R"("v_from_k": true, "depth": 576, "ov_depth": 512, )";
  CHECK(refusal(latent + R"("kv_dtype": "fp8_e4m3")").find("/kv_dtype") != std::string::npos);
  CHECK(refusal(latent + R"("BM": 48)").find("/BM") != std::string::npos);
  CHECK(refusal(latent + R"("BN": 64)").find("/BN") != std::string::npos);
  CHECK(refusal(latent + R"("num_threads": 128, "BM": 64)").find("/num_threads") != std::string::npos);
  CHECK(refusal(latent + R"("num_kv_stages": 6)").find("V15") != std::string::npos);
  CHECK(refusal(latent + R"("depth": 592)").find("/depth") != std::string::npos);
}
