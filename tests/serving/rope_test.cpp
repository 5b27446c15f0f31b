// Latent caches whose rows are bytes with a tail of rotary columns in Q's type (`rope`, layout `tail`): what
// is planned and refused, what a launch takes, and results at the ends of tiles and pages.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <kiln/kv_cache.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/report.hpp"
#include "generator/schedules/schedule.hpp"
#include "runtime/launch/pack.hpp"
#include "runtime/launch/problem.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using Json = nlohmann::ordered_json;
using kiln::test::check_at_tile_ends;
using kiln::test::emulated;
using kiln::test::ints;
using kiln::test::plan_of;
using kiln::test::refusal;
using kiln::test::upload;

namespace {

/// DeepSeek's rows: 512 bytes and 64 columns of 16 bits; `more` is merged into it.
Json tail_latent(const std::string& more = "") {
  Json config =
      json_of(R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "kv_dtype": "fp8_e4m3",
      "depth": 576, "ov_depth": 512, "v_from_k": true, "rope_depth": 64, "rope": {"layout": "tail"},
      "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_tensor"}}, "lse": true})");
  config.merge_patch(json_of("{" + more + "}"));
  return config;
}
/// The one violation, as "pointer: rule".
std::string tail_refusal(const std::string& more) {
  return refusal(tail_latent(more));
}

}  // namespace

TEST_CASE("rows with a tail: their length, their two maps, the documented rope map") {
  const Plan plan = plan_of(tail_latent());
  const Json report = json_of(plan.to_json());
  CHECK(report["resolved"]["rope"] == Json({{"layout", "tail"}, {"padded_depth", 512}, {"dtype", "bf16"}}));
  CHECK(report["resolved"]["cache_depth"] == 640);
  // F-51
  CHECK(report["systems"]["mha_operand"]["k"]["rope_row_width"] == 320);
  CHECK(report["systems"]["mha_operand"]["k"]["rope_base_offset_bytes"] == 512);
  CHECK(report["systems"]["tma_consumer_pipeline"]["k"]["full_kv_bytes"] == 64 * (512 + 2 * 64));
  for (const layout::Proof& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);

  const Manifest m = manifest_from_json(to_json(generate(plan).manifest));
  CHECK(m.k_row() == 640);
  CHECK(m.k_columns() == 512);
  REQUIRE(m.rope);
  CHECK(m.rope->depth == 64);
  CHECK(m.rope->padded_depth == 512);
  CHECK(m.rope->dtype == DType::bf16);
  CHECK(m.params[0].map.dims[0].box == 128);
  CHECK(m.params[1].role == "k_rope");
  CHECK(m.params[1].map.dims[0].box == 64);
  CHECK_NOTHROW(check_roles(m));

  // Another row: 16 bytes of something between, 32 behind. Q's type is the tail's.
  const Manifest padded =
      generate(plan_of(tail_latent(R"("rope": {"padded_depth": 528}, "cache_depth": 688, "dtype": "fp16")")))
          .manifest;
  CHECK(padded.k_row() == 688);
  CHECK(padded.rope->padded_depth == 528);
  CHECK(padded.rope->dtype == DType::fp16);
}

TEST_CASE("a manifest whose tail does not lie behind the other columns is malformed") {
  const std::string text = to_json(generate(plan_of(tail_latent())).manifest);
  for (const auto& [from, to] : {std::pair{R"("padded_depth": 512)", R"("padded_depth": 496)"},
                                 {R"("padded_depth": 512)", R"("padded_depth": 528)"},
                                 {R"("depth": 64)", R"("depth": 0)"},
                                 {R"("cache_depth": 640)", R"("cache_depth": 632)"}}) {
    std::string bad = text;
    const std::size_t at = bad.find(from);
    REQUIRE(at != std::string::npos);
    bad.replace(at, std::string(from).size(), to);
    CHECK_THROWS_AS(manifest_from_json(bad), Error);
  }
  Manifest without = generate(plan_of(tail_latent())).manifest;
  without.rope.reset();
  CHECK_THROWS_AS(check_roles(without), Error);
}

