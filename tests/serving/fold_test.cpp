// Tensor copies of all panels of a page (`tma_fold` chunk_inner) on sm_90a: what is planned and refused, pools whose
// pages lie apart or have their heads before their rows, page numbers that are none, and results at the ends of tiles.
#include <doctest/doctest.h>

#include <algorithm>
#include <kiln/kiln.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/report.hpp"
#include "generator/schedules/schedule.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
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

Json fold_config(const char* operation, const std::string& more = "") {
  Json config = json_of(R"({"target": "sm_90a", "dtype": "bf16", "depth": 128, "mask": "causal", "lse": true,
      "operand": {"kind": "paged", "page_size": 16}, "tma_fold": "chunk_inner"})");
  config["operation"] = operation;
  config.merge_patch(json_of("{" + more + "}"));
  return config;
}

constexpr std::int64_t kFoldDepth = 128, kFoldHeads = 2, kFoldQueryHeads = 4, kFoldPages = 7, kFoldPage = 16,
                       kFoldRows = 5;

/// Elements from page to page, row to row and head to head.
struct FoldPool {
  std::int64_t page, row, head;
};
constexpr FoldPool kDense{kFoldPage * kFoldHeads * kFoldDepth, kFoldHeads* kFoldDepth, kFoldDepth};

/// The rows of a dense pool where `pool` has them, NaN everywhere else.
DeviceBuffer folded_pool(const std::vector<float>& dense, const FoldPool& pool) {
  std::vector<float> out(static_cast<std::size_t>(kFoldPages * pool.page),
                         std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t page = 0; page < kFoldPages; ++page)
    for (std::int64_t row = 0; row < kFoldPage; ++row)
      for (std::int64_t head = 0; head < kFoldHeads; ++head)
        for (std::int64_t d = 0; d < kFoldDepth; ++d)
          out[static_cast<std::size_t>(page * pool.page + row * pool.row + head * pool.head + d)] =
              dense[static_cast<std::size_t>(((page * kFoldPage + row) * kFoldHeads + head) * kFoldDepth +
                                             d)];
  return upload(encode(DType::bf16, out));
}

/// O of two sequences whose table has the pages `table`, K and V in pools of those forms.
std::vector<std::byte> fold_output(const Json& config, const FoldPool& k, const FoldPool& v,
                                   const std::vector<std::int32_t>& table) {
  const DeviceBuffer d_q = upload(
                         encode(DType::bf16, bf16_values(kFoldRows * kFoldQueryHeads * kFoldDepth, 1))),
                     d_k = folded_pool(bf16_values(kFoldPages * kDense.page, 2), k),
                     d_v = folded_pool(bf16_values(kFoldPages * kDense.page, 3), v),
                     d_offsets = ints({0, 2, kFoldRows}), d_table = ints(table), d_lengths = ints({17, 40});
  DeviceBuffer d_o = emulated().allocate(kFoldRows * kFoldQueryHeads * kFoldDepth * 2),
               d_lse = emulated().allocate(kFoldRows * kFoldQueryHeads * 4);
  AttentionArgs args;
  args.q = Tensor::dense(d_q.address(), DType::bf16, {kFoldRows, kFoldQueryHeads, kFoldDepth});
  args.k = Tensor{d_k.address(),
                  DType::bf16,
                  {kFoldPages, kFoldPage, kFoldHeads, kFoldDepth},
                  {k.page, k.row, k.head, 1}};
  args.v = Tensor{d_v.address(),
                  DType::bf16,
                  {kFoldPages, kFoldPage, kFoldHeads, kFoldDepth},
                  {v.page, v.row, v.head, 1}};
  args.o = Tensor::dense(d_o.address(), DType::bf16, {kFoldRows, kFoldQueryHeads, kFoldDepth});
  args.lse = Tensor::dense(d_lse.address(), DType::f32, {kFoldQueryHeads, kFoldRows});
  args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {3});
  args.page_table = Tensor::dense(d_table.address(), DType::i32, {2, 3});
  args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {2});
  args.max_seqlen_q = 3, args.max_seqlen_k = 40;
  const auto report = emulated().load(generate(plan_of(config)))->launch(args);
  for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  std::vector<std::byte> o(d_o.size());
  d_o.read(o);
  return o;
}

const std::vector<std::int32_t> kFoldTable{4, 1, 0, 3, 2, 6};

}  // namespace

TEST_CASE("one copy of a page brings all its panels") {
  for (const char* operation : {"decode", "prefill"}) {
    CAPTURE(operation);
    const Plan plan = plan_of(fold_config(operation));
    const auto systems = json_of(plan.to_json())["systems"];
    for (const char* tensor : {"k", "v"}) {
      CHECK(systems["mha_operand"][tensor]["fold_chunks"] == 2);
      CHECK(systems["tma_consumer_pipeline"][tensor]["page_dense"] == true);
    }
    const std::string folded = generate(plan).text,
                      plain = generate(plan_of(fold_config(operation, R"("tma_fold": "none")"))).text;
    CHECK(2 * count(folded, "_map, k_full") == count(plain, "_map, k_full"));
    CHECK(2 * count(folded, "_map, v_full") == count(plain, "_map, v_full"));
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
  }
}

