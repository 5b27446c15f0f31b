// Rows that tensor copies bring by number, four an instruction (`gather4`, sm_100a): what is planned and refused, pools
// whose pages or heads lie anywhere, page numbers that are none, results at the ends of tiles, and a page table as the
// list of rows that a query reads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

Json gather4_config(const char* operation, const std::string& more = "") {
  Json config = json_of(R"({"target": "sm_100a", "dtype": "bf16", "depth": 128, "mask": "causal", "lse": true,
      "operand": {"kind": "paged", "page_size": 4}})");
  config["operation"] = operation;
  config.merge_patch(json_of("{" + more + "}"));
  return config;
}
constexpr const char* kLatent = R"("depth": 576, "ov_depth": 512, "v_from_k": true, "group": 16)";
Json gathered_latent(const std::string& more) {
  return gather4_config("decode", std::string(kLatent) + more);
}

constexpr std::int64_t kGatherDepth = 128, kGatherHeads = 2, kGatherQueryHeads = 4, kGatherPages = 12,
                       kGatherRows = 5;

/// Elements from page to page, row to row and head to head, of pages of `rows`.
struct GatherPool {
  std::int64_t rows, page, row, head;
};
GatherPool dense(std::int64_t rows) {
  return {rows, rows * kGatherHeads * kGatherDepth, kGatherHeads * kGatherDepth, kGatherDepth};
}

/// The rows of a dense pool where `pool` has them, NaN everywhere else.
DeviceBuffer gathered_pool(const std::vector<float>& from, const GatherPool& pool) {
  const std::int64_t end = (kGatherPages - 1) * pool.page + (pool.rows - 1) * pool.row +
                           (kGatherHeads - 1) * pool.head + kGatherDepth;
  std::vector<float> out(static_cast<std::size_t>(end), std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t page = 0; page < kGatherPages; ++page)
    for (std::int64_t row = 0; row < pool.rows; ++row)
      for (std::int64_t head = 0; head < kGatherHeads; ++head)
        for (std::int64_t d = 0; d < kGatherDepth; ++d)
          out[static_cast<std::size_t>(page * pool.page + row * pool.row + head * pool.head + d)] =
              from[static_cast<std::size_t>(((page * pool.rows + row) * kGatherHeads + head) * kGatherDepth +
                                            d)];
  return upload(encode(DType::bf16, out));
}

const std::vector<std::int32_t> kGatherTable{4, 1, 0, 11, 9, 10, 3, 2, 6, 7, 5, 8};

/// O of two sequences, of three query rows and two, whose table has the pages `table`, six each.
std::vector<std::byte> gather_output(const Json& config, const GatherPool& k, const GatherPool& v,
                                     const std::vector<std::int32_t>& table = kGatherTable) {
  const std::int64_t rows = k.rows;
  const DeviceBuffer d_q = upload(
                         encode(DType::bf16, bf16_values(kGatherRows * kGatherQueryHeads * kGatherDepth, 1))),
                     d_k = gathered_pool(bf16_values(kGatherPages * dense(rows).page, 2), k),
                     d_v = gathered_pool(bf16_values(kGatherPages * dense(rows).page, 3), v),
                     d_offsets = ints({0, 2, kGatherRows}), d_table = ints(table),
                     d_lengths =
                         ints({static_cast<std::int32_t>(4 * rows + 1), static_cast<std::int32_t>(6 * rows)});
  DeviceBuffer d_o = emulated().allocate(kGatherRows * kGatherQueryHeads * kGatherDepth * 2),
               d_lse = emulated().allocate(kGatherRows * kGatherQueryHeads * 4);
  AttentionArgs args;
  args.q = Tensor::dense(d_q.address(), DType::bf16, {kGatherRows, kGatherQueryHeads, kGatherDepth});
  args.k = Tensor{d_k.address(),
                  DType::bf16,
                  {kGatherPages, rows, kGatherHeads, kGatherDepth},
                  {k.page, k.row, k.head, 1}};
  args.v = Tensor{d_v.address(),
                  DType::bf16,
                  {kGatherPages, rows, kGatherHeads, kGatherDepth},
                  {v.page, v.row, v.head, 1}};
  args.o = Tensor::dense(d_o.address(), DType::bf16, {kGatherRows, kGatherQueryHeads, kGatherDepth});
  args.lse = Tensor::dense(d_lse.address(), DType::f32, {kGatherQueryHeads, kGatherRows});
  args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {3});
  args.page_table = Tensor::dense(d_table.address(), DType::i32, {2, 6});
  args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {2});
  args.max_seqlen_q = 3, args.max_seqlen_k = 6 * rows;
  const auto report = emulated().load(generate(plan_of(config)))->launch(args);
  for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  std::vector<std::byte> o(d_o.size());
  d_o.read(o);
  return o;
}

