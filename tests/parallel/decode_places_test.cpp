// Decode of a group where the place of a query among the keys counts: several queries a sequence under a causal mask,
// windows, chunks, ALiBi; and sinks. Against exact attention over the whole.
#include <doctest/doctest.h>

#include <kiln/context_parallel.hpp>

#include "tests/parallel/group.hpp"
#include "tests/parallel/whole.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::int64_t kPlacedHeadsQ = 6, kPlacedHeadsKv = 2, kPlacedPage = 16;

/// One step: the last `queries[b]` rows of each sequence.
struct Step {
  Config config;
  std::vector<std::int64_t> lengths, queries;
  int ranks = 2;
  bool reversed = false;         ///< the first rank has the last keys
  std::int64_t granule = 1;      ///< of pieces
  std::vector<float> sink = {};  ///< of the heads
  std::vector<double> slopes = std::vector<double>(kPlacedHeadsQ, 0.0);

  bool paged() const { return config.operand->kind == OperandKind::paged; }
  std::int64_t batch() const { return static_cast<std::int64_t>(lengths.size()); }
  Run keys_of(int rank, std::size_t b) const {
    return runs_of(Sharding::contiguous, lengths[b], reversed ? ranks - 1 - rank : rank, ranks, granule)[0];
  }
};

constexpr const char* kPaged = R"({"kind": "paged", "page_size": 16})";

/// K or V of a rank: rows of all sequences end to end, or in pages whose last rows are NaN.
std::vector<std::uint16_t> rows_of_rank(const Rows& rows, const Step& step, const Whole& whole, int rank) {
  std::vector<std::uint16_t> out;
  const auto row = rows.heads * rows.depth;
  for (std::size_t b = 0; b < step.lengths.size(); ++b) {
    const Run run = step.keys_of(rank, b);
    const auto first = rows.values.begin() + (whole.starts[b] + run.first) * row;
    out.insert(out.end(), first, first + run.rows * row);
    const auto page = static_cast<std::size_t>(kPlacedPage * row);
    if (step.paged()) out.resize((out.size() + page - 1) / page * page, 0x7fc0);
  }
  if (step.paged()) out.resize(out.size() + static_cast<std::size_t>(kPlacedPage * row), 0x7fc0);
  return out;
}

struct PlacedResult {
  std::vector<std::uint16_t> o;
  std::vector<float> lse;
  bool operator==(const PlacedResult&) const = default;
};

/// What a rank's launch has in memory beside Q, K and V.
struct Tables {
  std::vector<std::int32_t> cu_q{0}, cu_k{0}, lengths, ends, pages;
  std::int64_t longest_q = 0, longest_k = 0, max_pages = 1;
  Tables(const Step& step, int rank) {
    std::int32_t page = 0;
    for (const std::int64_t length : step.lengths)
      max_pages = std::max(max_pages, (length + kPlacedPage - 1) / kPlacedPage);
    for (std::size_t b = 0; b < step.lengths.size(); ++b) {
      const Run run = step.keys_of(rank, b);
      cu_q.push_back(cu_q.back() + static_cast<std::int32_t>(step.queries[b]));
      cu_k.push_back(cu_k.back() + static_cast<std::int32_t>(run.rows));
      lengths.push_back(static_cast<std::int32_t>(run.rows));
      ends.push_back(static_cast<std::int32_t>(step.lengths[b] - run.first));
      longest_q = std::max(longest_q, step.queries[b]), longest_k = std::max(longest_k, run.rows);
      for (std::int64_t i = 0; i < max_pages; ++i)
        pages.push_back(i * kPlacedPage < run.rows ? page++ : 1 << 20);
    }
  }
};