TEST_CASE("a pool has its pages anywhere at multiples of eight rows, heads after rows or before them") {
  constexpr FoldPool kHeadsFirst{kDense.page, kFoldDepth, kFoldPage * kFoldDepth};
  constexpr FoldPool kApart{6 * kDense.page, kDense.row, kDense.head};  // K, V and layers in turn
  constexpr FoldPool kHeadsFirstApart{2 * kDense.page, kFoldDepth, kFoldPage * kFoldDepth};
  constexpr FoldPool kWideRows{(kFoldPage + 8) * 3 * kFoldDepth, 3 * kFoldDepth,
                               kFoldDepth};  // of more heads than are read
  for (const char* operation : {"decode", "prefill"}) {
    CAPTURE(operation);
    const Json config = fold_config(operation);
    const auto wanted =
        fold_output(fold_config(operation, R"("tma_fold": "none")"), kDense, kDense, kFoldTable);
    CHECK(fold_output(config, kDense, kDense, kFoldTable) == wanted);
    CHECK(fold_output(config, kHeadsFirst, kApart, kFoldTable) == wanted);
    CHECK(fold_output(config, kApart, kHeadsFirstApart, kFoldTable) == wanted);
    CHECK(fold_output(config, kWideRows, kHeadsFirst, kFoldTable) == wanted);
    constexpr FoldPool kFourRows{kDense.page + 4 * kDense.row, kDense.row, kDense.head};
    std::string said;
    try {
      fold_output(config, kDense, kFourRows, kFoldTable);
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK_MESSAGE(
        said.find("v has pages 5120 elements apart and rows 256 apart; a kernel with tma_fold chunk_inner "
                  "needs pages a multiple of 8 rows apart: 6144") != std::string::npos,
        said);
  }
}

TEST_CASE("page numbers that are none read as zeros") {
  for (const char* operation : {"decode", "prefill"}) {
    const Json plain = fold_config(operation, R"("tma_fold": "none")"), folded = fold_config(operation);
    // 2^29 and 2^31 / 6 times the eights between pages wrap to a page that there is.
    for (const std::int32_t none :
         {std::numeric_limits<std::int32_t>::max(), -1, 1 << 29, -(1 << 30), 357913942}) {
      CAPTURE(none);
      std::vector<std::int32_t> table = kFoldTable;
      table[4] = none;
      constexpr FoldPool kApart{6 * kDense.page, kDense.row, kDense.head};
      CHECK(fold_output(folded, kApart, kApart, table) == fold_output(plain, kApart, kApart, table));
    }
  }
}

TEST_CASE("pages folded, at the ends of tiles" * doctest::test_suite("breadth")) {
  std::uint64_t seed = 40;
  for (const char* more : {"", R"("depth": 256)",
                           R"("dtype": "fp16", "depth": 192, "ov_depth": 128, "operand": {"page_size": 8})",
                           R"("operand": {"page_size": 24}, "mask": {"sliding_window": 50})",
                           R"("depth": 256, "num_qk_stages": 2, "operand": {"page_size": 32}, "lse": false)",
                           R"("depth": 192, "cache_depth": 256, "head_dim_offset": 40)"}) {
    CAPTURE(more);
    for (const char* operation : {"decode", "prefill"}) {
      CAPTURE(operation);
      check_at_tile_ends(plan_of(fold_config(operation, more)), ++seed);
    }
  }
  // Keys of FP8 beside a Q of FP8; query rows on the M side, by two warpgroups past 256 columns; one ring.
  constexpr const char* kBytes =
      R"("dtype": "fp8_e4m3", "kv_dtype": "fp8_e4m3", "out_dtype": "bf16", "depth": 256, "lse": false)";
  for (const char* operation : {"decode", "prefill"})
    check_at_tile_ends(plan_of(fold_config(operation, kBytes)), ++seed);
  for (const char* more :
       {R"("BM": 64)", R"("BM": 64, "depth": 512, "lse": false)", R"("shared_ring": true)"})
    check_at_tile_ends(plan_of(fold_config("decode", more)), ++seed);
  for (const char* more : {R"("depth": 512, "lse": false)", R"("shared_ring": true, "BN": 64)"})
    check_at_tile_ends(plan_of(fold_config("prefill", more)), ++seed);
}

TEST_CASE("tiles that threads read, or that share a slot, have no such fold") {
  const auto said = [](const char* operation, const std::string& more) {
    return refusal(fold_config(operation, more));
  };
  constexpr const char* kByThreads = "threads widen the 8-bit rows, and read them panel by panel";
  CHECK(said("decode", R"("kv_dtype": "fp8_e4m3", "depth": 256)").find(kByThreads) != std::string::npos);
  CHECK(said("prefill", R"("kv_dtype": "int8", "depth": 256)").find(kByThreads) != std::string::npos);
  CHECK(said("decode", R"("depth": 576, "ov_depth": 512, "v_from_k": true)").find("V lies in K's stages") !=
        std::string::npos);
  CHECK(said("decode", R"("depth": 64)").find("at least two chunks") != std::string::npos);
  CHECK(said("decode", R"("operand": {"page_size": 128})").find("a page shorter than the tile") !=
        std::string::npos);
  CHECK(said("prefill", R"("operand": {"page_size": 12})").find("a multiple of 8 tokens, not 12") !=
        std::string::npos);
}
