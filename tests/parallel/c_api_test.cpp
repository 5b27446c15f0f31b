// The C interface of context parallel attention: host tensors, a group of threads, and what is refused.
#include <doctest/doctest.h>

#include <thread>

#include <kiln/parallel.h>

#include "tests/parallel/whole.hpp"

using namespace kiln::test;

namespace {

constexpr std::int64_t kLength = 90, kHeads = 2;
constexpr const char* kPrefill = R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64,
    "out_dtype": "f32", "mask": "causal", "operand": {"kind": "ragged"}})";
constexpr const char* kDecode = R"({"target": "sm_80", "operation": "decode", "dtype": "bf16", "depth": 64,
    "out_dtype": "f32", "operand": {"kind": "ragged"}})";

constexpr const char* kPlaced = R"({"target": "sm_80", "operation": "decode", "dtype": "bf16", "depth": 64,
    "out_dtype": "f32", "mask": "causal", "sink": true, "operand": {"kind": "ragged"}})";
constexpr const char* kSinkPrefill =
    R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64,
    "out_dtype": "f32", "mask": "causal", "sink": true, "operand": {"kind": "ragged"}})";

struct Host {
  std::vector<std::int64_t> shape;
  DLTensor view{};
  Host(void* data, DLDataType type, std::vector<std::int64_t> of) : shape(std::move(of)) {
    view.data = data, view.device = {kDLCPU, 0}, view.dtype = type;
    view.ndim = static_cast<int>(shape.size()), view.shape = shape.data();
  }
  Host(const Host&) = delete;
};
constexpr DLDataType kBf16{kDLBfloat, 16, 1}, kFloat{kDLFloat, 32, 1}, kInt{kDLInt, 32, 1};

std::vector<std::uint16_t> rows_of(const Rows& rows, std::int64_t first, std::int64_t end) {
  const auto row = rows.heads * rows.depth;
  return {rows.values.begin() + first * row, rows.values.begin() + end * row};
}

kiln_rank* make_rank(kiln_loopback* group, int rank, int size) {
  kiln_rank_options options{};
  options.size_of = sizeof options, options.device = "emulated", options.rank = rank, options.size = size;
  options.loopback = group;
  kiln_rank* out = nullptr;
  REQUIRE(kiln_rank_create(&options, &out) == KILN_OK);
  return out;
}

/// `logits`: of the heads, or none.
double prefill_error(kiln_rank* rank, const Whole& whole, std::vector<float> logits) {
  kiln_context_prefill* prefill = nullptr;
  const char* config = logits.empty() ? kPrefill : kSinkPrefill;
  REQUIRE(kiln_context_prefill_create(rank, config, kHeads, kHeads, 1, &prefill) == KILN_OK);
  REQUIRE(kiln_context_prefill_set_batch(prefill, &kLength, 1) == KILN_OK);
  const std::int64_t rows = kiln_context_prefill_rows(prefill);
  std::vector<std::uint16_t> q, k, v;
  std::vector<std::int64_t> places;
  for (const int which : {0, 1}) {
    std::int64_t first = 0, end = 0;
    REQUIRE(kiln_context_prefill_run(prefill, 0, which, &first, &end) == KILN_OK);
    for (std::int64_t i = first; i < end; ++i) places.push_back(i);
    for (const auto& [from, to] :
         {std::pair(&whole.q, &q), std::pair(&whole.k, &k), std::pair(&whole.v, &v)}) {
      const auto some = rows_of(*from, first, end);
      to->insert(to->end(), some.begin(), some.end());
    }
  }
  std::vector<float> o(static_cast<std::size_t>(rows * kHeads * kDepth), NAN);
  Host dq(q.data(), kBf16, {rows, kHeads, kDepth}), dk(k.data(), kBf16, {rows, kHeads, kDepth}),
      dv(v.data(), kBf16, {rows, kHeads, kDepth}), result(o.data(), kFloat, {rows, kHeads, kDepth});
  Host sink(logits.data(), kFloat, {kHeads});
  kiln_attention_args args{};
  args.size = sizeof args;
  args.q = &dq.view, args.k = &dk.view, args.v = &dv.view, args.o = &result.view, args.sink = &sink.view;
  const kiln_status status = logits.empty()
                                 ? kiln_context_prefill_launch(prefill, &dq.view, &dk.view, &dv.view,
                                                               &result.view, nullptr, nullptr, 0)
                                 : kiln_context_prefill_launch_args(prefill, &args, 0);
  CAPTURE(kiln_parallel_last_error());
  REQUIRE(status == KILN_OK);
  Comparison comparison;
  const kiln::MaskConfig causal{kiln::MaskConfig::Kind::causal, 0};
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const double logit = logits.empty() ? -INFINITY : logits[static_cast<std::size_t>(head)];
      const auto exact = attend(whole, causal, 0, places[i], head, 0, kLength, logit);
      comparison.add(exact, &o[(i * kHeads + static_cast<std::size_t>(head)) * kDepth],
                     static_cast<float>(exact.lse));
    }
  }
  kiln_context_prefill_destroy(prefill);
  return comparison.error();
}