TEST_CASE("what a tail does not go with is refused at its key") {
  CHECK(tail_refusal("").empty());
  CHECK(tail_refusal(R"("rope": {"dtype": "fp16"})").find("/rope/dtype = \"fp16\": not-yet") == 0);
  CHECK(tail_refusal(R"("rope": {"padded_depth": 500})").find("/rope/padded_depth = 500: V28") == 0);
  CHECK(tail_refusal(R"("rope": {"padded_depth": 520})").find("multiple of 16 bytes") != std::string::npos);
  CHECK(tail_refusal(R"("cache_depth": 624)").find("must hold") != std::string::npos);
  CHECK(tail_refusal(R"("rope_depth": null)").find("/rope = ") == 0);
  CHECK(tail_refusal(R"("kv_dtype": "bf16", "operand": {"quantization": null})")
            .find("/kv_dtype = \"bf16\": not-yet") == 0);
  CHECK(tail_refusal(R"("dtype": "fp8_e4m3")").find("not-yet") != std::string::npos);
  CHECK(tail_refusal(R"("v_from_k": false)").find("/v_from_k = false: not-yet") == 0);
  CHECK(tail_refusal(R"("ov_depth": 528)").find("/ov_depth = 528: not-yet") == 0);
  CHECK(tail_refusal(R"("rope_depth": 72)").find("/rope_depth = 72: not-yet") == 0);
  CHECK(tail_refusal(R"("cache_depth": 704, "head_dim_offset": 16)").find("/head_dim_offset = 16: not-yet") ==
        0);
  CHECK(tail_refusal(R"("operand": {"quantization": {"granularity": 128}})").find("not-yet") !=
        std::string::npos);
  CHECK(tail_refusal(R"("target": "sm_80", "kv_dtype": null, "operand": {"quantization": null})")
            .find("/rope = ") == 0);
  CHECK(tail_refusal(R"("operation": "prefill")").find("not-yet") != std::string::npos);
}

TEST_CASE("a launch wants the whole rows, and scales of the bytes only") {
  const Manifest m =
      generate(plan_of(tail_latent(R"("operand": {"quantization": {"granularity": "per_token"}})"))).manifest;
  const auto problem = [&](std::int64_t row, std::int64_t scales) {
    AttentionArgs args;
    args.q = Tensor::dense(256, DType::bf16, {2, 16, 576});
    args.k = Tensor::dense(256, DType::fp8_e4m3, {5, 64, 1, row});
    args.o = Tensor::dense(256, DType::bf16, {2, 16, 512});
    args.lse = Tensor::dense(256, DType::f32, {16, 2});
    args.cu_seqlens_q = Tensor::dense(256, DType::i32, {3});
    args.page_table = Tensor::dense(256, DType::i32, {2, 3});
    args.seqlens_k = Tensor::dense(256, DType::i32, {2});
    args.k_scale = Tensor::dense(256, DType::f32, {5, 64, scales});
    args.max_seqlen_q = 1;
    return make_problem(m, args);
  };
  CHECK(problem(640, 1).num_pages == 5);
  for (const std::int64_t row : {576, 512, 656}) CHECK_THROWS_AS(problem(row, 1), Error);
  CHECK_THROWS_AS(problem(640, 2), Error);
}

TEST_CASE("latent rows with a tail in pages of any size, at the ends of tiles" *
          doctest::test_suite("breadth")) {
  std::uint64_t seed = 30;
  for (const int page : {1, 16, 64, 256}) {
    CAPTURE(page);
    Json config = tail_latent(R"("mask": "causal")");
    config["operand"]["page_size"] = page;
    check_at_tile_ends(plan_of(config), ++seed);
  }
}

TEST_CASE("tails with every scale, type, operand and with what stands between scores and the exponent" *
          doctest::test_suite("breadth")) {
  std::uint64_t seed = 40;
  for (
      const std::string more :
      {R"("operand": {"page_size": 24, "quantization": {"granularity": "per_token"}}, "kv_dtype": "int8")",
       R"("operand": {"page_size": 32, "quantization": {"granularity": "per_head"}}, "dtype": "fp16", "rope": {"padded_depth": 528}, "cache_depth": 688)",
       R"("operand": {"quantization": {"granularity": 512}}, "score_mod": {"softcap": 20}, "sink": true)",
       R"("operand": {"kind": "ragged", "page_size": null, "quantization": null}, "mask": {"sliding_window": 70})",
       R"("operand": {"kind": "continuous", "page_size": null}, "score_mod": "alibi", "split_kv": 3)",
       R"("operand": {"kind": "contiguous", "page_size": null}, "depth": 256, "ov_depth": 64, "rope_depth": 128, "BN": 128)",
       R"("group": 8, "operand": {"page_size": 100}, "mask": "causal")",
       // Panels that no row fills: 80 bytes of 128, 48 columns of 64.
       R"("depth": 128, "ov_depth": 80, "rope_depth": 48, "operand": {"page_size": 2}, "mask": "custom", "BM": 32)"}) {
    CAPTURE(more);
    check_at_tile_ends(plan_of(tail_latent(more)), ++seed);
  }
}

