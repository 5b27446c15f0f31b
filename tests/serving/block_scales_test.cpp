// Caches whose rows have a scale of a byte for each block of numbers (MXFP8, NVFP4), in decode on sm_100a: every form of
// operand and width of scales, the ends of their range, and rows that the append kernel wrote.
#include <doctest/doctest.h>

#include <cmath>
#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/quantization.hpp"
#include "runtime/launch/problem.hpp"
#include "tests/serving/ladder_check.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::emulated;
using kiln::test::ints;
using kiln::test::upload;

namespace {

constexpr const char* kMxFp8 =
    R"("kv_dtype": "fp8_e4m3", "operand": {"quantization": {"granularity": 32, "scale_dtype": "ue8m0"}})";
constexpr const char* kNvFp4 =
    R"("kv_dtype": "fp4_e2m1", "operand": {"quantization": {"granularity": 16, "scale_dtype": "fp8_e4m3"}})";

Config block_scaled_config(const char* format, const std::string& keys) {
  nlohmann::ordered_json config = {
      {"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 128}};
  config.update(json_of(std::string("{") + format + "}"));
  config.merge_patch(json_of("{" + keys + "}"));
  return parse_config(write_json(config), "test");
}

ProblemShape block_scaled_shape(const Config& c) {
  ProblemShape shape;
  shape.heads_q = 6, shape.heads_kv = 2;
  shape.depth = c.depth, shape.ov_depth = c.ov_depth.value_or(c.depth);
  shape.ragged = true;
  shape.lengths_q = {1, 2, 1};
  shape.lengths_k = {150, 300, 5};
  return shape;
}

void check_block_scales(const Plan& plan, const KernelSource& source, const Workload& work) {
  EmulatorOptions emulator;
  emulator.num_sms = 3;
  RunOptions options;
  options.emulator = &emulator;
  const auto kernel = emulated().load(source);
  const RunResult result = run_workload(emulated(), *kernel, work, options);
  for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  const Semantics semantics = semantics_of(plan.resolved(), work);
  const Reference reference =
      reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0));
  const CheckReport report = check_output(work, result.output, reference, tolerance_of(plan.resolved()));
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
}

}  // namespace

TEST_CASE("decode over rows with scales of blocks, at the ends of tiles" * doctest::test_suite("breadth")) {
  struct Case {
    const char *format, *keys;
  };
  std::uint64_t seed = 0;
  for (
      const Case& c : {
          Case{kMxFp8, R"("lse": true)"},
          Case{kMxFp8, R"("depth": 64, "mask": "causal", "operand": {"kind": "paged", "page_size": 16})"},
          Case{kMxFp8, R"("depth": 192, "ov_depth": 96, "operand": {"kind": "ragged"}, "split_kv": 3)"},
          Case{kNvFp4, R"("lse": true)"},
          Case{
              kNvFp4,
              R"("dtype": "fp16", "depth": 64, "mask": "causal", "operand": {"kind": "paged", "page_size": 16})"},
          Case{kNvFp4, R"("depth": 192, "ov_depth": 96, "operand": {"kind": "continuous"}, "split_kv": 3)"},
      }) {
    CAPTURE(c.format);
    CAPTURE(c.keys);
    kiln::test::check_at_tile_ends(make_plan(block_scaled_config(c.format, c.keys)), ++seed, 3);
  }
}

TEST_CASE("scales at the ends of their range, and NaN among them") {
  for (const char* format : {kMxFp8, kNvFp4}) {
    CAPTURE(format);
    const Plan plan = make_plan(
        block_scaled_config(format, R"("operand": {"kind": "paged", "page_size": 64}, "lse": true)"));
    const KernelSource source = generate(plan);
    Workload work = random_workload(block_scaled_shape(plan.resolved()), plan.resolved(), 7);
    REQUIRE(work.k_scale);
    REQUIRE(work.v_scale);
    const bool powers = has_powers(work.k_scale->quantization);
    std::vector<float>&k = work.k_scale->values, &v = work.v_scale->values;
    // Beyond FP16 on both sides, where a scale can be; the least and zero count for nothing.
    for (std::size_t i = 0; i < v.size(); i += 7) v[i] = powers ? 0x1p+20F : 448.0F;
    for (std::size_t i = 3; i < v.size(); i += 11) v[i] = powers ? 0x1p-127F : 0.0F;
    for (std::size_t i = 5; i < k.size(); i += 13) k[i] = powers ? 0x1p-40F : 0x1p-9F;
    check_block_scales(plan, source, work);
    v[v.size() / 2] = NAN;
    k[3] = NAN;  // of the first sequence
    check_block_scales(plan, source, work);
  }
}