/// `shared`: each rank gets one head of the result.
double decode_error(kiln_rank* rank, int number, const Whole& whole, bool shared) {
  kiln_context_decode* decode = nullptr;
  if (shared) {
    REQUIRE(kiln_context_decode_create_for(rank, kDecode, kHeads, 2, 1, 0, &decode) == KILN_OK);
  } else {
    REQUIRE(kiln_context_decode_create(rank, kDecode, kHeads, 2, &decode) == KILN_OK);
  }
  const std::int64_t heads = shared ? 1 : kHeads, first_head = shared ? number : 0;
  const std::int64_t first = number == 0 ? 0 : 31, end = number == 0 ? 31 : kLength;
  auto q = rows_of(whole.q, kLength - 1, kLength), k = rows_of(whole.k, first, end),
       v = rows_of(whole.v, first, end);
  std::vector<float> o(static_cast<std::size_t>(heads * kDepth), NAN);
  std::vector<std::int32_t> offsets_q{0, 1}, offsets_k{0, static_cast<std::int32_t>(end - first)};
  Host dq(q.data(), kBf16, {1, kHeads, kDepth}), dk(k.data(), kBf16, {end - first, kHeads, kDepth}),
      dv(v.data(), kBf16, {end - first, kHeads, kDepth}), result(o.data(), kFloat, {1, heads, kDepth}),
      cu_q(offsets_q.data(), kInt, {2}), cu_k(offsets_k.data(), kInt, {2});
  kiln_attention_args args{};
  args.size = sizeof args;
  args.q = &dq.view, args.k = &dk.view, args.v = &dv.view, args.o = &result.view;
  args.cu_seqlens_q = &cu_q.view, args.cu_seqlens_k = &cu_k.view;
  args.max_seqlen_q = 1, args.max_seqlen_k = end - first;
  const kiln_status status = kiln_context_decode_launch(decode, &args, 0);
  CAPTURE(kiln_parallel_last_error());
  REQUIRE(status == KILN_OK);
  Comparison comparison;
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto exact = attend(whole, {}, 0, kLength - 1, first_head + head, 0, kLength);
    comparison.add(exact, &o[static_cast<std::size_t>(head * kDepth)], static_cast<float>(exact.lse));
  }
  kiln_context_decode_destroy(decode);
  return comparison.error();
}

