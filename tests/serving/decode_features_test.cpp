// What decode on NVIDIA targets computes beyond the plain case, on the emulated device: masks, modifiers and
// sinks, scales of every granularity, FP8 queries, latent caches, fixed splits; lengths that the operand
// cannot hold, and NaN in 8-bit caches.
#include <doctest/doctest.h>

#include <cmath>
#include <kiln/decode_plan.hpp>
#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/emulated.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::build_decode;
using kiln::test::Built;
using kiln::test::emulated;
using kiln::test::ints;
using kiln::test::upload;

namespace {

/// Decodes of one and several rows, an empty cache, ends inside and at tiles, more queries than keys.
ProblemShape decode_shape(const Built& built, std::int64_t heads_q) {
  ProblemShape shape;
  shape.heads_q = heads_q;
  shape.heads_kv = 1;
  shape.depth = built.plan.resolved().depth;
  shape.ov_depth = *built.plan.resolved().ov_depth;
  shape.ragged = true;
  shape.lengths_q = {1, 3, 1, 2, 5, 1};
  shape.lengths_k = {150, 70, 0, 64, 3, 197};
  return shape;
}

struct Outcome {
  Workload work;
  RunResult result;
};

Outcome run_decode(const Built& built, Workload work, int num_sms, std::uint64_t seed) {
  const auto kernel = emulated().load(built.source);
  EmulatorOptions emulator;
  emulator.policy = seed % 2 == 0 ? EmulatorOptions::Policy::lazy : EmulatorOptions::Policy::random;
  emulator.seed = seed;
  emulator.num_sms = num_sms;
  RunOptions options;
  options.emulator = &emulator;
  RunResult result = run_workload(emulated(), *kernel, work, options);
  for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  return {std::move(work), std::move(result)};
}

void check_decode(const Built& built, const Outcome& outcome) {
  const Semantics semantics = semantics_of(built.plan.resolved(), outcome.work);
  const Reference reference =
      reference_attention(outcome.work, semantics, choose_rows(outcome.work.shape, semantics.mask, 1e300, 0));
  const CheckReport report =
      check_output(outcome.work, outcome.result.output, reference, tolerance_of(built.plan.resolved()));
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
}

void run_and_check(const std::string& target, const std::string& keys, std::int64_t heads_q,
                   std::uint64_t seed) {
  CAPTURE(target);
  CAPTURE(keys);
  const Built built = build_decode(target, keys);
  const auto compiled = emulated().compile(built.source);
  for (const std::string& warning : compiled->warnings) FAIL_CHECK(warning);
  check_decode(
      built,
      run_decode(built, random_workload(decode_shape(built, heads_q), built.plan.resolved(), seed), 5, seed));
}

constexpr const char* kPagedOperand = R"("operand": {"kind": "paged", "page_size": 16})";

}  // namespace

TEST_CASE("masks, score modifiers and sinks of decode" * doctest::test_suite("breadth")) {
  std::uint64_t seed = 0;
  for (const std::string target : {"sm_80", "sm_90a"}) {
    for (
        const char* meaning :
        {R"("mask": {"chunked": 50}, "sink": true)", R"("mask": "custom", "score_mod": {"softcap": 5})",
         R"("mask": "causal", "score_mod": "alibi")",
         R"x("mask": {"sliding_window": 40}, "score_mod": {"expr": "where(k % 5 == 2, -inf, score / (1 + h))"})x"}) {
      run_and_check(target, std::string(kPagedOperand) + R"(, "lse": true, )" + meaning, 6, ++seed);
    }
  }
  // Made for one KV head and as many query heads as the shape has.
  for (const std::string target : {"sm_80", "sm_90a"})
    run_and_check(
        target,
        std::string(kPagedOperand) + R"(, "lse": true, "sink": true, "num_q_heads": 6, "kv_num_heads": 1)", 6,
        ++seed);
  // Half a word of the mask for a warp's 16 keys.
  run_and_check("sm_80", R"("mask": "custom", "depth": 160, "operand": {"kind": "ragged"})", 2, 3);
}

