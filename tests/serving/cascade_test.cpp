// Shared-prefix decode on the emulated device: the three launches give what one launch over whole sequences
// gives, with no finding, while rows of pages past a sequence hold NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <kiln/kiln.hpp>

#include "tests/serving/emulated.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/problem/workload.hpp"

using namespace kiln;
using kiln::test::download;
using kiln::test::emulated;
using kiln::test::upload;

namespace {

constexpr std::int64_t kCascadeHeadsQ = 4, kCascadeHeadsKv = 2, kCascadeDepth = 64, kCascadePage = 16,
                       kCascadePages = 64, kCascadeMaxPages = 16;

Config cascade_config(const std::string& target, const std::string& keys) {
  const std::string text = R"({"target": ")" + target +
                           R"(", "operation": "decode", "dtype": "bf16", "depth": 64, )" + keys +
                           R"("lse": true, "operand": {"kind": "paged", "page_size": 16}})";
  return parse_config(text, "test");
}

float widen(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &word, 4);
  return value;
}

// Seven sequences: three that share 6 pages, one alone, one empty, two that share 2 pages.
struct Batch {
  std::vector<std::int64_t> q{1, 2, 1, 1, 1, 1, 3}, k{97, 130, 113, 40, 0, 33, 51};
  std::vector<std::int32_t> table = std::vector<std::int32_t>(7 * kCascadeMaxPages, 999);
  Batch() {
    std::int32_t next = 0;
    const auto fill = [&](std::size_t b, std::size_t from, std::size_t shared) {
      const auto pages = static_cast<std::size_t>((k[b] + kCascadePage - 1) / kCascadePage);
      for (std::size_t i = 0; i < pages; ++i)
        table[b * kCascadeMaxPages + i] = i < shared ? table[from * kCascadeMaxPages + i] : 63 - next++;
    };
    fill(0, 0, 0), fill(1, 0, 6), fill(2, 0, 6), fill(3, 3, 0), fill(5, 5, 0), fill(6, 5, 2);
  }
  PagedShape shape() const { return {table, kCascadeMaxPages, kCascadePage, q, k}; }
};

}  // namespace

TEST_CASE("groups are found where whole pages of old tokens are shared") {
  const Batch batch;
  using Groups = std::vector<PrefixGroup>;
  CHECK(find_prefix_groups(batch.shape(), 32) == Groups{{0, 3, 96}, {3, 1, 0}, {4, 1, 0}, {5, 2, 32}});
  CHECK(find_prefix_groups(batch.shape(), 64) ==
        Groups{{0, 3, 96}, {3, 1, 0}, {4, 1, 0}, {5, 1, 0}, {6, 1, 0}});
  CHECK(find_prefix_groups(batch.shape(), 1000).size() == 7);
  Batch newer = batch;
  newer.q[1] = 40;  // its first 90 keys are old: 5 whole pages
  CHECK(find_prefix_groups(newer.shape(), 32)[0] == PrefixGroup{0, 3, 80});
  PagedShape bad = batch.shape();
  bad.max_pages = 3;
  CHECK_THROWS_AS(find_prefix_groups(bad, 32), Error);
}