TEST_CASE("what the append kernel wrote is decoded as the host's rows") {
  // One sequence of 70 tokens in pages of 32, all of them new.
  constexpr std::int64_t kRows = 70, kHeads = 2, kPage = 32, kPages = 4;
  const std::vector<std::int32_t> table{2, 0, 3}, lengths{kRows}, offsets{0, kRows}, queries{0, 1};
  for (const char* format : {kMxFp8, kNvFp4}) {
    CAPTURE(format);
    const Config config = block_scaled_config(format, R"("operand": {"kind": "paged", "page_size": 32})");
    const Plan plan = make_plan(config);
    const Quantization quantization = *config.operand->quantization;
    const DType stored = *config.kv_dtype;
    Workload work;
    work.shape = block_scaled_shape(config);
    work.shape.lengths_q = {1}, work.shape.lengths_k = {kRows};
    const auto values = static_cast<std::size_t>(kRows * kHeads * 128);
    work.q = random_normal(6 * 128, 3, 0);
    work.k = random_normal(values, 3, 1), work.v = random_normal(values, 3, 2);
    for (auto* x : {&work.q, &work.k, &work.v}) round_to(DType::bf16, *x);
    const DeviceBuffer q = upload(encode(DType::bf16, work.q)), new_k = upload(encode(DType::bf16, work.k)),
                       new_v = upload(encode(DType::bf16, work.v));
    work.k_scale = quantize(quantization, stored, kHeads, 128, work.k);
    work.v_scale = quantize(quantization, stored, kHeads, 128, work.v);
    const std::int64_t columns = 128 / numbers_of(stored), groups = work.k_scale->groups();
    const auto pool = static_cast<std::size_t>(kPages * kPage * kHeads);
    DeviceBuffer k = emulated().allocate(pool * static_cast<std::size_t>(columns)),
                 v = emulated().allocate(pool * static_cast<std::size_t>(columns)),
                 k_scale = emulated().allocate(pool * static_cast<std::size_t>(groups)),
                 v_scale = emulated().allocate(pool * static_cast<std::size_t>(groups)),
                 o = emulated().allocate(6 * 128 * 2);
    for (auto* buffer : {&k, &v, &k_scale, &v_scale}) buffer->fill(std::byte{0xff});
    const float factors[] = {work.k_scale->factor, work.v_scale->factor};
    const DeviceBuffer d_factors = upload(std::as_bytes(std::span(factors))), d_table = ints(table),
                       d_lengths = ints(lengths), d_offsets = ints(offsets), d_queries = ints(queries);
    AttentionArgs args;
    args.k = Tensor::dense(k.address(), stored, {kPages, kPage, kHeads, columns});
    args.v = Tensor::dense(v.address(), stored, {kPages, kPage, kHeads, columns});
    args.k_scale =
        Tensor::dense(k_scale.address(), quantization.scale_dtype, {kPages, kPage, kHeads, groups});
    args.v_scale =
        Tensor::dense(v_scale.address(), quantization.scale_dtype, {kPages, kPage, kHeads, groups});
    if (stored == DType::fp4_e2m1) args.kv_factors = Tensor::dense(d_factors.address(), DType::f32, {2});
    args.page_table = Tensor::dense(d_table.address(), DType::i32, {1, 3});
    args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {1});
    AppendArgs rows;
    rows.new_k = Tensor::dense(new_k.address(), DType::bf16, {kRows, kHeads, 128});
    rows.new_v = Tensor::dense(new_v.address(), DType::bf16, {kRows, kHeads, 128});
    rows.k = args.k, rows.v = args.v, rows.k_scale = args.k_scale, rows.v_scale = args.v_scale;
    rows.kv_factors = args.kv_factors;
    rows.page_table = args.page_table, rows.seqlens_k = args.seqlens_k;
    rows.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {2});
    rows.max_rows = kRows;
    const auto append = emulated().load(make_append_kernel(config));
    CHECK(append->binary().warnings.empty());
    const auto report = append_kv(*append, rows);
    REQUIRE(report);
    for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    args.q = Tensor::dense(q.address(), DType::bf16, {1, 6, 128});
    args.o = Tensor::dense(o.address(), DType::bf16, {1, 6, 128});
    args.cu_seqlens_q = Tensor::dense(d_queries.address(), DType::i32, {2});
    args.max_seqlen_q = 1;
    const auto decoded = emulated().load(generate(plan))->launch(args);
    REQUIRE(decoded);
    for (const auto& finding : decoded->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    std::vector<std::byte> bytes(o.size());
    o.read(bytes);
    const Semantics semantics = semantics_of(plan.resolved(), work);
    const Reference reference =
        reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0));
    const CheckReport outcome =
        check_output(work, {decode(DType::bf16, bytes), {}, 0}, reference, tolerance_of(plan.resolved()));
    for (const std::string& failure : outcome.failures) FAIL_CHECK(failure);
  }
}