TEST_CASE("gpt-oss decode: a row without a visible key has LSE -inf although there is a sink") {
  for (const std::string target : {"sm_80", "sm_90a"}) {
    CAPTURE(target);
    const Built built =
        build_decode(target, std::string(kPagedOperand) +
                                 R"(, "mask": {"sliding_window": 128}, "sink": true, "lse": true)");
    ProblemShape shape = decode_shape(built, 64);
    shape.heads_kv = 8;
    shape.lengths_q = {1, 1, 4, 2};
    shape.lengths_k = {0, 200, 2, 130};
    const Outcome outcome = run_decode(built, random_workload(shape, built.plan.resolved(), 4), 16, 4);
    check_decode(built, outcome);
    const auto& lse = outcome.result.output.lse;
    REQUIRE(lse.size() == 8 * 64);
    for (std::size_t row = 0; row < 8; ++row) {
      // Row 0 has no keys, rows 2 and 3 are two of four queries over two keys: at positions -2 and -1.
      const bool empty = row == 0 || row == 2 || row == 3;
      for (std::size_t head = 0; head < 64; ++head) {
        const float value = lse[row * 64 + head];
        CHECK((empty ? value == -INFINITY : std::isfinite(value)));
      }
    }
  }
}

TEST_CASE("scales of every granularity, and queries of FP8, on sm_90a" * doctest::test_suite("breadth")) {
  std::uint64_t seed = 10;
  const auto paged = [](const char* granularity) {
    return std::string(R"("operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": )") +
           granularity + "}}";
  };
  for (
      const std::string& keys :
      {paged("32") + R"(, "kv_dtype": "int8", "mask": "causal", "lse": true)",
       paged("16") + R"(, "kv_dtype": "fp8_e4m3", "depth": 96, "score_mod": {"softcap": 9})",
       paged("64") + R"(, "kv_dtype": "int8", "depth": 128, "ov_depth": 192, "dtype": "fp16")",
       paged("512") + R"(, "kv_dtype": "int8")",
       // The last scale of a row covers what is left of it.
       paged("48") + R"(, "kv_dtype": "int8", "depth": 128, "mask": "causal", "lse": true)",
       paged("64") + R"(, "kv_dtype": "fp8_e4m3", "depth": 80, "ov_depth": 160)",
       paged("64") + R"(, "kv_dtype": "fp8_e4m3", "depth": 96, "target": "sm_80")",
       paged("96") + R"(, "kv_dtype": "int8", "depth": 160, "target": "sm_80", "mask": "causal")",
       // Pages of one row, which are copied in rows of 128 bytes whatever the depth.
       std::string(
           R"("operand": {"kind": "paged", "page_size": 1, "quantization": {"granularity": "per_head"}}, "kv_dtype": "fp8_e4m3")"),
       std::string(
           R"("operand": {"kind": "ragged", "quantization": {"granularity": 32}}, "kv_dtype": "int8")"),
       std::string(
           R"("operand": {"kind": "continuous", "quantization": {"granularity": 32}}, "kv_dtype": "fp8_e4m3")"),
       paged("\"per_head\"") + R"(, "dtype": "fp8_e4m3", "mask": "causal", "depth": 128, "lse": true)",
       paged("\"per_token\"") + R"(, "dtype": "fp8_e4m3", "mask": {"sliding_window": 70})",
       std::string(R"("dtype": "fp8_e4m3", "operand": {"kind": "ragged"}, "depth": 80)")})
    run_and_check("sm_90a", keys, 6, ++seed);
}

TEST_CASE("scales of zero and below") {
  const Built built = build_decode(
      "sm_90a",
      R"("operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}}, "kv_dtype": "int8", "lse": true)");
  ProblemShape shape = decode_shape(built, 6);
  shape.heads_kv = 3;
  Workload work = random_workload(shape, built.plan.resolved(), 5);
  work.k_scale->values = {0.0F, -work.k_scale->values[1], work.k_scale->values[2]};
  check_decode(built, run_decode(built, std::move(work), 4, 5));
}

TEST_CASE("a batch without a single key reads nothing and writes zeros" * doctest::test_suite("breadth")) {
  const std::string scaled =
      R"x(, "kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}})x";
  for (const std::string& keys :
       {std::string(R"("operand": {"kind": "contiguous"}, "lse": true)"),
        std::string(R"("operand": {"kind": "ragged"})"), std::string(kPagedOperand),
        R"("lse": true)" + scaled,
        std::string(R"("operand": {"kind": "ragged"}, "depth": 576, "ov_depth": 512, "v_from_k": true)")}) {
    for (const char* target : {"sm_90a", "sm_80"}) {
      CAPTURE(target);
      CAPTURE(keys);
      const Built built = build_decode(target, keys);
      ProblemShape shape = decode_shape(built, 4);
      shape.ragged = built.plan.resolved().operand->kind != OperandKind::contiguous;
      shape.lengths_q = {2, 2};
      shape.lengths_k = {0, 0};
      check_decode(built, run_decode(built, random_workload(shape, built.plan.resolved(), 9), 2, 9));
    }
  }
}

