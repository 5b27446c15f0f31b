// Latent caches whose rotary columns lie in a tensor of their own (`rope`, layout `separate`): what is
// planned and refused, that only the copies differ from those of other layouts, what a launch takes, and
// results.
#include <doctest/doctest.h>

#include <algorithm>
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
#include "workbench/problem/pages.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/problem/workload.hpp"

using namespace kiln;
using Json = nlohmann::ordered_json;
using kiln::test::bf16_values;
using kiln::test::check_at_tile_ends;
using kiln::test::count;
using kiln::test::emulated;
using kiln::test::ints;
using kiln::test::plan_of;
using kiln::test::refusal;
using kiln::test::upload;

namespace {

/// DeepSeek's cache as engines keep it: `ckv` of 512 columns and `k_pe` of 64; `more` is merged into it.
Json separate_latent(const std::string& more = "") {
  Json config = json_of(R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 576,
      "ov_depth": 512, "v_from_k": true, "rope_depth": 64, "rope": {"layout": "separate"},
      "operand": {"kind": "paged", "page_size": 64}, "lse": true})");
  config.merge_patch(json_of("{" + more + "}"));
  return config;
}
/// The one violation, as "pointer: rule".
std::string separate_refusal(const std::string& more) {
  return refusal(separate_latent(more));
}
/// The kernel's text without the head comment, which names the config.
std::string body_of(const Json& config) {
  const KernelSource source = generate(plan_of(config));
  return source.text.substr(source.head_bytes);
}
/// DeepSeek's prefill over keys and values that are no latent ones; `more` is merged into it.
Json prefill(const std::string& more) {
  Json config = json_of(R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 192,
      "ov_depth": 128, "rope_depth": 64, "rope": {"layout": "separate"}, "mask": "causal", "lse": true})");
  config.merge_patch(json_of("{" + more + "}"));
  return config;
}

}  // namespace

TEST_CASE("rotary columns in a tensor of their own: rows, maps, manifest") {
  const Plan plan = plan_of(separate_latent());
  const Json report = json_of(plan.to_json());
  CHECK(report["resolved"]["rope"] == Json({{"layout", "separate"}, {"dtype", "bf16"}}));
  CHECK(report["resolved"]["cache_depth"] == 512);
  CHECK(report["systems"]["mha_operand"]["k"]["rope_row_width"] == 64);
  CHECK(report["systems"]["mha_operand"]["k"]["rope_base_offset_bytes"] == 0);
  CHECK(report["systems"]["tma_consumer_pipeline"]["k"]["full_kv_bytes"] == 64 * 576 * 2);
  for (const layout::Proof& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);

  const std::string text = to_json(generate(plan).manifest);
  const Manifest m = manifest_from_json(text);
  CHECK(m.k_row() == 512);
  CHECK(m.k_columns() == 512);
  REQUIRE(m.own_rope());
  CHECK(m.rope->depth == 64);
  CHECK(m.rope->dtype == DType::bf16);
  CHECK(m.params[0].role == "k");
  CHECK(m.params[1].role == "k_rope");
  CHECK(m.params[1].map.dims.size() == m.params[0].map.dims.size());
  CHECK(m.params[1].map.dims[0].box == 64);
  CHECK_NOTHROW(check_roles(m));
  CHECK(to_json(m) == text);

  for (const auto& [from, to] : {std::pair{R"("layout": "separate")", R"("layout": "apart")"},
                                 {R"("depth": 64)", R"("depth": 0)"},
                                 {R"("depth": 64)", R"("depth": 576)"},
                                 {R"("cache_depth": 512)", R"("cache_depth": 511)"},
                                 {R"("cache_depth": 512)", R"("cache_depth": 0)"}}) {
    std::string bad = text;
    const std::size_t at = bad.find(from);
    REQUIRE(at != std::string::npos);
    bad.replace(at, std::string(from).size(), to);
    CHECK_THROWS_AS(manifest_from_json(bad), Error);
  }
}