Json with_page(const char* operation, std::int64_t rows, bool gathered) {
  return gather4_config(operation, R"("operand": {"page_size": )" + std::to_string(rows) + "}" +
                                       (gathered ? R"(, "gather4": {})" : ""));
}

}  // namespace

TEST_CASE("rows that are gathered: maps, instructions, resolved members") {
  for (const char* operation : {"decode", "prefill"}) {
    CAPTURE(operation);
    const Plan plan = plan_of(with_page(operation, 16, true));
    const Json report = json_of(plan.to_json());
    CHECK(report["resolved"]["gather4"] == Json({{"tile_height", 4},
                                                 {"tile_width", 128},
                                                 {"tma_dtype", "bf16"},
                                                 {"swizzle", "128B"},
                                                 {"l2_promotion", "none"}}));
    CHECK(report["systems"]["mha_operand"]["k"]["gather4"] == Json({{"box_width", 64}, {"issues", 64}}));
    const KernelSource source = generate(plan);
    CHECK(count(source.text, "&k_map, mbar_k_full") == count(source.text, "tma_gather4(smem_k"));
    CHECK(count(source.text, "&v_map, mbar_v_full") == count(source.text, "tma_gather4(smem_v"));
    const Manifest m = manifest_from_json(to_json(source.manifest));
    const auto k =
        std::find_if(m.params.begin(), m.params.end(), [](const auto& p) { return p.role == "k"; });
    REQUIRE(k->map.dims.size() == 2);
    CHECK(k->map.dims[0].box == 64);
    CHECK(k->map.dims[1].box == 1);
    CHECK(k->map.dims[1].axis == "gathered");
    CHECK(m.takes("v_page_rows"));
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
  }
  // the tile of blackwell.md: 64 rows of 576 columns
  const Json report =
      json_of(plan_of(gathered_latent(
                          R"(, "gather4": {"tile_height": 64, "tile_width": 576, "l2_promotion": "256B"})"))
                  .to_json());
  CHECK(report["systems"]["mha_operand"]["k"]["gather4"] == Json({{"box_width", 64}, {"issues", 144}}));
  CHECK(report["resolved"]["gather4"]["l2_promotion"] == "256B");
  CHECK(make_plan(parse_config(write_json(report["resolved"]), "again")).to_json() == report.dump(2));
}

TEST_CASE("pages that leave boxes of fewer than four rows are gathered without the key") {
  for (const char* operation : {"decode", "prefill"})
    for (const int rows : {1, 2, 3, 4, 5, 6, 8, 12, 64}) {
      CAPTURE(operation);
      CAPTURE(rows);
      const std::string text = generate(plan_of(with_page(operation, rows, false))).text;
      CHECK((count(text, "tma_gather4(smem_k") > 0) == (rows % 4 != 0));
    }
}

TEST_CASE("members of gather4 that the copies are not") {
  const auto said = [](const std::string& members, const std::string& more = "") {
    return refusal(gather4_config("decode", R"("gather4": {)" + members + "}" + more));
  };
  const auto has = [](const std::string& text, const std::string& what) {
    CHECK_MESSAGE(text.find(what) != std::string::npos, text);
  };
  has(said(R"("tile_height": 8)"), "/gather4/tile_height");
  has(said(R"("tile_height": 8)"), "4, 128");
  has(said(R"("tile_width": 64)"), "whole rows of K are gathered");
  has(said(R"("tile_stride": 256)"), "the tensors of a launch say how far their rows lie apart");
  has(said(R"("tma_dtype": "int64")"), "elements are copied as the cache has them");
  has(said(R"("swizzle": "64B")"), "128B");
  has(said(R"("swizzle": "128B")", R"(, "kv_dtype": "fp8_e4m3")"), "none");
  has(said("", R"(, "operand": {"kind": "contiguous", "page_size": null})"),
      "rows are gathered by a page table");
  has(said("", R"(, "kv_dtype": "int8", "depth": 80)"), "multiples of 32");
  CHECK(said("", R"(, "kv_dtype": "int8", "depth": 96)").empty());
}