TEST_CASE("a latent cache: V is the first columns of K's rows" * doctest::test_suite("breadth")) {
  for (const char* target : {"sm_90a", "sm_80"}) {
    run_and_check(target,
                  std::string(kPagedOperand) +
                      R"(, "depth": 576, "ov_depth": 512, "v_from_k": true, "mask": "causal", "lse": true)",
                  6, 21);
  }
  // Rows of several blocks of packed queries, of which the last is not full.
  run_and_check("sm_80", std::string(kPagedOperand) + R"(, "depth": 576, "ov_depth": 512, "v_from_k": true)",
                30, 23);
  run_and_check(
      "sm_90a",
      R"("operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_token"}}, "kv_dtype": "fp8_e4m3", "depth": 576, "ov_depth": 512, "v_from_k": true)",
      3, 22);
  // Rows short enough for rings whose stages the launch chooses; rows upright, which end inside tiles.
  run_and_check("sm_90a", std::string(kPagedOperand) + R"(, "depth": 192, "ov_depth": 128, "v_from_k": true)",
                6, 24);
  run_and_check("sm_90a",
                std::string(kPagedOperand) + R"(, "depth": 192, "ov_depth": 112, "v_from_k": true, "BM": 64)",
                30, 25);
}

TEST_CASE("a latent cache on sm_100a: packed rows of 13 to 128 heads and several queries, every operand" *
          doctest::test_suite("breadth")) {
  const std::string latent = R"(, "depth": 576, "ov_depth": 512, "v_from_k": true)";
  std::uint64_t seed = 60;
  // 13 heads leave rows empty; items of several blocks of rows, of which the last is not full.
  run_and_check("sm_100a",
                std::string(kPagedOperand) + latent + R"(, "mask": "causal", "lse": true, "group": 16)", 13,
                ++seed);
  run_and_check(
      "sm_100a",
      std::string(kPagedOperand) + latent + R"(, "mask": "causal", "lse": true, "group": 16, "queries": 2)",
      16, ++seed);
  run_and_check("sm_100a", R"("operand": {"kind": "ragged"}, "sink": true, "mask": "causal")" + latent, 64,
                ++seed);
  run_and_check("sm_100a", R"("operand": {"kind": "paged", "page_size": 64}, "lse": true)" + latent, 128,
                ++seed);
  run_and_check(
      "sm_100a",
      R"("operand": {"kind": "continuous"}, "dtype": "fp16", "mask": {"sliding_window": 70})" + latent, 20,
      ++seed);
  run_and_check("sm_100a",
                R"("operand": {"kind": "paged", "page_size": 1}, "split_kv": 3, "out_dtype": "f32")" + latent,
                16, ++seed);
  run_and_check("sm_100a",
                R"("operand": {"kind": "ragged"}, "sink": true, "lse": true, "mask": "custom")" + latent, 40,
                ++seed);
  // V in fewer columns than its last matrix instruction has; more stages; 64 rows of V's instruction.
  run_and_check(
      "sm_100a",
      R"("operand": {"kind": "paged", "page_size": 24}, "score_mod": "alibi", "v_from_k": true, "depth": 432, "ov_depth": 336)",
      20, ++seed);
  run_and_check("sm_100a",
                std::string(kPagedOperand) + R"(, "depth": 192, "ov_depth": 112, "v_from_k": true)", 30,
                ++seed);
  run_and_check("sm_100a", std::string(kPagedOperand) + R"(, "depth": 128, "ov_depth": 48, "v_from_k": true)",
                6, ++seed);
  // K at once, and each panel by itself.
  for (const char* chunks : {"1", "9"})
    run_and_check("sm_100a", std::string(kPagedOperand) + latent + R"(, "num_qk_stages": )" + chunks, 16,
                  ++seed);
}