TEST_CASE("only the copies of 16-bit rows differ from those of one tensor") {
  Json apart = separate_latent(R"("name": "x", "num_qk_stages": 1)"), one = apart;
  one.erase("rope");
  const std::string a = body_of(apart), b = body_of(one);
  CHECK(count(a, "tma_load(smem_k") == 9);
  CHECK(count(a, "&k_map, mbar_k_full") == 8);
  CHECK(count(a, "73728, &k_rope_map, mbar_k_full") == 0);
  CHECK(count(a, "65536, &k_rope_map, mbar_k_full + k_stage * 8, 0, 0, ") == 1);
  CHECK(count(a, "tma_prefetch(&k_rope_map, 0, ") == 1);
  CHECK(count(a, ", 73728);") == count(b, ", 73728);"));  // bytes that a stage expects
  // From the consumer on nothing differs.
  const std::string consumer = "consumer warpgroup";
  REQUIRE(a.find(consumer) != std::string::npos);
  CHECK(a.substr(a.find(consumer)) == b.substr(b.find(consumer)));
}

TEST_CASE("kernels over 8-bit rows are those of rows with a tail") {
  for (const char* granularity : {"per_tensor", "per_head", "per_token"}) {
    CAPTURE(granularity);
    Json apart = separate_latent(R"("name": "x", "kv_dtype": "fp8_e4m3")"), tail = apart;
    apart["operand"]["quantization"]["granularity"] = granularity;
    tail["operand"] = apart["operand"];
    tail["rope"] = {{"layout", "tail"}};
    CHECK(body_of(apart) == body_of(tail));
  }
}

TEST_CASE("what a tensor of rotary columns does not go with is refused at its key") {
  CHECK(separate_refusal("").empty());
  CHECK(separate_refusal(R"("kv_dtype": "fp8_e4m3")").empty());
  CHECK(separate_refusal(R"("cache_depth": 576)").empty());
  CHECK(separate_refusal(R"("rope": {"padded_depth": 1024})").find("/rope/padded_depth = 1024: V28") == 0);
  CHECK(separate_refusal(R"("rope": {"dtype": "fp16"})").find("/rope/dtype = \"fp16\": not-yet") == 0);
  CHECK(separate_refusal(R"("dtype": "fp8_e4m3")").find("/dtype = \"fp8_e4m3\": not-yet") == 0);
  CHECK(separate_refusal(R"("v_from_k": false)").find("/v_from_k = false: not-yet") == 0);
  CHECK(separate_refusal(R"("cache_depth": 496)").find("must hold") != std::string::npos);
  CHECK(separate_refusal(R"("cache_depth": 576, "head_dim_offset": 16)")
            .find("/head_dim_offset = 16: not-yet") == 0);
  CHECK(separate_refusal(R"("rope_depth": null)").find("/rope = ") == 0);
  // Panels of 16-bit columns are whole; 8-bit ones, with fragments of their own, need 16.
  CHECK(separate_refusal(R"("depth": 560, "rope_depth": 80, "ov_depth": 480)")
            .find("/rope_depth = 80: not-yet") == 0);
  CHECK(separate_refusal(R"("depth": 560, "rope_depth": 80, "ov_depth": 480, "kv_dtype": "int8")").empty());
  CHECK(separate_refusal(R"("ov_depth": 528)").find("/ov_depth = 528: not-yet") == 0);
  // Prefill of such rows takes the tensor where decode does.
  CHECK(separate_refusal(R"("operation": "prefill")").empty());
  CHECK(separate_refusal(R"("operation": "prefill", "v_from_k": null)").find("/rope = ") == 0);
  const std::string line = separate_refusal(R"("target": "sm_80")");
  CHECK(line.find("/rope = {\"layout\":\"separate\"}: not-yet: schedule ") == 0);
  CHECK(line.find("does not take rope yet") != std::string::npos);
  CHECK(separate_refusal(R"("target": "gfx942")").empty());
}