TEST_CASE("what does not split by keys is refused, and so are groups that share nothing") {
  const std::string paged = R"("operand": {"kind": "paged", "page_size": 16}})";
  const std::string head = R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 64, )";
  CHECK_THROWS_AS(cascade_configs(parse_config(head + R"("mask": {"sliding_window": 64}, )" + paged, "t")),
                  Error);
  CHECK_THROWS_AS(cascade_configs(parse_config(head + R"("operand": {"kind": "ragged"}})", "t")), Error);
  const CascadeConfigs configs =
      cascade_configs(cascade_config("sm_90a", R"("mask": "causal", "sink": true, )"));
  CHECK_FALSE(configs.prefix.mask);
  CHECK_FALSE(configs.prefix.sink);
  CHECK(configs.prefix.BM == 64);
  CHECK(configs.suffix.sink == true);
  // The prefixes in parts, and a block of each on a multiprocessor.
  CHECK(configs.prefix.split_kv == 4);
  CHECK_FALSE(configs.suffix.split_kv);
  CHECK(configs.side_by_side);
  CHECK_FALSE(cascade_configs(cascade_config("sm_90a", R"("num_kv_stages": 9, )")).side_by_side);
  CHECK_FALSE(cascade_configs(cascade_config("sm_90a", R"("score_mod": {"softcap": 30}, )")).side_by_side);
  CHECK_FALSE(cascade_configs(cascade_config("sm_90a", R"("kv_dtype": "fp8_e4m3", )")).side_by_side);
  CHECK_FALSE(cascade_configs(cascade_config("sm_80", "")).side_by_side);
  CHECK_FALSE(cascade_configs(cascade_config("sm_80", "")).prefix.split_kv);
  const KernelSource parts = make_prefix_kernel(configs.prefix);
  CHECK(parts.manifest.smem_bytes > 233472 / 2 - 1024);  // one block a multiprocessor, and not two
  CHECK_FALSE(parts.manifest.takes("workspace"));
  CHECK(parts.manifest.workspace_bytes_per_item == 0);
  CHECK_THROWS_AS(make_merge_kernel(configs.suffix, 0), Error);
  CHECK_THROWS_AS(make_prefix_kernel(cascade_config("sm_90a", R"("mask": "causal", )")), Error);
  CHECK_THROWS_AS(make_merge_kernel(configs.suffix, 33), Error);

  Cascade cascade(emulated(), cascade_config("sm_90a", ""), 7, kCascadeMaxPages, 10, kCascadeHeadsQ);
  const Batch batch;
  const auto refused = [&](std::vector<PrefixGroup> groups) {
    CHECK_THROWS_AS(cascade.update(batch.shape(), groups), Error);
  };
  refused({{0, 3, 96}});                                     // leaves sequences out
  refused({{0, 3, 96}, {3, 1, 0}, {4, 1, 0}, {5, 3, 32}});   // one too many
  refused({{0, 3, 96}, {2, 2, 0}, {4, 1, 0}, {5, 2, 32}});   // overlaps
  refused({{0, 3, 90}, {3, 1, 0}, {4, 1, 0}, {5, 2, 32}});   // no whole pages
  refused({{0, 4, 32}, {4, 1, 0}, {5, 2, 32}});              // other pages
  refused({{0, 3, 112}, {3, 1, 0}, {4, 1, 0}, {5, 2, 32}});  // new tokens
  refused({{0, 3, -16}, {3, 1, 0}, {4, 1, 0}, {5, 2, 32}});
}

