// What the ranks of a decode step get: the whole, their heads or their queries, by every way of merging. All of them
// are bits of one result, which is compared with exact attention.
#include <doctest/doctest.h>

#include <kiln/context_parallel.hpp>

#include "tests/parallel/group.hpp"
#include "tests/parallel/whole.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::int64_t kResultHeadsQ = 24, kResultHeadsKv = 3;

/// Of the heads, where the config has sinks.
std::vector<float> sinks() {
  std::vector<float> out;
  for (std::int64_t head = 0; head < kResultHeadsQ; ++head)
    out.push_back(0.5f * static_cast<float>(head) - 5.0f);
  return out;
}

/// A result of [rows, heads, depth] with its log-sum-exps [heads, rows].
struct GroupResult {
  std::int64_t rows = 0, heads = 0;
  std::vector<std::uint16_t> o;
  std::vector<float> lse;
  bool operator==(const GroupResult&) const = default;
  /// Heads [first, first + count) of it.
  GroupResult heads_of(std::int64_t first, std::int64_t count) const { return cut(0, rows, first, count); }
  GroupResult rows_of(std::int64_t first, std::int64_t count) const { return cut(first, count, 0, heads); }

 private:
  GroupResult cut(std::int64_t row, std::int64_t row_count, std::int64_t head,
                  std::int64_t head_count) const {
    GroupResult out{row_count, head_count, {}, {}};
    for (std::int64_t r = row; r < row + row_count; ++r) {
      const auto first = o.begin() + (r * heads + head) * kDepth;
      out.o.insert(out.o.end(), first, first + head_count * kDepth);
    }
    if (lse.empty()) return out;
    for (std::int64_t h = head; h < head + head_count; ++h)
      out.lse.insert(out.lse.end(), lse.begin() + h * rows + row, lse.begin() + h * rows + row + row_count);
    return out;
  }
};

/// Neighbouring rows of the same parts of all sequences.
struct PartRows {
  std::vector<std::uint16_t> k, v;
  std::vector<std::int32_t> offsets{0};
  std::int64_t longest = 0;
  PartRows(const Whole& whole, int rank, int ranks) {
    const auto row = kResultHeadsKv * kDepth;
    for (std::size_t b = 0; b < whole.lengths.size(); ++b) {
      const Run run = runs_of(Sharding::contiguous, whole.lengths[b], rank, ranks)[0];
      const std::int64_t first = (whole.starts[b] + run.first) * row, end = first + run.rows * row;
      k.insert(k.end(), whole.k.values.begin() + first, whole.k.values.begin() + end);
      v.insert(v.end(), whole.v.values.begin() + first, whole.v.values.begin() + end);
      offsets.push_back(offsets.back() + static_cast<std::int32_t>(run.rows));
      longest = std::max(longest, run.rows);
    }
  }
};