TEST_CASE("a launch wants both tensors, of the same pages and rows") {
  const Manifest m = generate(plan_of(separate_latent())).manifest;
  const auto args_of = [](std::vector<std::int64_t> rope, DType type = DType::bf16) {
    AttentionArgs args;
    args.q = Tensor::dense(256, DType::bf16, {2, 16, 576});
    args.k = Tensor::dense(256, DType::bf16, {5, 64, 1, 512});
    args.o = Tensor::dense(256, DType::bf16, {2, 16, 512});
    args.lse = Tensor::dense(256, DType::f32, {16, 2});
    args.cu_seqlens_q = Tensor::dense(256, DType::i32, {3});
    args.page_table = Tensor::dense(256, DType::i32, {2, 3});
    args.seqlens_k = Tensor::dense(256, DType::i32, {2});
    args.max_seqlen_q = 1;
    args.k_rope = Tensor::dense(256, type, std::move(rope));
    return args;
  };
  const auto problem_with = [&](const AttentionArgs& args) -> std::string {
    try {
      make_problem(m, args);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto says = [&](const AttentionArgs& args, const char* what) {
    CHECK_MESSAGE(problem_with(args).find(what) != std::string::npos, what, " in ", problem_with(args));
  };
  CHECK(problem_with(args_of({5, 64, 1, 64})).empty());
  says(args_of({5, 64, 1, 80}), "k_rope has depth 80, the kernel takes 64");
  says(args_of({4, 64, 1, 64}), "k_rope has shape [4, 64, 1, 64], it must match k's [5, 64, 1, 512]");
  says(args_of({5, 64, 64}), "k_rope has shape [5, 64, 64]");
  says(args_of({5, 64, 1, 64}, DType::fp16), "k_rope is fp16, the kernel takes bf16");
  AttentionArgs args = args_of({5, 64, 1, 64});
  args.k_rope->strides[1] = 68;
  says(args, "k_rope has stride 68 in dimension 1");
  args = args_of({5, 64, 1, 64});
  args.k_rope->address = 0;
  says(args, "k_rope has no memory");
  args.k_rope.reset();
  says(args, "the kernel needs k_rope");
  args = args_of({5, 64, 1, 64});
  args.k = Tensor::dense(256, DType::bf16, {5, 64, 1, 576});
  says(args, "k has depth 576, the kernel takes 512");
  Json one = separate_latent();
  one.erase("rope");
  CHECK_THROWS_WITH_AS(make_problem(generate(plan_of(one)).manifest, args),
                       doctest::Contains("k_rope was given, but the kernel takes none"), Error);
}

TEST_CASE("two tensors of 16-bit columns in pages of any size, at the ends of tiles and pages" *
          doctest::test_suite("breadth")) {
  std::uint64_t seed = 60;
  for (const int page : {1, 16, 24, 64, 256}) {
    CAPTURE(page);
    Json config = separate_latent(R"("mask": "causal")");
    config["operand"]["page_size"] = page;
    check_at_tile_ends(plan_of(config), ++seed);
  }
}

TEST_CASE("two tensors in every operand kind, with masks, modifiers and widths" *
          doctest::test_suite("breadth")) {
  std::uint64_t seed = 70;
  for (
      const std::string more :
      {R"("operand": {"kind": "ragged", "page_size": null}, "mask": {"sliding_window": 70})",
       R"("operand": {"kind": "continuous", "page_size": null}, "dtype": "fp16", "score_mod": "alibi", "split_kv": 3)",
       R"("operand": {"kind": "contiguous", "page_size": null}, "sink": true, "score_mod": {"softcap": 20})",
       R"("group": 8, "mask": "causal", "cache_depth": 528)",
       // Two panels of rotary columns, the second one half; a wide tile.
       R"("depth": 224, "ov_depth": 64, "rope_depth": 96, "BN": 128, "operand": {"page_size": 32})",
       // Rows upright, and V of less than the columns before the rotary ones.
       R"("depth": 192, "ov_depth": 112, "BM": 64, "mask": "custom", "operand": {"kind": "ragged", "page_size": null})"}) {
    CAPTURE(more);
    check_at_tile_ends(plan_of(separate_latent(more)), ++seed);
  }
}

TEST_CASE("decode of sm_100a: two tensors of 16-bit columns are one tile" * doctest::test_suite("breadth")) {
  Json apart = separate_latent(R"("name": "x", "target": "sm_100a", "group": 16)"), one = apart;
  one.erase("rope");
  const std::string a = body_of(apart), b = body_of(one);
  CHECK(count(a, "tma_load(smem_k") == 9);
  CHECK(count(a, "&k_map, mbar_k_full") == 8);
  CHECK(count(a, "65536, &k_rope_map, mbar_k_full + k_stage * 24 + 16, 0, 0, ") == 1);
  std::uint64_t seed = 90;
  for (
      const std::string more :
      {R"("group": 16, "mask": "causal", "operand": {"page_size": 1})",
       R"("operand": {"kind": "ragged", "page_size": null}, "dtype": "fp16", "mask": {"sliding_window": 70})",
       R"("group": 16, "queries": 2, "operand": {"kind": "continuous", "page_size": null}, "split_kv": 3)",
       R"("depth": 224, "ov_depth": 64, "rope_depth": 96, "operand": {"kind": "contiguous", "page_size": null})"}) {
    CAPTURE(more);
    check_at_tile_ends(plan_of(separate_latent(R"("target": "sm_100a", )" + more)), ++seed);
  }
}

TEST_CASE("prefill of sm_90a: both parts of K in one tile, in every operand kind" *
          doctest::test_suite("breadth")) {
  std::uint64_t seed = 0;
  for (const char* more :
       {R"("operand": {"kind": "ragged"})", R"("operand": {"kind": "paged", "page_size": 16})",
        R"("operand": {"kind": "paged", "page_size": 33}, "dtype": "fp16")",
        R"("operand": {"kind": "continuous"})", R"("cluster": 2, "mask": "none")", R"("shared_ring": true)",
        R"("num_qk_stages": 3, "score_mod": "alibi")",
        R"("depth": 256, "rope_depth": 128, "mask": {"sliding_window": 100})"}) {
    CAPTURE(more);
    const Plan plan = plan_of(prefill(more));
    CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
    check_at_tile_ends(plan, seed++);
  }
  const auto refused = [&](const char* more, const char* text) {
    CAPTURE(more);
    CHECK_THROWS_WITH_AS(plan_of(prefill(more)), doctest::Contains(text), Error);
  };
  refused(R"("rope_depth": 48)", "multiples of 64");
  refused(R"("head_dim_offset": 64)", "/head_dim_offset");
  refused(R"("dtype": "fp8_e4m3")", "/rope/dtype");
  refused(R"("tma_fold": "chunk_outer")", "/tma_fold");
  refused(R"("v_from_k": true)", "/v_from_k");
}

TEST_CASE(
    "prefill of sm_90a: 8-bit columns beside 16-bit rotary ones, in every operand kind and with every scale" *
    doctest::test_suite("breadth")) {
  std::uint64_t seed = 40;
  for (
      const char* more :
      {R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})",
       R"("kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})",
       R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 33, "quantization": {"granularity": 64}},
          "dtype": "fp16")",
       R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity":
          "per_token", "layout": "head_major"}}, "mask": "none")",
       R"("kv_dtype": "int8", "operand": {"kind": "continuous", "quantization": {"granularity": "per_sequence"}},
          "score_mod": "alibi", "dtype": "fp16")",
       R"("kv_dtype": "fp8_e4m3", "operand": {"quantization": {"granularity": "per_tensor"}}, "mask": "none",
          "sink": true)",
       R"("kv_dtype": "fp8_e4m3", "num_kv_stages": 3, "BN": 48)",
       R"("kv_dtype": "int8", "depth": 256, "rope_depth": 128, "mask": {"sliding_window": 100},
          "operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}})"}) {
    CAPTURE(more);
    const Plan plan = plan_of(prefill(more));
    CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
    check_at_tile_ends(plan, seed++);
  }
}