TEST_CASE("a pool that is gathered has its pages and heads anywhere" * doctest::test_suite("breadth")) {
  for (const char* operation : {"decode", "prefill"})
    for (const std::int64_t rows : {4, 8}) {
      CAPTURE(operation);
      CAPTURE(rows);
      const GatherPool plain = dense(rows);
      const GatherPool heads_first{rows, plain.page, kGatherDepth, rows * kGatherDepth};
      const GatherPool apart{rows, 6 * plain.page, plain.row, plain.head};  // K, V and layers in turn
      const GatherPool odd{rows, plain.page + 3 * kGatherDepth, plain.row, plain.head};
      const GatherPool rows_first{rows, plain.row, kGatherPages * plain.row, plain.head};
      const auto wanted = gather_output(with_page(operation, rows, false), plain, plain);
      const Json config = with_page(operation, rows, true);
      CHECK(gather_output(config, plain, plain) == wanted);
      CHECK(gather_output(config, heads_first, apart) == wanted);
      CHECK(gather_output(config, odd, heads_first) == wanted);
      CHECK(gather_output(config, rows_first, odd) == wanted);
    }
  // pages of one row are rows, however far apart
  const Json one = with_page("decode", 1, false);
  const auto wanted = gather_output(one, dense(1), dense(1));
  const GatherPool wide{1, 5 * kGatherDepth, 77, 2 * kGatherDepth};
  CHECK(gather_output(one, wide, dense(1)) == wanted);
  CHECK(gather_output(one, dense(1), wide) == wanted);
}

TEST_CASE("page numbers that are none are gathered as zeros") {
  for (const char* operation : {"decode", "prefill"})
    for (const std::int32_t none :
         {std::numeric_limits<std::int32_t>::max(), -1, 12, 1 << 29, -(1 << 30), 357913942}) {
      CAPTURE(none);
      std::vector<std::int32_t> table = kGatherTable;
      table[4] = none;
      const GatherPool apart{4, 6 * dense(4).page, dense(4).row, dense(4).head};
      CHECK(gather_output(with_page(operation, 4, true), apart, apart, table) ==
            gather_output(with_page(operation, 4, false), apart, apart, table));
    }
}

TEST_CASE("rows that are gathered, at the ends of tiles" * doctest::test_suite("breadth")) {
  std::uint64_t seed = 60;
  const auto check = [&](const Json& config) {
    CAPTURE(write_json(config));
    check_at_tile_ends(plan_of(config), ++seed);
  };
  for (const int rows : {1, 6, 64}) {
    const std::string page = R"("gather4": {}, "operand": {"page_size": )" + std::to_string(rows) + "}";
    check(gather4_config("decode", page));
    check(gather4_config("prefill", page));
    check(gathered_latent(", " + page));
  }
  for (const int rows : {2, 3}) check(with_page("decode", rows, true));
  constexpr const char* kOne = R"("operand": {"page_size": 1})";
  check(gather4_config(
      "decode", std::string(kOne) + R"(, "depth": 80, "dtype": "fp16", "mask": {"sliding_window": 50})"));
  check(gather4_config("decode",
                       std::string(kOne) + R"(, "depth": 192, "ov_depth": 128, "group": 8, "queries": 4)"));
  check(gather4_config("prefill", std::string(kOne) + R"(, "depth": 256, "lse": false)"));
  check(gather4_config(
      "prefill", R"("operand": {"page_size": 3}, "dtype": "fp8_e4m3", "out_dtype": "bf16", "depth": 64)"));
  for (const int rows : {1, 2, 16}) {
    const std::string page = R"("gather4": {}, "operand": {"page_size": )" + std::to_string(rows) +
                             R"(, "quantization": {"granularity": "per_token"}})";
    check(gather4_config("decode", page + R"(, "kv_dtype": "fp8_e4m3")"));
    check(gathered_latent(", " + page + R"(, "kv_dtype": "int8")"));
  }
}