/// One query a sequence, its last row; `queries` brings those that are the rank's.
GroupResult result_of_rank(const Config& config, const Whole& whole, const ContextDecodeOptions& options,
                           bool lse, const std::shared_ptr<Transport>& transport) {
  const auto batch = static_cast<std::int64_t>(whole.lengths.size());
  const int rank = transport->rank(), ranks = transport->size();
  const bool shared = options.result == DecodeResult::queries;
  GroupResult result;
  result.rows = shared ? batch / ranks : batch;
  result.heads = options.result == DecodeResult::heads ? kResultHeadsQ / ranks : kResultHeadsQ;
  std::vector<std::uint16_t> q;
  for (std::int64_t b = shared ? rank * result.rows : 0, end = b + result.rows; b < end; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const auto last =
        whole.q.values.begin() + (whole.starts[at] + whole.lengths[at] - 1) * kResultHeadsQ * kDepth;
    q.insert(q.end(), last, last + kResultHeadsQ * kDepth);
  }
  const PartRows part(whole, rank, ranks);
  std::vector<std::int32_t> starts;
  for (std::int64_t b = 0; b <= batch; ++b) starts.push_back(static_cast<std::int32_t>(b));
  const DeviceBuffer dq = upload(q), dk = upload(part.k), dv = upload(part.v), cu_q = upload(starts),
                     cu_k = upload(part.offsets);
  const auto results = static_cast<std::size_t>(result.rows * result.heads);
  const DeviceBuffer sink = upload(sinks()), o = upload(std::vector<std::uint16_t>(results * kDepth, 0x7fc0)),
                     lses = upload(std::vector<float>(results, NAN));
  ContextDecode decode(emulated(), config, transport, kResultHeadsQ, batch + 2, options);
  AttentionArgs args;
  args.q = Tensor::dense(dq.address(), DType::bf16, {result.rows, kResultHeadsQ, kDepth});
  args.k = Tensor::dense(dk.address(), DType::bf16, {part.offsets.back(), kResultHeadsKv, kDepth});
  args.v = Tensor::dense(dv.address(), DType::bf16, args.k.shape);
  args.o = Tensor::dense(o.address(), DType::bf16, {result.rows, result.heads, kDepth});
  if (config.sink.value_or(false)) args.sink = Tensor::dense(sink.address(), DType::f32, {kResultHeadsQ});
  if (lse) args.lse = Tensor::dense(lses.address(), DType::f32, {result.heads, result.rows});
  args.cu_seqlens_q = Tensor::dense(cu_q.address(), DType::i32, {batch + 1});
  args.cu_seqlens_k = Tensor::dense(cu_k.address(), DType::i32, {batch + 1});
  args.max_seqlen_q = 1, args.max_seqlen_k = part.longest;
  decode.launch(args);
  transport->synchronize(0);
  result.o = download<std::uint16_t>(o);
  if (lse) result.lse = download<float>(lses);
  return result;
}

std::vector<GroupResult> decode_of_group(const Config& config, const Whole& whole, int ranks,
                                         const ContextDecodeOptions& options, bool lse = true) {
  std::vector<GroupResult> results(static_cast<std::size_t>(ranks));
  const auto errors = as_group(ranks, 60, [&](int rank, const std::shared_ptr<Transport>& transport) {
    results[static_cast<std::size_t>(rank)] = result_of_rank(config, whole, options, lse, transport);
  });
  for (const std::string& error : errors) CHECK(error == "");
  return results;
}

void check_exact(const GroupResult& result, const Whole& whole, bool sink) {
  Comparison comparison;
  for (std::int64_t b = 0; b < result.rows; ++b) {
    for (std::int64_t head = 0; head < kResultHeadsQ; ++head) {
      std::vector<float> row;
      for (std::int64_t c = 0; c < kDepth; ++c)
        row.push_back(widen(result.o.at(static_cast<std::size_t>((b * kResultHeadsQ + head) * kDepth + c))));
      const std::int64_t length = whole.lengths[static_cast<std::size_t>(b)];
      const double logit = sink ? sinks()[static_cast<std::size_t>(head)] : -INFINITY;
      comparison.add(attend(whole, {}, static_cast<std::size_t>(b), length - 1, head, 0, length, logit),
                     row.data(), result.lse.at(static_cast<std::size_t>(head * result.rows + b)));
    }
  }
  CHECK(comparison.error() < 4e-3);
  CHECK(comparison.lse < 2e-3);
}

void check_results(const std::string& target, int ranks, const Whole& whole, bool sink = false) {
  CAPTURE(target);
  CAPTURE(ranks);
  const Config config = decode_config(target, sink ? R"("sink": true, )" : "");
  const auto all = decode_of_group(config, whole, ranks, {.way = DecodeWay::gather});
  check_exact(all[0], whole, sink);
  const auto heads = decode_of_group(config, whole, ranks, {.result = DecodeResult::heads}),
             queries = decode_of_group(config, whole, ranks, {.result = DecodeResult::queries}),
             spread = decode_of_group(config, whole, ranks, {.way = DecodeWay::spread}, false);
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const auto at = static_cast<std::size_t>(rank);
    CHECK(all[at] == all[0]);
    CHECK(heads[at] == all[0].heads_of(rank * kResultHeadsQ / ranks, kResultHeadsQ / ranks));
    CHECK(queries[at] == all[0].rows_of(rank * all[0].rows / ranks, all[0].rows / ranks));
    CHECK(spread[at].o == all[0].o);
  }
}