TEST_CASE("prefill of sm_90a: rotary columns are multiplied behind what scales concern, in Q's type") {
  for (const char* quantization : {R"("per_tensor")", R"("per_token")", "64"}) {
    CAPTURE(quantization);
    const std::string scales =
        std::string(R"("operand": {"kind": "ragged", "quantization": {"granularity": )") + quantization +
        "}}";
    const std::string text = body_of(prefill(R"("kv_dtype": "fp8_e4m3", )" + scales));
    const auto last = text.rfind("k16_bf16_ss(s_acc");
    CHECK(count(text, "k16_bf16_ss(s_acc") == 4 * 3);
    CHECK(text.rfind("s_acc[0] *= k") < last);
    CHECK(text.rfind("k16_ss(s_acc") < last);
  }
}

TEST_CASE("8-bit columns beside 16-bit rotary ones, with every scale" * doctest::test_suite("breadth")) {
  std::uint64_t seed = 80;
  for (
      const std::string more :
      {R"("kv_dtype": "fp8_e4m3", "operand": {"quantization": {"granularity": "per_tensor"}}, "mask": "causal")",
       R"("kv_dtype": "int8", "operand": {"page_size": 24, "quantization": {"granularity": "per_token"}})",
       R"("kv_dtype": "fp8_e4m3", "dtype": "fp16", "operand": {"page_size": 1, "quantization": {"granularity": "per_head"}})",
       R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "page_size": null}, "score_mod": {"softcap": 20})",
       R"("kv_dtype": "int8", "operand": {"kind": "continuous", "page_size": null, "quantization": {"granularity": "per_token", "layout": "head_major"}})",
       R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "contiguous", "page_size": null, "quantization": {"granularity": "per_token"}}, "depth": 160, "ov_depth": 80, "rope_depth": 48, "BM": 32)"}) {
    CAPTURE(more);
    check_at_tile_ends(plan_of(separate_latent(more)), ++seed);
  }
}