PlacedResult step_of_rank(const Step& step, const Whole& whole, bool places,
                          const std::shared_ptr<Transport>& transport,
                          const ContextDecodeOptions& options = {}) {
  const Tables tables(step, transport->rank());
  const std::int64_t rows = tables.cu_q.back(), batch = step.batch();
  std::vector<std::uint16_t> q;
  for (std::size_t b = 0; b < step.lengths.size(); ++b) {
    const auto end = whole.q.values.begin() + (whole.starts[b] + step.lengths[b]) * kPlacedHeadsQ * kDepth;
    q.insert(q.end(), end - step.queries[b] * kPlacedHeadsQ * kDepth, end);
  }
  const auto k = rows_of_rank(whole.k, step, whole, transport->rank()),
             v = rows_of_rank(whole.v, step, whole, transport->rank());
  const DeviceBuffer dq = upload(q), dk = upload(k), dv = upload(v), cu_q = upload(tables.cu_q),
                     cu_k = upload(tables.cu_k), lengths = upload(tables.lengths), ends = upload(tables.ends),
                     pages = upload(tables.pages), sink = upload(step.sink);
  const auto results = static_cast<std::size_t>(rows * kPlacedHeadsQ);
  const DeviceBuffer o = upload(std::vector<std::uint16_t>(results * kDepth, 0x7fc0)),
                     lse = upload(std::vector<float>(results, NAN));
  ContextDecode decode(emulated(), step.config, transport, kPlacedHeadsQ, rows + 1, options);
  AttentionArgs args;
  args.q = Tensor::dense(dq.address(), DType::bf16, {rows, kPlacedHeadsQ, kDepth});
  args.k = Tensor::dense(dk.address(), DType::bf16, {tables.cu_k.back(), kPlacedHeadsKv, kDepth});
  if (step.paged()) {
    const auto count = static_cast<std::int64_t>(k.size()) / (kPlacedPage * kPlacedHeadsKv * kDepth);
    args.k = Tensor::dense(dk.address(), DType::bf16, {count, kPlacedPage, kPlacedHeadsKv, kDepth});
    args.page_table = Tensor::dense(pages.address(), DType::i32, {batch, tables.max_pages});
    args.seqlens_k = Tensor::dense(lengths.address(), DType::i32, {batch});
  } else {
    args.cu_seqlens_k = Tensor::dense(cu_k.address(), DType::i32, {batch + 1});
  }
  args.v = Tensor::dense(dv.address(), DType::bf16, args.k.shape);
  args.o = Tensor::dense(o.address(), DType::bf16, {rows, kPlacedHeadsQ, kDepth});
  args.lse = Tensor::dense(lse.address(), DType::f32, {kPlacedHeadsQ, rows});
  args.cu_seqlens_q = Tensor::dense(cu_q.address(), DType::i32, {batch + 1});
  if (places) args.query_ends = Tensor::dense(ends.address(), DType::i32, {batch});
  if (!step.sink.empty()) args.sink = Tensor::dense(sink.address(), DType::f32, {kPlacedHeadsQ});
  args.max_seqlen_q = tables.longest_q, args.max_seqlen_k = tables.longest_k;
  decode.launch(args);
  const auto once = download<std::uint16_t>(o);
  decode.launch(args);
  transport->synchronize(0);
  CHECK(once == download<std::uint16_t>(o));
  return {once, download<float>(lse)};
}

/// `places`: query_ends are given; else keys are in the order of ranks.
void check_step(const Step& step, bool places = true) {
  CAPTURE(config_name(step.config));
  CAPTURE(places);
  CAPTURE(step.ranks);
  CAPTURE(step.reversed);
  const Whole whole(step.lengths, kPlacedHeadsQ, kPlacedHeadsKv, kDepth, 31);
  std::vector<PlacedResult> results(static_cast<std::size_t>(step.ranks));
  const auto errors = as_group(step.ranks, 60, [&](int rank, const std::shared_ptr<Transport>& transport) {
    results[static_cast<std::size_t>(rank)] = step_of_rank(step, whole, places, transport);
  });
  for (const std::string& error : errors) REQUIRE(error == "");
  for (const PlacedResult& other : results) CHECK(other == results[0]);
  Comparison comparison;
  std::int64_t row = 0, rows = 0;
  for (const std::int64_t queries : step.queries) rows += queries;
  for (std::size_t b = 0; b < step.lengths.size(); ++b) {
    for (std::int64_t i = 0; i < step.queries[b]; ++i, ++row) {
      for (std::int64_t head = 0; head < kPlacedHeadsQ; ++head) {
        const auto at = static_cast<std::size_t>(head);
        std::vector<float> o;
        for (std::int64_t c = 0; c < kDepth; ++c)
          o.push_back(
              widen(results[0].o.at(static_cast<std::size_t>((row * kPlacedHeadsQ + head) * kDepth + c))));
        comparison.add(
            attend(whole, step.config.mask.value_or(MaskConfig{}), b, step.lengths[b] - step.queries[b] + i,
                   head, 0, step.lengths[b], step.sink.empty() ? -INFINITY : step.sink[at], step.slopes[at]),
            o.data(), results[0].lse.at(static_cast<std::size_t>(head * rows + row)));
      }
    }
  }
  CHECK(comparison.rows == rows * kPlacedHeadsQ);
  CHECK(comparison.error() < 4e-3);
  CHECK(comparison.lse < 2e-3);
}

// Short ones leave ranks without keys, and queries on keys of other ranks than the last.
const std::vector<std::int64_t> kLengths{150, 5, 97, 8, 64}, kQueries{3, 5, 1, 4, 8};

}  // namespace

TEST_CASE("queries of a sequence see the keys up to their own, on two ranks and on three") {
  const std::string causal = R"("mask": "causal", )";
  check_step({decode_config("sm_80", causal), kLengths, kQueries, 3});
  check_step({decode_config("sm_90a", causal, kPaged), kLengths, kQueries, 2});
  check_step({decode_config("gfx942", causal), kLengths, kQueries, 2});
}