TEST_CASE(
    "a tail on sm_100a, and rotary columns of their own: one place of FP16 or two, at the ends of tiles" *
    doctest::test_suite("breadth")) {
  const std::string head = R"("target": "sm_100a", )";
  std::uint64_t seed = 110;
  for (
      const std::string more :
      {R"("group": 16, "operand": {"page_size": 16, "quantization": {"granularity": "per_token"}}, "mask": "causal")",
       R"("group": 64, "mask": "causal", "sink": true)",
       R"("group": 64, "queries": 2, "kv_dtype": "int8", "dtype": "fp16", "rope": {"padded_depth": 528}, "cache_depth": 688, "operand": {"page_size": 24, "quantization": {"granularity": "per_token", "layout": "head_major"}})",
       R"("group": 16, "queries": 2, "operand": {"page_size": 1, "quantization": {"granularity": "per_head"}}, "score_mod": {"softcap": 20})",
       R"("group": 16, "rope": {"layout": "separate"}, "operand": {"kind": "ragged", "page_size": null, "quantization": null}, "mask": {"sliding_window": 70})",
       R"("rope": {"layout": "separate"}, "operand": {"kind": "continuous", "page_size": null, "quantization": {"granularity": "per_sequence"}}, "split_kv": 3, "num_qk_stages": 2, "mask": "causal")",
       // All columns before the tail are V's, no whole matrix instructions of them; two panels of rotary columns, one half.
       R"("group": 16, "operand": {"kind": "contiguous", "page_size": null}, "depth": 544, "ov_depth": 448, "rope_depth": 96, "out_dtype": "f32")",
       R"("group": 8, "operand": {"page_size": 100}, "depth": 112, "ov_depth": 48, "rope_depth": 48, "num_kv_stages": 2, "mask": "custom")"}) {
    CAPTURE(more);
    check_at_tile_ends(plan_of(tail_latent(head + more)), ++seed);
  }
}

TEST_CASE("latent rows of bytes on sm_100a that have no columns apart" * doctest::test_suite("breadth")) {
  const std::string head = R"("target": "sm_100a", "rope": null, "rope_depth": null, )";
  std::uint64_t seed = 120;
  for (
      const std::string more :
      {R"("group": 16, "mask": "causal", "operand": {"page_size": 16})",
       R"("group": 64, "operand": {"page_size": 2, "quantization": {"granularity": "per_token"}})",
       R"("group": 16, "queries": 4, "kv_dtype": "int8", "operand": {"kind": "ragged", "page_size": null, "quantization": null}, "mask": "causal")",
       // Columns that fill no panel, V of no whole matrix instructions.
       R"("group": 20, "depth": 400, "ov_depth": 336, "operand": {"page_size": 64}, "score_mod": "alibi")",
       R"("BM": 64, "depth": 176, "ov_depth": 176, "operand": {"kind": "contiguous", "page_size": null}, "split_kv": 3)"}) {
    CAPTURE(more);
    check_at_tile_ends(plan_of(tail_latent(head + more)), ++seed);
  }
}

TEST_CASE("scales of zero and below concern the bytes, not the tail") {
  for (const std::string modifier :
       {R"("score_mod": "none")", R"("score_mod": {"softcap": 30})", R"("target": "sm_100a")"}) {
    const Plan plan = plan_of(tail_latent(
        R"("depth": 192, "ov_depth": 128, "operand": {"kind": "ragged", "page_size": null, "quantization": {"granularity": "per_head"}}, )" +
        modifier));
    ProblemShape shape;
    shape.heads_q = 6, shape.heads_kv = 3, shape.depth = 192, shape.ov_depth = 128, shape.ragged = true;
    shape.lengths_q = {1, 3}, shape.lengths_k = {90, 65};
    Workload work = random_workload(shape, plan.resolved(), 5);
    work.k_scale->values = {0.0F, -work.k_scale->values[1], work.k_scale->values[2]};
    const RunResult result = run_workload(emulated(), *emulated().load(generate(plan)), work);
    const Semantics semantics = semantics_of(plan.resolved(), work);
    const Reference reference =
        reference_attention(work, semantics, choose_rows(shape, semantics.mask, 1e300, 0));
    for (const std::string& failure :
         check_output(work, result.output, reference, tolerance_of(plan.resolved())).failures)
      FAIL_CHECK(failure);
  }
}