/// Three queries, causal, with sinks.
double placed_error(kiln_rank* rank, int number, const Whole& whole) {
  constexpr std::int64_t kQueries = 3;
  kiln_context_decode* decode = nullptr;
  REQUIRE(kiln_context_decode_create(rank, kPlaced, kHeads, kQueries, &decode) == KILN_OK);
  // the second rank has the last key alone
  const std::int64_t first = number == 0 ? 0 : kLength - 1, end = number == 0 ? kLength - 1 : kLength;
  auto q = rows_of(whole.q, kLength - kQueries, kLength), k = rows_of(whole.k, first, end),
       v = rows_of(whole.v, first, end);
  std::vector<float> o(static_cast<std::size_t>(kQueries * kHeads * kDepth), NAN), logits{0.5f, 2.0f};
  std::vector<std::int32_t> offsets_q{0, kQueries}, offsets_k{0, static_cast<std::int32_t>(end - first)},
      places{static_cast<std::int32_t>(kLength - first)};
  Host dq(q.data(), kBf16, {kQueries, kHeads, kDepth}), dk(k.data(), kBf16, {end - first, kHeads, kDepth}),
      dv(v.data(), kBf16, {end - first, kHeads, kDepth}),
      result(o.data(), kFloat, {kQueries, kHeads, kDepth}), cu_q(offsets_q.data(), kInt, {2}),
      cu_k(offsets_k.data(), kInt, {2}), ends(places.data(), kInt, {1}),
      sink(logits.data(), kFloat, {kHeads});
  kiln_attention_args args{};
  args.size = sizeof args;
  args.q = &dq.view, args.k = &dk.view, args.v = &dv.view, args.o = &result.view, args.sink = &sink.view;
  args.cu_seqlens_q = &cu_q.view, args.cu_seqlens_k = &cu_k.view;
  args.max_seqlen_q = kQueries, args.max_seqlen_k = end - first;
  REQUIRE(kiln_context_decode_launch(decode, &args, 0) == KILN_OK);  // in the order of ranks
  const std::vector<float> in_order = o;
  const kiln_status status = kiln_context_decode_launch_at(decode, &args, &ends.view, 0);
  CHECK(o == in_order);
  CAPTURE(kiln_parallel_last_error());
  REQUIRE(status == KILN_OK);
  Comparison comparison;
  const kiln::MaskConfig causal{kiln::MaskConfig::Kind::causal, 0};
  for (std::int64_t i = 0; i < kQueries; ++i) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto exact = attend(whole, causal, 0, kLength - kQueries + i, head, 0, kLength,
                                logits[static_cast<std::size_t>(head)]);
      comparison.add(exact, &o[static_cast<std::size_t>((i * kHeads + head) * kDepth)],
                     static_cast<float>(exact.lse));
    }
  }
  kiln_context_decode_destroy(decode);
  return comparison.error();
}

}  // namespace

TEST_CASE("a group through the C interface computes what the whole has, and its errors have a text") {
  const Whole whole({kLength}, kHeads, kHeads, kDepth, 9);
  kiln_loopback* group = nullptr;
  REQUIRE(kiln_loopback_create(2, 60, &group) == KILN_OK);
  double prefill[2] = {1, 1}, sinks[2] = {1, 1}, decode[2] = {1, 1}, shared[2] = {1, 1}, placed[2] = {1, 1};
  kiln_rank* ranks[2] = {make_rank(group, 0, 2), make_rank(group, 1, 2)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      prefill[rank] = prefill_error(ranks[rank], whole, {});
      sinks[rank] = prefill_error(ranks[rank], whole, {-1.0f, 4.0f});
      decode[rank] = decode_error(ranks[rank], rank, whole, false);
      shared[rank] = decode_error(ranks[rank], rank, whole, true);
      placed[rank] = placed_error(ranks[rank], rank, whole);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int rank : {0, 1}) {
    CHECK(prefill[rank] < 4e-3);
    CHECK(decode[rank] < 4e-3);
    CHECK(shared[rank] < 4e-3);
    CHECK(sinks[rank] < 4e-3);
    CHECK(placed[rank] < 4e-3);
    CHECK(kiln_rank_synchronize(ranks[rank], 0) == KILN_OK);
  }
  kiln_context_decode* none = nullptr;
  CHECK(kiln_context_decode_create_for(ranks[0], kDecode, kHeads, 2, 3, 0, &none) == KILN_BAD_INPUT);
  CHECK(std::string(kiln_parallel_last_error()) == "result is not 0, 1 or 2");
  CHECK(kiln_context_decode_create_for(ranks[0], kDecode, kHeads, 2, 1, 2, &none) == KILN_BAD_INPUT);
  kiln_rank_abort(ranks[1], "enough");
  CHECK(kiln_rank_synchronize(ranks[0], 0) == KILN_DEVICE);
  CHECK(std::string(kiln_parallel_last_error()).find("enough") != std::string::npos);
  for (kiln_rank* rank : ranks) kiln_rank_destroy(rank);
  kiln_loopback_destroy(group);

  char id[128];
  CHECK(kiln_parallel_nccl_id("/nowhere/libnccl.so.2", id) == KILN_ENVIRONMENT);
  CHECK(kiln_loopback_create(0, 1, &group) == KILN_BAD_INPUT);
  CHECK(kiln_rank_create(nullptr, ranks) == KILN_BAD_INPUT);
  CHECK(std::string(kiln_parallel_last_error()) == "options is NULL");
  CHECK(kiln_context_prefill_create(nullptr, kPrefill, 1, 1, 0, nullptr) == KILN_BAD_INPUT);
}