TEST_CASE("each tensor has strides of its own: views of one cache give the bits of one tensor") {
  constexpr std::int64_t kDepth = 192, kRope = 64, kV = 128, kHeads = 2, kPages = 5, kPage = 16;
  Json apart = separate_latent(
           R"("depth": 192, "ov_depth": 128, "mask": "causal", "operand": {"page_size": 16})"),
       one = apart;
  one.erase("rope");
  std::vector<float> cache = bf16_values(kPages * kPage * kHeads * kDepth, 0);
  // Rotary columns once more, heads before rows, with room between pages.
  constexpr std::int64_t kRopePage = kHeads * kPage * kRope + 24;
  std::vector<float> rope(kPages * kRopePage, std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t page = 0; page < kPages; ++page)
    for (std::int64_t row = 0; row < kPage; ++row)
      for (std::int64_t head = 0; head < kHeads; ++head)
        for (std::int64_t d = 0; d < kRope; ++d)
          rope[static_cast<std::size_t>(page * kRopePage + (head * kPage + row) * kRope + d)] =
              cache[static_cast<std::size_t>(((page * kPage + row) * kHeads + head) * kDepth + kDepth -
                                             kRope + d)];
  const DeviceBuffer d_q = upload(encode(DType::bf16, bf16_values(3 * 8 * kDepth, 1))),
                     d_cache = upload(encode(DType::bf16, cache)), d_rope = upload(encode(DType::bf16, rope)),
                     d_offsets = ints({0, 1, 3}), d_table = ints({4, 1, 0, 3, 2, 0}),
                     d_lengths = ints({17, 40});
  const auto run = [&](const Json& config, const auto& set_keys) {
    DeviceBuffer d_o = emulated().allocate(3 * 8 * kV * 2), d_lse = emulated().allocate(3 * 8 * 4);
    AttentionArgs args;
    args.q = Tensor::dense(d_q.address(), DType::bf16, {3, 8, kDepth});
    args.o = Tensor::dense(d_o.address(), DType::bf16, {3, 8, kV});
    args.lse = Tensor::dense(d_lse.address(), DType::f32, {8, 3});
    args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {3});
    args.page_table = Tensor::dense(d_table.address(), DType::i32, {2, 3});
    args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {2});
    args.max_seqlen_q = 2, args.max_seqlen_k = 40;
    args.k = Tensor::dense(d_cache.address(), DType::bf16, {kPages, kPage, kHeads, kDepth});
    set_keys(args);
    const auto report = emulated().load(generate(plan_of(config)))->launch(args);
    for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    std::vector<std::byte> o(d_o.size());
    d_o.read(o);
    return o;
  };
  const std::vector<std::byte> wanted = run(one, [](AttentionArgs&) {});
  const auto first_columns = [](AttentionArgs& args) { args.k.shape.back() = kDepth - kRope; };
  CHECK(run(apart, [&](AttentionArgs& args) {
          args.k_rope = args.k;
          args.k_rope->address += 2 * (kDepth - kRope);
          args.k_rope->shape.back() = kRope;
          first_columns(args);
        }) == wanted);
  CHECK(run(apart, [&](AttentionArgs& args) {
          first_columns(args);
          args.k_rope = Tensor{d_rope.address(),
                               DType::bf16,
                               {kPages, kPage, kHeads, kRope},
                               {kRopePage, kRope, kPage * kRope, 1}};
        }) == wanted);
}