TEST_CASE("rotary columns beside gathered rows are gathered, too" * doctest::test_suite("breadth")) {
  std::uint64_t seed = 90;
  constexpr const char* kBytes = R"(, "kv_dtype": "fp8_e4m3")";
  for (const char* rope : {R"(, "rope_depth": 64, "rope": {"layout": "separate"})",
                           R"(, "rope_depth": 64, "rope": {"layout": "tail"})"})
    for (const char* bytes : {"", kBytes}) {
      const std::string text(rope);
      if (*bytes == 0 && text.find("tail") != std::string::npos) continue;
      for (const int rows : {1, 6}) {
        const Json config =
            gathered_latent(text + bytes + R"(, "operand": {"page_size": )" + std::to_string(rows) + "}");
        CAPTURE(write_json(config));
        const std::string source = generate(plan_of(config)).text;
        CHECK(count(source, "&k_rope_map, ") == 1);
        CHECK(count(source, "tma_load") == 0);
        check_at_tile_ends(plan_of(config), ++seed);
      }
    }
}

TEST_CASE("a page table of pages of one row is the list of rows that a sequence reads") {
  constexpr std::int64_t kPool = 300, kColumns = 576, kValues = 512, kQ = 16, kBatch = 3, kMost = 150;
  const std::vector<std::int32_t> lengths{150, 7, 64};
  std::vector<std::int32_t> table(kBatch * kMost, -1);  // entries past a list are never read
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t i = 0; i < lengths[static_cast<std::size_t>(b)]; ++i)
      table[static_cast<std::size_t>(b * kMost + i)] =
          static_cast<std::int32_t>((i * 97 + b * 31 + i * i) % kPool);  // in any order
  std::vector<float> pool = bf16_values(kPool * kColumns, 5);
  const std::vector<float> q = bf16_values(kBatch * kQ * kColumns, 6);
  // Rows that no list names hold what must not count.
  for (std::int64_t row = 0; row < kPool; ++row)
    if (std::find(table.begin(), table.end(), static_cast<std::int32_t>(row)) == table.end())
      std::fill_n(pool.begin() + row * kColumns, kColumns, std::numeric_limits<float>::quiet_NaN());
  const DeviceBuffer d_q = upload(encode(DType::bf16, q)), d_k = upload(encode(DType::bf16, pool)),
                     d_table = ints(table), d_lengths = ints(lengths);
  const std::vector<std::int32_t> offsets{0, 1, 2, 3};
  const DeviceBuffer d_offsets = ints(offsets);
  DeviceBuffer d_o = emulated().allocate(kBatch * kQ * kValues * 2);
  AttentionArgs args;
  args.q = Tensor::dense(d_q.address(), DType::bf16, {kBatch, kQ, kColumns});
  args.k = Tensor::dense(d_k.address(), DType::bf16, {kPool, 1, 1, kColumns});
  args.o = Tensor::dense(d_o.address(), DType::bf16, {kBatch, kQ, kValues});
  args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {kBatch + 1});
  args.page_table = Tensor::dense(d_table.address(), DType::i32, {kBatch, kMost});
  args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {kBatch});
  args.max_seqlen_q = 1, args.max_seqlen_k = kMost;
  const Plan plan =
      plan_of(gathered_latent(R"(, "operand": {"page_size": 1}, "mask": "none", "lse": false)"));
  const auto report = emulated().load(generate(plan))->launch(args);
  for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  std::vector<std::byte> bytes(d_o.size());
  d_o.read(bytes);
  const std::vector<float> o = decode(DType::bf16, bytes);
  double largest = 0, size = 0;
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t h = 0; h < kQ; ++h) {
      std::vector<double> weights;
      double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
      const auto row = [&](std::int64_t i) {
        return pool.data() + table[static_cast<std::size_t>(b * kMost + i)] * kColumns;
      };
      const std::int64_t keys = lengths[static_cast<std::size_t>(b)];
      for (std::int64_t i = 0; i < keys; ++i) {
        double score = 0;
        for (std::int64_t d = 0; d < kColumns; ++d)
          score += double{q[static_cast<std::size_t>((b * kQ + h) * kColumns + d)]} * double{row(i)[d]};
        weights.push_back(score / std::sqrt(double{kColumns}));
        maximum = std::max(maximum, weights.back());
      }
      for (double& w : weights) w = std::exp(w - maximum), sum += w;
      for (std::int64_t d = 0; d < kValues; ++d) {
        double wanted = 0;
        for (std::int64_t i = 0; i < keys; ++i)
          wanted += weights[static_cast<std::size_t>(i)] * double{row(i)[d]};
        wanted /= sum;
        largest = std::max(
            largest, std::abs(wanted - double{o[static_cast<std::size_t>((b * kQ + h) * kValues + d)]}));
        size = std::max(size, std::abs(wanted));
      }
    }
  CHECK(largest < 0.01 * size);
}