TEST_CASE("a latent cache under 64 rows: two warpgroups, each with half of V's columns" *
          doctest::test_suite("breadth")) {
  const std::string latent = R"(, "depth": 576, "ov_depth": 512, "v_from_k": true)";
  std::uint64_t seed = 40;
  // 13 heads leave rows empty, 50 make items of several blocks of rows, the last of which is not full.
  for (const std::int64_t heads : {13, 50}) {
    run_and_check("sm_90a", std::string(kPagedOperand) + latent + R"(, "mask": "causal", "lse": true)", heads,
                  ++seed);
    run_and_check("sm_90a", R"("operand": {"kind": "ragged"}, "sink": true, "mask": "custom")" + latent,
                  heads, ++seed);
  }
  run_and_check(
      "sm_90a",
      R"("operand": {"kind": "continuous"}, "dtype": "fp16", "mask": {"sliding_window": 70})" + latent, 16,
      ++seed);
  run_and_check("sm_90a",
                R"("operand": {"kind": "paged", "page_size": 1}, "split_kv": 3, "lse": true)" + latent, 16,
                ++seed);
  run_and_check(
      "sm_90a",
      R"("operand": {"kind": "paged", "page_size": 24}, "score_mod": "alibi", "v_from_k": true, "depth": 448, "ov_depth": 384)",
      20, ++seed);
  const Config chosen = build_decode("sm_90a", std::string(kPagedOperand) + latent).plan.resolved();
  CHECK(chosen.BM == 64);
  CHECK(chosen.num_threads == 384);
  CHECK(build_decode("sm_90a", std::string(kPagedOperand) + latent + R"(, "group": 8)").plan.resolved().BM ==
        8);
  // What masks and modifiers keep beside 64 rows decides, too, and single rows of pages, many to look up.
  const std::string kept = R"x("mask": {"chunked": 100}, "score_mod": {"expr": "(k - q) * 0.01 + score"}, )x";
  CHECK(build_decode("sm_90a", kept + R"("operand": {"kind": "ragged"})" + latent).plan.resolved().BM == 16);
  CHECK(
      build_decode("sm_90a", R"("operand": {"kind": "paged", "page_size": 7})" + latent).plan.resolved().BM ==
      16);
  CHECK(build_decode("sm_90a", std::string(kPagedOperand) + latent + R"(, "BM": 16)")
            .plan.resolved()
            .num_threads == 160);
}

TEST_CASE("parts of many long rows are few, and cut evenly") {
  const std::string latent = R"(, "depth": 576, "ov_depth": 512, "v_from_k": true)";
  const Manifest large = build_decode("sm_90a", std::string(kPagedOperand) + latent).source.manifest;
  const Manifest small =
      build_decode("sm_90a", std::string(kPagedOperand) + latent + R"(, "BM": 16)").source.manifest;
  const auto blocks = [](const Manifest& manifest, std::int64_t batch, std::int64_t keys) {
    const std::vector<std::int64_t> q(static_cast<std::size_t>(batch), 1),
        k(static_cast<std::size_t>(batch), keys);
    return size_decode(manifest, DecodeShape{128, 1, q, k, 0}, 132).blocks;
  };
  CHECK(blocks(large, 1, 65536) > 64);  // all blocks add the parts up
  CHECK(blocks(small, 1, 65536) > 64);
  CHECK(blocks(large, 32, 4096) == 128);  // two for each item, none of which ends inside one
  CHECK(blocks(large, 64, 4096) == 128);
  CHECK(blocks(large, 37, 4096) == 132);
  // A rule of that kernel: another target's parts of as many rows stay as many as its blocks.
  const Manifest ampere =
      build_decode("sm_80", std::string(kPagedOperand) + latent + R"(, "BM": 64)").source.manifest;
  REQUIRE(ampere.grid.block_rows == 64);
  CHECK(blocks(ampere, 1, 65536) == 132 * ampere.grid.ctas_per_sm);
}

TEST_CASE("a fixed number of splits gives a sequence the same bits whatever else is in the batch") {
  for (const std::string target : {"sm_80", "sm_90a"}) {
    CAPTURE(target);
    const Built built = build_decode(target, R"("operand": {"kind": "ragged"}, "split_kv": 3, "lse": true)");
    ProblemShape shape = decode_shape(built, 2);
    shape.lengths_q = {2, 1, 1};
    shape.lengths_k = {450, 0, 130};
    Workload work = random_workload(shape, built.plan.resolved(), 6);
    const Outcome all = run_decode(built, work, 7, 6);
    check_decode(built, all);
    CHECK(all.result.output.o == run_decode(built, work, 3, 7).result.output.o);

    Workload alone = work;
    alone.shape.lengths_q = {2}, alone.shape.lengths_k = {450};
    alone.q.resize(2 * 2 * 64), alone.k.resize(450 * 64), alone.v.resize(450 * 64);
    const auto& o = run_decode(built, alone, 2, 8).result.output.o;
    CHECK(std::equal(o.begin(), o.end(), all.result.output.o.begin()));

    const std::int64_t q[] = {2, 1, 1}, k[] = {450, 0, 130};
    const DecodePlan plan = plan_decode(built.source.manifest, {2, 1, q, k}, 7);
    const auto parts = [&](std::int64_t batch) {
      return std::count_if(plan.runs.begin(), plan.runs.end(),
                           [&](const DecodeRun& r) { return r.batch == batch; });
    };
    CHECK(parts(0) == 3);
    CHECK(parts(1) == 1);
    CHECK(plan.workspace_bytes >= plan.items * built.source.manifest.workspace_bytes_per_item);
  }
}