TEST_CASE("three launches over divided keys give what one gives over all") {
  for (const auto& [target, keys] : {std::pair{"sm_90a", ""},
                                     {"sm_90a", R"("mask": "causal", "sink": true, )"},
                                     {"sm_90a", R"("score_mod": {"softcap": 30}, )"},
                                     {"sm_100a", R"("mask": "causal", )"},
                                     {"sm_80", R"("mask": "causal", )"}}) {
    CAPTURE(target);
    CAPTURE(keys);
    const Config config = cascade_config(target, keys);
    const Batch batch;
    const std::int64_t rows = 10;
    std::vector<float> q =
        random_normal(static_cast<std::size_t>(rows * kCascadeHeadsQ * kCascadeDepth), 1, 0);
    const auto pool =
        static_cast<std::size_t>(kCascadePages * kCascadePage * kCascadeHeadsKv * kCascadeDepth);
    std::vector<float> k(pool, NAN), v(pool, NAN);
    const std::vector<float> some = random_normal(pool, 1, 1), others = random_normal(pool, 1, 2);
    for (std::size_t b = 0; b < batch.k.size(); ++b) {
      for (std::int64_t t = 0; t < batch.k[b]; ++t) {
        const auto page = static_cast<std::int64_t>(
            batch.table[b * kCascadeMaxPages + static_cast<std::size_t>(t / kCascadePage)]);
        const std::int64_t at = (page * kCascadePage + t % kCascadePage) * kCascadeHeadsKv * kCascadeDepth;
        std::copy_n(some.begin() + at, kCascadeHeadsKv * kCascadeDepth, k.begin() + at);
        std::copy_n(others.begin() + at, kCascadeHeadsKv * kCascadeDepth, v.begin() + at);
      }
    }
    for (auto* values : {&q, &k, &v}) round_to(DType::bf16, *values);
    const DeviceBuffer d_q = upload(encode(DType::bf16, q)), d_k = upload(encode(DType::bf16, k)),
                       d_v = upload(encode(DType::bf16, v));
    const std::vector<std::int32_t> lengths(batch.k.begin(), batch.k.end());
    const std::vector<std::int32_t> offsets{0, 1, 3, 4, 5, 6, 7, 10};
    const DeviceBuffer d_lengths = upload(std::as_bytes(std::span(lengths))),
                       d_offsets = upload(std::as_bytes(std::span(offsets))),
                       d_table = upload(std::as_bytes(std::span(batch.table)));
    const std::vector<float> sinks{0.5F, -1, 2, 0};
    const DeviceBuffer d_sinks = upload(std::as_bytes(std::span(sinks)));
    DeviceBuffer wanted_o = emulated().allocate(q.size() * 2), o = emulated().allocate(q.size() * 2);
    DeviceBuffer wanted_lse = emulated().allocate(static_cast<std::size_t>(rows * kCascadeHeadsQ) * 4);
    AttentionArgs args;
    args.q = Tensor::dense(d_q.address(), DType::bf16, {rows, kCascadeHeadsQ, kCascadeDepth});
    args.k = Tensor::dense(d_k.address(), DType::bf16,
                           {kCascadePages, kCascadePage, kCascadeHeadsKv, kCascadeDepth});
    args.v = Tensor::dense(d_v.address(), DType::bf16,
                           {kCascadePages, kCascadePage, kCascadeHeadsKv, kCascadeDepth});
    if (config.sink.value_or(false))
      args.sink = Tensor::dense(d_sinks.address(), DType::f32, {kCascadeHeadsQ});
    AttentionArgs whole = args;
    whole.o = Tensor::dense(wanted_o.address(), DType::bf16, {rows, kCascadeHeadsQ, kCascadeDepth});
    whole.lse = Tensor::dense(wanted_lse.address(), DType::f32, {kCascadeHeadsQ, rows});
    whole.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {8});
    whole.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {7});
    whole.page_table = Tensor::dense(d_table.address(), DType::i32, {7, kCascadeMaxPages});
    whole.max_seqlen_q = 3;
    const auto report = emulated().load(generate(make_plan(config)))->launch(whole);
    REQUIRE(report);
    CHECK(report->findings.empty());

    Cascade cascade(emulated(), config, 7, kCascadeMaxPages, rows, kCascadeHeadsQ);
    cascade.update(batch.shape(), find_prefix_groups(batch.shape(), 32));
    args.o = Tensor::dense(o.address(), DType::bf16, {rows, kCascadeHeadsQ, kCascadeDepth});
    for (int round = 0; round < 2; ++round) {  // the second finds counters as the first did
      for (const auto& part : cascade.launch(args)) {
        REQUIRE(part);
        for (const auto& finding : part->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
      }
    }
    const auto want = download<std::uint16_t>(wanted_o, rows * kCascadeHeadsQ * kCascadeDepth),
               got = download<std::uint16_t>(o, rows * kCascadeHeadsQ * kCascadeDepth);
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::abs(double{widen(want[i])} - widen(got[i])));
    CHECK(worst < 0.02);  // two roundings to bf16 of values around 0.3
    const auto want_lse = download<float>(wanted_lse, rows * kCascadeHeadsQ);
    const Tensor lse = cascade.lse();
    CHECK(lse.shape == std::vector<std::int64_t>{kCascadeHeadsQ, rows});
    const auto got_lse = download<float>(cascade.lse_buffer(), rows * kCascadeHeadsQ);
    for (std::size_t i = 0; i < want_lse.size(); ++i) {
      const bool same = want_lse[i] == got_lse[i] || std::abs(want_lse[i] - got_lse[i]) < 1e-3;
      CHECK_MESSAGE(same, i, ": ", want_lse[i], " against ", got_lse[i]);
    }
  }
}