namespace {

void check_row_by_hand(const std::string& target, float large) {
  CAPTURE(target);
  // One key, so that O is its V and the log-sum-exp its score. Rotary columns are of a size `large`.
  const Plan plan =
      plan_of(tail_latent(R"("depth": 192, "ov_depth": 128, "scale": 0.125, "target": ")" + target + "\""));
  std::vector<std::byte> cache(64 * 256, std::byte{0xff});
  std::vector<float> q(192, 0.0F);
  double score = 0;
  for (std::size_t d = 0; d < 128; ++d) {
    cache[d] = d % 2 == 0 ? std::byte{0x38} : std::byte{0xc0};  // 1, -2
    q[d] = d % 3 == 0 ? 0.5F : 0.25F;
    score += q[d] * (d % 2 == 0 ? 1 : -2) * 3.0;  // the scale
  }
  for (std::size_t d = 0; d < 64; ++d) {
    const float x = 1 + static_cast<float>(d) / 128;  // more bits than E4M3 has
    q[128 + d] = (d % 5 == 0 ? 2.0F : -1.0F) / large;
    score += q[128 + d] * x * large;
    const std::uint16_t bits = float_to_bf16(x * large);
    cache[128 + 2 * d] = static_cast<std::byte>(bits & 0xff);
    cache[129 + 2 * d] = static_cast<std::byte>(bits >> 8);
  }
  const auto kernel = emulated().load(generate(plan));
  const float k_scale = 3;
  const DeviceBuffer d_q = upload(encode(DType::bf16, q)), d_k = upload(cache), d_offsets = ints({0, 1}),
                     d_table = ints({0}), d_lengths = ints({1}),
                     d_scale = upload(std::as_bytes(std::span(&k_scale, 1)));
  DeviceBuffer d_o = emulated().allocate(256), d_lse = emulated().allocate(4);
  AttentionArgs args;
  args.q = Tensor::dense(d_q.address(), DType::bf16, {1, 1, 192});
  args.k = Tensor::dense(d_k.address(), DType::fp8_e4m3, {1, 64, 1, 256});
  args.o = Tensor::dense(d_o.address(), DType::bf16, {1, 1, 128});
  args.lse = Tensor::dense(d_lse.address(), DType::f32, {1, 1});
  args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {2});
  args.page_table = Tensor::dense(d_table.address(), DType::i32, {1, 1});
  args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {1});
  args.k_scale = Tensor::dense(d_scale.address(), DType::f32, {1});
  args.max_seqlen_q = args.max_seqlen_k = 1;
  const auto report = kernel->launch(args);
  REQUIRE(report);
  for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  float lse = 0;
  d_lse.read(std::as_writable_bytes(std::span(&lse, 1)));
  CHECK(lse == doctest::Approx(0.125 * score).epsilon(1e-5));
  std::vector<std::byte> o(256);
  d_o.read(o);
  const std::vector<float> values = decode(DType::bf16, o);
  for (std::size_t d = 0; d < 128; ++d) CHECK(values[d] == (d % 2 == 0 ? 3.0F : -6.0F));
}

}  // namespace

TEST_CASE("a row by hand: bytes, then 16-bit columns, of sizes that FP16 does not have, too") {
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const float large : {1.0F, 0x1p40F, 0x1p-40F}) check_row_by_hand(target, large);
}