TEST_CASE("several queries of a sequence see the keys up to their own, on whatever ranks these are" *
          doctest::test_suite("breadth")) {
  const std::string causal = R"("mask": "causal", )";
  for (const int ranks : {1, 2, 3, 8})
    check_step({decode_config("sm_80", causal), kLengths, kQueries, ranks});
  check_step({decode_config("sm_80", causal), kLengths, kQueries, 3, true});
  check_step({decode_config("sm_80", causal, kPaged), kLengths, kQueries, 3});
  check_step({decode_config("sm_90a", causal), kLengths, kQueries, 3});
  check_step({decode_config("sm_90a", causal, kPaged), kLengths, kQueries, 2, true});
  check_step({decode_config("gfx942", causal), kLengths, kQueries, 3});
  check_step({decode_config("gfx942", causal, kPaged), kLengths, kQueries, 2});
  check_step({decode_config("gfx950", causal), kLengths, kQueries, 2});
  check_step({decode_config("sm_100a", causal, kPaged), kLengths, kQueries, 2});
  check_step({decode_config("sm_80", ""), kLengths, kQueries, 3}, false);  // all see all
}

TEST_CASE("without positions the parts of a sequence follow one another in the order of ranks" *
          doctest::test_suite("breadth")) {
  const std::string causal = R"("mask": "causal", )", window = R"("mask": {"sliding_window": 40}, )";
  for (const int ranks : {1, 2, 3, 8}) {
    check_step({decode_config("sm_80", causal), kLengths, kQueries, ranks}, false);
    check_step({decode_config("sm_80", window, kPaged), kLengths, kQueries, ranks}, false);
  }
  check_step({decode_config("sm_90a", window), kLengths, kQueries, 3}, false);
  check_step({decode_config("gfx942", causal, kPaged), kLengths, kQueries, 3}, false);
  const std::vector<std::int64_t> ones(5, 1);
  check_step({decode_config("sm_80", causal), kLengths, ones, 3}, false);  // which see all keys
  check_step({decode_config("sm_80", causal), kLengths, ones, 3, true}, true);
}

TEST_CASE("windows, chunks and ALiBi go by the place of a query in the whole sequence" *
          doctest::test_suite("breadth")) {
  for (const std::string mask : {R"("mask": {"sliding_window": 40}, )", R"("mask": {"sliding_window": 2}, )",
                                 R"("mask": {"window": {"left": 30, "right": 2}}, )"}) {
    for (const int ranks : {2, 3, 8}) check_step({decode_config("sm_80", mask), kLengths, kQueries, ranks});
    check_step({decode_config("sm_80", mask, kPaged), kLengths, kQueries, 3, true});
    check_step({decode_config("sm_90a", mask), kLengths, kQueries, 3});
    check_step({decode_config("sm_90a", mask, kPaged), kLengths, kQueries, 3});
    check_step({decode_config("gfx942", mask), kLengths, kQueries, 3});
    check_step({decode_config("sm_100a", mask), kLengths, kQueries, 2});
  }
  for (const char* target : {"sm_80", "sm_90a", "gfx942"})
    check_step({decode_config(target, R"("mask": {"chunked": 32}, )"), kLengths, kQueries, 3, false, 32});
  Step alibi{decode_config("sm_80", R"("mask": "causal", "score_mod": "alibi", )"), kLengths, kQueries, 3};
  alibi.slopes = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};  // of six heads: four, and two of eight
  check_step(alibi);
}

TEST_CASE("a sink counts once in the result of a group") {
  const std::vector<float> sink{0.5f, -INFINITY, 3.0f, 90.0f, -4.0f, 0.0f};
  for (const int ranks : {1, 2, 3, 8}) {
    Step step{decode_config("sm_80", R"("sink": true, )"), kLengths, std::vector<std::int64_t>(5, 1), ranks};
    step.sink = sink;
    check_step(step, false);
  }
  for (const char* target : {"sm_80", "sm_90a", "gfx942"}) {
    Step step{decode_config(target, R"("sink": true, "mask": {"sliding_window": 40}, )"), kLengths, kQueries,
              3};
    step.sink = sink;
    check_step(step);
  }
}

TEST_CASE("what does not split over caches is one clear line") {
  const Whole whole(kLengths, kPlacedHeadsQ, kPlacedHeadsKv, kDepth, 33);
  const auto refusal = [&](const Step& step, bool places) {
    return as_group(1, 60, [&](int, const std::shared_ptr<Transport>& transport) {
      step_of_rank(step, whole, places, transport);
    })[0];
  };
  const auto step = [](const std::string& keys) {
    return Step{decode_config("sm_80", keys), kLengths, kQueries, 1};
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(refusal(step(""), true), "every query sees every key"));
  CHECK(has(refusal(step(R"("mask": "custom", )"), true), "custom mask do not split"));
  CHECK(has(refusal(step(R"("score_mod": {"expr": "score + k"}, )"), true), "score expression counts"));
  CHECK(has(refusal(step(R"("sink": true, )"), false), "the config has a sink, and none was given"));
  Step given = step("");
  given.sink = std::vector<float>(kPlacedHeadsQ, 0.0f);
  CHECK(has(refusal(given, false), "a sink was given, and the config has none"));
}