TEST_CASE("scales of blocks are refused where nothing reads them") {
  const auto refusal = [](const char* format, const std::string& keys) {
    try {
      make_plan(block_scaled_config(format, keys));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  for (const char* target : {"sm_80", "sm_90a", "gfx942", "gfx950"}) {
    for (const char* operation : {"prefill", "decode"}) {
      CAPTURE(target);
      CAPTURE(operation);
      const std::string keys =
          std::string(R"("target": ")") + target + R"(", "operation": ")" + operation + '"';
      if (std::string(target) != "gfx942")
        CHECK(has(refusal(kMxFp8, keys), "takes scales of f32 (nearest legal: f32)"));
      CHECK_FALSE(refusal(kNvFp4, keys).empty());
    }
  }
  CHECK(has(refusal(kMxFp8, R"("operand": {"quantization": {"granularity": 16}})"),
            "MXFP8 is kv_dtype fp8_e4m3 with granularity 32"));
  CHECK(has(refusal(kNvFp4, R"("operand": {"quantization": {"scale_dtype": "f32"}})"),
            "NVFP4 is kv_dtype fp4_e2m1"));
  CHECK(has(refusal(kMxFp8, R"("dtype": "fp16")"), "/dtype"));
  CHECK(has(refusal(kNvFp4, R"("depth": 80)"), "rows of whole 16 bytes (nearest legal: 96)"));
}

TEST_CASE("tensors that do not go with scales of blocks are refused") {
  const Manifest manifest = generate(make_plan(block_scaled_config(kNvFp4, ""))).manifest;
  const auto refusal = [&](auto change) {
    AttentionArgs args;
    args.q = args.o = Tensor::dense(256, DType::bf16, {1, 1, 6, 128});
    args.k = args.v = Tensor::dense(256, DType::fp4_e2m1, {1, 40, 2, 64});
    args.k_scale = args.v_scale = Tensor::dense(64, DType::fp8_e4m3, {1, 40, 2, 8});
    args.kv_factors = Tensor::dense(64, DType::f32, {2});
    change(args);
    try {
      make_problem(manifest, args);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(refusal([](AttentionArgs&) {}).empty());
  CHECK(has(refusal([](auto& a) { a.kv_factors.reset(); }), "the kernel needs kv_factors"));
  CHECK(has(refusal([](auto& a) { a.kv_factors->shape = {1}; }), "kv_factors has shape [1]"));
  CHECK(has(refusal([](auto& a) { a.k_scale->dtype = DType::f32; }), "k_scale is f32, fp8_e4m3 is needed"));
  CHECK(has(refusal([](auto& a) { a.v_scale->address = 66; }),
            "v_scale lies at 0x42, a multiple of 4 is needed"));
  CHECK(has(refusal([](auto& a) { a.k.shape.back() = 128; }), "k has depth 128, the kernel takes 64"));
  const Manifest plain = generate(make_plan(block_scaled_config(kMxFp8, ""))).manifest;
  CHECK(plain.takes("k_scale"));
  CHECK_FALSE(plain.takes("kv_factors"));
}