TEST_CASE("new rows of a latent cache are stored as the host stores them, and nothing else changes") {
  // Three new rows at the end of 18 tokens, over the border of two pages.
  constexpr std::int64_t kRows = 3, kPages = 4, kPage = 8;
  const std::vector<std::int32_t> table{2, 0, 3};
  for (
      const std::string more :
      {R"("operand": {"page_size": 8, "quantization": {"granularity": "per_tensor"}})",
       R"("operand": {"page_size": 8, "quantization": {"granularity": "per_token"}}, "kv_dtype": "int8", "cache_depth": 320, "rope": {"padded_depth": 144})",
       R"("operand": {"page_size": 8, "quantization": {"granularity": 128}}, "dtype": "fp16", "rope_depth": 48, "ov_depth": 96, "depth": 176)",
       R"("operand": {"page_size": 8, "quantization": null}, "kv_dtype": null, "rope_depth": null, "rope": null)"}) {
    CAPTURE(more);
    Json keys = json_of("{\"depth\": 192, \"ov_depth\": 128, " + more + "}");
    Json json = tail_latent();
    json.merge_patch(keys);
    const Config resolved = plan_of(json).resolved();
    const std::int64_t depth = resolved.depth, row_depth = *resolved.cache_depth;
    const DType stored = *resolved.kv_dtype;
    // What the host stores.
    Workload work;
    work.shape.depth = depth;
    work.k = random_normal(static_cast<std::size_t>(kRows * depth), 1, 0);
    round_to(resolved.dtype, work.k);
    const std::vector<std::byte> new_rows = encode(resolved.dtype, work.k);
    store_keys(resolved, true, work);
    const KeyColumns columns = split_keys(work.k, depth, work.rope_depth);
    const std::size_t row_bytes = static_cast<std::size_t>(row_depth) * size_of(stored);
    std::vector<std::byte> expected(static_cast<std::size_t>(kPages * kPage) * row_bytes, std::byte{0xa5});
    std::vector<std::byte> rows = pack_columns(
        encode(stored, columns.plain), static_cast<std::size_t>(depth - work.rope_depth) * size_of(stored),
        row_bytes, 0, std::byte{0xa5});
    if (work.rope_depth > 0) {
      place_columns(encode(resolved.dtype, columns.rope), static_cast<std::size_t>(work.rope_depth) * 2,
                    row_bytes, static_cast<std::size_t>(*resolved.rope->padded_depth), rows);
    }
    for (std::int64_t i = 0; i < kRows; ++i) {
      const std::int64_t token = 15 + i;
      const std::int64_t at = table[static_cast<std::size_t>(token / kPage)] * kPage + token % kPage;
      std::copy_n(rows.begin() + i * static_cast<std::int64_t>(row_bytes), row_bytes,
                  expected.begin() + at * static_cast<std::int64_t>(row_bytes));
    }

    const auto kernel = emulated().load(make_append_kernel(parse_config(write_json(json), "test")));
    CHECK(kernel->binary().warnings.empty());
    DeviceBuffer pool = emulated().allocate(expected.size());
    pool.fill(std::byte{0xa5});
    const DeviceBuffer d_new = upload(new_rows), d_table = ints(table), d_lengths = ints({18}),
                       d_offsets = ints({0, 3});
    AppendArgs args;
    args.new_k = Tensor::dense(d_new.address(), resolved.dtype, {kRows, 1, depth});
    args.k = Tensor::dense(pool.address(), stored, {kPages, kPage, 1, row_depth});
    args.page_table = Tensor::dense(d_table.address(), DType::i32, {1, 3});
    args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {1});
    args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {2});
    args.max_rows = 3;
    DeviceBuffer scales;
    if (work.k_scale) {
      const bool by_row = work.k_scale->by_token();
      const std::vector<float> given(by_row ? kPages * kPage : 1, by_row ? -5.0F : work.k_scale->values[0]);
      scales = upload(std::as_bytes(std::span(given)));
      std::vector<std::int64_t> shape{1};
      if (by_row) shape = {kPages, kPage, 1};
      if (work.k_scale->quantization.granularity == Quantization::Granularity::per_block) shape.push_back(1);
      args.k_scale = Tensor::dense(scales.address(), DType::f32, shape);
    }
    const auto report = append_kv(*kernel, args);
    REQUIRE(report);
    for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    std::vector<std::byte> got(expected.size());
    pool.read(got);
    CHECK(got == expected);
    if (work.k_scale && work.k_scale->by_token()) {
      std::vector<float> found(kPages * kPage);
      scales.read(std::as_writable_bytes(std::span(found)));
      CHECK(found[3 * kPage] == work.k_scale->values[1]);  // token 16, the first of page 3
    }
  }
}