TEST_CASE("lengths that the pages cannot hold are the longest they can; negative ones are empty") {
  for (const std::string target : {"sm_80", "sm_90a"}) {
    for (const std::string operation : {"decode", "prefill"}) {
      CAPTURE(target);
      CAPTURE(operation);
      const Built built = build_decode(
          target, std::string(kPagedOperand) + R"(, "mask": "causal", "operation": ")" + operation + "\"");
      Runtime& runtime = emulated();
      const auto kernel = runtime.load(built.source);
      std::vector<float> rows(2 * 16 * 64, 0.0F), values(2 * 16 * 64, 0.0F);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 64);
      const DeviceBuffer q = upload(encode(DType::bf16, std::vector<float>(3 * 64, 1.0F))),
                         k = upload(encode(DType::bf16, rows)), v = upload(encode(DType::bf16, values)),
                         table = ints({1, 0, 0, 1, 1, 0}), lengths = ints({2147483647, 20, -5}),
                         offsets = ints({0, 1, 2, 3});
      DeviceBuffer o = runtime.allocate(3 * 64 * 2);
      AttentionArgs args;
      args.q = Tensor::dense(q.address(), DType::bf16, {3, 1, 64});
      args.k = Tensor::dense(k.address(), DType::bf16, {2, 16, 1, 64});
      args.v = Tensor::dense(v.address(), DType::bf16, {2, 16, 1, 64});
      args.o = Tensor::dense(o.address(), DType::bf16, {3, 1, 64});
      args.page_table = Tensor::dense(table.address(), DType::i32, {3, 2});
      args.seqlens_k = Tensor::dense(lengths.address(), DType::i32, {3});
      args.cu_seqlens_q = Tensor::dense(offsets.address(), DType::i32, {4});
      args.max_seqlen_q = 1;
      const auto report = kernel->launch(args);
      REQUIRE(report);
      for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
      std::vector<std::byte> bytes(o.size());
      o.read(bytes);
      const std::vector<float> out = decode(DType::bf16, bytes);
      // Equal scores: the mean of the values, which are the numbers of their rows.
      CHECK(out[0] == doctest::Approx(15.5).epsilon(0.01));
      CHECK(out[64] == doctest::Approx((120.0 + 16 + 17 + 18 + 19) / 20).epsilon(0.01));
      CHECK(out[128] == 0.0F);
    }
  }
}

TEST_CASE("an E4M3 NaN in the cache is a NaN") {
  for (const std::string target : {"sm_80", "sm_90a"}) {
    for (const char* dtype : {"bf16", "fp16"}) {
      CAPTURE(target);
      CAPTURE(dtype);
      const Built built = build_decode(
          target,
          std::string(R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"}, "dtype": ")") + dtype + "\"");
      ProblemShape shape = decode_shape(built, 1);
      shape.lengths_q = {1, 1}, shape.lengths_k = {40, 40};
      Workload work = random_workload(shape, built.plan.resolved(), 9);
      // V: one column of sequence 0. K: one element, and so all of sequence 1.
      for (std::size_t column : {3u, 18u}) work.v[7 * 64 + column] = column == 3 ? NAN : -NAN;
      work.k[55 * 64 + 9] = NAN;
      const auto& o = run_decode(built, std::move(work), 2, 1).result.output.o;
      for (std::size_t d = 0; d < 64; ++d) {
        CHECK(std::isnan(o[d]) == (d == 3 || d == 18));
        CHECK(std::isnan(o[64 + d]));
      }
    }
  }
}

TEST_CASE("chunks of a prompt beside decodes in one launch, over 8-bit and 16-bit pages") {
  for (
      const auto& [target, keys] :
      {std::pair{
           "sm_90a",
           R"("kv_dtype": "fp8_e4m3", "BM": 64, "BN": 64, "lse": true, "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})"},
       std::pair{
           "sm_80",
           R"("kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 8, "quantization": {"granularity": 32}})"},
       std::pair{"sm_90a",
                 R"("operation": "prefill", "operand": {"kind": "paged", "page_size": 16}, "lse": true)"},
       std::pair{"sm_80", R"("operation": "prefill", "operand": {"kind": "paged", "page_size": 16})"}}) {
    CAPTURE(target);
    CAPTURE(keys);
    const Built built = build_decode(target, std::string(R"("mask": "causal", )") + keys);
    ProblemShape shape = decode_shape(built, 2);
    shape.lengths_q = {1, 70, 1, 0, 33};
    shape.lengths_k = {90, 100, 0, 20, 33};
    check_decode(built, run_decode(built, random_workload(shape, built.plan.resolved(), 31), 4, 31));
  }
}