TEST_CASE("new rows go to both pools, and nothing else changes") {
  // Three new rows at the end of 18 tokens, over the border of two pages.
  constexpr std::int64_t kRows = 3, kPages = 4, kPage = 8, kDepth = 192, kRope = 64, kNope = 128;
  const std::vector<std::int32_t> table{2, 0, 3};
  for (const std::string more : {R"("kv_dtype": null)", R"("kv_dtype": "fp8_e4m3", "cache_depth": 144)"}) {
    CAPTURE(more);
    const Json json =
        separate_latent(R"("depth": 192, "ov_depth": 128, "operand": {"page_size": 8}, )" + more);
    const Config resolved = plan_of(json).resolved();
    const DType stored = *resolved.kv_dtype;
    const std::int64_t row_depth = *resolved.cache_depth;
    Workload work;
    work.shape.depth = kDepth;
    work.k = random_normal(static_cast<std::size_t>(kRows * kDepth), 1, 0);
    round_to(DType::bf16, work.k);
    const std::vector<std::byte> new_rows = encode(DType::bf16, work.k);
    store_keys(resolved, true, work);
    CHECK(work.rope_depth == kRope);
    const KeyColumns columns = split_keys(work.k, kDepth, kRope);
    const auto pool_of = [&](const std::vector<std::byte>& rows, std::size_t bytes, std::size_t row_bytes) {
      std::vector<std::byte> pool(static_cast<std::size_t>(kPages * kPage) * row_bytes, std::byte{0xa5});
      for (std::size_t i = 0; i < kRows; ++i) {
        const std::size_t token = 15 + i;
        const std::size_t at = static_cast<std::size_t>(table[token / kPage]) * kPage + token % kPage;
        std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i * bytes), bytes,
                    pool.begin() + static_cast<std::ptrdiff_t>(at * row_bytes));
      }
      return pool;
    };
    const std::size_t size = size_of(stored);
    const std::vector<std::byte> k_wanted = pool_of(encode(stored, columns.plain), kNope * size,
                                                    static_cast<std::size_t>(row_depth) * size),
                                 rope_wanted =
                                     pool_of(encode(DType::bf16, columns.rope), kRope * 2, kRope * 2);

    const KernelSource source = make_append_kernel(parse_config(write_json(json), "test"));
    const auto kernel = emulated().load(source);
    CHECK(kernel->binary().warnings.empty());
    CHECK_NOTHROW(check_roles(manifest_from_json(to_json(source.manifest))));
    DeviceBuffer k = emulated().allocate(k_wanted.size()), k_rope = emulated().allocate(rope_wanted.size());
    k.fill(std::byte{0xa5});
    k_rope.fill(std::byte{0xa5});
    const DeviceBuffer d_new = upload(new_rows), d_table = ints(table), d_lengths = ints({18}),
                       d_offsets = ints({0, 3});
    AppendArgs args;
    args.new_k = Tensor::dense(d_new.address(), DType::bf16, {kRows, 1, kDepth});
    args.k = Tensor::dense(k.address(), stored, {kPages, kPage, 1, row_depth});
    args.page_table = Tensor::dense(d_table.address(), DType::i32, {1, 3});
    args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {1});
    args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {2});
    args.max_rows = 3;
    CHECK_THROWS_WITH_AS(append_kv(*kernel, args), doctest::Contains("the kernel needs k_rope"), Error);
    args.k_rope = Tensor::dense(k_rope.address(), DType::bf16, {kPages, kPage, 1, kRope});
    const auto report = append_kv(*kernel, args);
    REQUIRE(report);
    for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    const auto content = [](const DeviceBuffer& buffer) {
      std::vector<std::byte> bytes(buffer.size());
      buffer.read(bytes);
      return bytes;
    };
    CHECK(content(k) == k_wanted);
    CHECK(content(k_rope) == rope_wanted);
  }
}