std::string refusal(int ranks, const std::function<void(const std::shared_ptr<Transport>&)>& work) {
  return as_group(ranks, 60, [&](int, const std::shared_ptr<Transport>& transport) { work(transport); })[0];
}

}  // namespace

TEST_CASE("heads, queries and the whole of a step are the same bits, with ranks that have no keys" *
          doctest::test_suite("breadth")) {
  // most ranks have none of the short ones
  const Whole six({150, 2, 97, 1, 33, 64}, kResultHeadsQ, kResultHeadsKv, kDepth, 14),
      eight({150, 2, 97, 1, 33, 64, 5, 70}, kResultHeadsQ, kResultHeadsKv, kDepth, 15);
  check_results("sm_80", 1, six);
  check_results("sm_80", 2, six);
  check_results("sm_80", 3, six);
  check_results("sm_80", 8, eight);
  check_results("sm_90a", 2, six);
  check_results("gfx942", 3, six);
  check_results("sm_80", 3, six, true);
  check_results("sm_90a", 2, six, true);
  check_results("gfx942", 2, six, true);
}

TEST_CASE("a step of fewer rows than ranks is spread, too: some of them merge none") {
  const Whole one({90}, kResultHeadsQ, kResultHeadsKv, kDepth, 16);
  const Config config = decode_config("sm_80");
  const auto gathered = decode_of_group(config, one, 3, {.way = DecodeWay::gather}, false),
             spread = decode_of_group(config, one, 3, {.way = DecodeWay::spread}, false);
  for (const GroupResult& result : spread) CHECK(result == gathered[0]);
}

TEST_CASE("the cheaper way is taken by the rows of a launch, and gathers where log-sum-exps are wanted") {
  const Whole six({150, 2, 97, 1, 33, 64}, kResultHeadsQ, kResultHeadsKv, kDepth, 17);
  const Config config = decode_config("sm_80");
  ContextDecodeOptions options;
  const auto errors = as_group(8, 60, [&](int, const std::shared_ptr<Transport>& transport) {
    const ContextDecode small(emulated(), config, transport, kResultHeadsQ, 4, {}),
        large(emulated(), config, transport, kResultHeadsQ, 256, {});
    CHECK(small.way(4) == DecodeWay::gather);
    CHECK(large.way(1) == DecodeWay::gather);
    CHECK(large.way(256) == DecodeWay::spread);
  });
  CHECK(errors == std::vector<std::string>(8));
  options.costs.alpha_us = 0;  // every step is spread
  const auto gathered = decode_of_group(config, six, 3, {.way = DecodeWay::gather}),
             automatic = decode_of_group(config, six, 3, options),
             spread = decode_of_group(config, six, 3, options, false);
  for (const GroupResult& result : automatic) CHECK(result == gathered[0]);
  for (const GroupResult& result : spread) CHECK(result.o == gathered[0].o);
}

TEST_CASE("what does not go to ranks is refused") {
  const Config config = decode_config("sm_80");
  const Whole two({20, 30}, kResultHeadsQ, kResultHeadsKv, kDepth, 18);
  CHECK(refusal(5, [&](const std::shared_ptr<Transport>& transport) {
          ContextDecode(emulated(), config, transport, kResultHeadsQ, 1, {.result = DecodeResult::heads});
        }).find("24 heads do not go evenly to 5 ranks") != std::string::npos);
  CHECK(refusal(2, [&](const std::shared_ptr<Transport>& transport) {
          result_of_rank(config, two, {.way = DecodeWay::spread}, true, transport);
        }).find("spread gives no lse") != std::string::npos);
}
