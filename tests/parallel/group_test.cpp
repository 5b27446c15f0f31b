// Context parallel attention of a group of threads on the emulated device against exact attention over the whole
// sequences, and what happens to a group of which one rank fails.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include <kiln/context_parallel.hpp>

#include "tests/parallel/group.hpp"
#include "tests/parallel/whole.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::int64_t kGroupHeadsQ = 2, kGroupHeadsKv = 1;

/// The rows of a rank: runs `which` 0 of all sequences, then runs 1.
std::vector<std::uint16_t> own_rows_of(const Rows& rows, const Whole& whole, const ContextPrefill& prefill) {
  std::vector<std::uint16_t> out;
  const auto row = static_cast<std::size_t>(rows.heads * rows.depth);
  for (const int which : {0, 1}) {
    for (std::size_t b = 0; b < whole.lengths.size(); ++b) {
      const Run run = prefill.run(static_cast<std::int64_t>(b), which);
      const auto first =
          static_cast<std::ptrdiff_t>(static_cast<std::size_t>(whole.starts[b] + run.first) * row);
      out.insert(out.end(), rows.values.begin() + first,
                 rows.values.begin() + first +
                     static_cast<std::ptrdiff_t>(static_cast<std::size_t>(run.rows) * row));
    }
  }
  return out;
}

/// One rank's prefill: its rows of O compared.
Comparison prefill_of_rank(const Config& config, const Whole& whole, PrefillWay way,
                           const std::shared_ptr<Transport>& transport) {
  ContextParallelOptions options;
  options.heads_q = kGroupHeadsQ, options.heads_kv = kGroupHeadsKv, options.way = way;
  ContextPrefill prefill(emulated(), config, transport, options);
  prefill.set_batch(whole.lengths);
  const std::int64_t rows = prefill.rows();
  const DeviceBuffer q = upload(own_rows_of(whole.q, whole, prefill)),
                     k = upload(own_rows_of(whole.k, whole, prefill)),
                     v = upload(own_rows_of(whole.v, whole, prefill));
  const DeviceBuffer o = upload(std::vector<std::uint16_t>(
                         static_cast<std::size_t>(rows * kGroupHeadsQ * kDepth), 0x7fc0)),
                     lse = upload(std::vector<float>(static_cast<std::size_t>(rows * kGroupHeadsQ), NAN));
  ContextPrefill::Args args;
  args.q = Tensor::dense(q.address(), DType::bf16, {rows, kGroupHeadsQ, kDepth});
  args.k = Tensor::dense(k.address(), DType::bf16, {rows, kGroupHeadsKv, kDepth});
  args.v = Tensor::dense(v.address(), DType::bf16, {rows, kGroupHeadsKv, kDepth});
  args.o = Tensor::dense(o.address(), DType::bf16, {rows, kGroupHeadsQ, kDepth});
  args.lse = Tensor::dense(lse.address(), DType::f32, {rows * kGroupHeadsQ});
  const std::vector<float> logits{1.5f, -2.0f};
  const DeviceBuffer sink = upload(logits);
  const bool has_sink = config.sink.value_or(false);
  if (has_sink) args.sink = Tensor::dense(sink.address(), DType::f32, {kGroupHeadsQ});
  prefill.launch(args);
  transport->synchronize(0);
  const auto got = download<std::uint16_t>(o);
  const auto got_lse = download<float>(lse);
  Comparison comparison;
  std::int64_t row = 0, run_start = 0;
  for (const int which : {0, 1}) {
    std::int64_t run_rows = 0;
    for (std::size_t b = 0; b < whole.lengths.size(); ++b)
      run_rows += prefill.run(static_cast<std::int64_t>(b), which).rows;
    for (std::size_t b = 0; b < whole.lengths.size(); ++b) {
      const Run run = prefill.run(static_cast<std::int64_t>(b), which);
      for (std::int64_t i = 0; i < run.rows; ++i, ++row) {
        for (std::int64_t head = 0; head < kGroupHeadsQ; ++head) {
          std::vector<float> o_row;
          for (std::int64_t c = 0; c < kDepth; ++c)
            o_row.push_back(widen(got[static_cast<std::size_t>((row * kGroupHeadsQ + head) * kDepth + c)]));
          const std::int64_t at = run_start * kGroupHeadsQ + head * run_rows + (row - run_start);
          const double logit = has_sink ? logits[static_cast<std::size_t>(head)] : -INFINITY;
          comparison.add(attend(whole, config.mask.value_or(MaskConfig{}), b, run.first + i, head, 0,
                                whole.lengths[b], logit),
                         o_row.data(), got_lse[static_cast<std::size_t>(at)]);
        }
      }
    }
    run_start += run_rows;
  }
  return comparison;
}

void check_prefill(const Config& config, const Whole& whole, int ranks, PrefillWay way) {
  CAPTURE(ranks);
  CAPTURE(config_name(config));
  CAPTURE(way == PrefillWay::ring);
  std::vector<Comparison> comparisons(static_cast<std::size_t>(ranks));
  const auto errors = as_group(ranks, 60, [&](int rank, const std::shared_ptr<Transport>& transport) {
    comparisons[static_cast<std::size_t>(rank)] = prefill_of_rank(config, whole, way, transport);
  });
  std::int64_t rows = 0;
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    CAPTURE(rank);
    CHECK(errors[rank] == "");
    CHECK(comparisons[rank].error() < 4e-3);
    CHECK(comparisons[rank].lse < 2e-3);
    rows += comparisons[rank].rows;
  }
  CHECK(rows == whole.total * kGroupHeadsQ);
}

}  // namespace

namespace {

/// A transport that counts the streams it gives, and has none but the caller's while an exchange begins.
class Counting final : public Transport {
 public:
  explicit Counting(std::shared_ptr<Transport> real) : real_(std::move(real)) {}
  int forks = 0, joins = 0;
  bool in_order = true;
  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  void start(std::span<const Message> sends, std::span<const Message> receives,
             std::uint64_t stream) override {
    in_order = in_order && stream == 0 && forks == joins;
    real_->start(sends, receives, stream);
  }
  void finish(std::uint64_t stream) override {
    in_order = in_order && stream == 0 && forks == joins;
    real_->finish(stream);
  }
  std::uint64_t fork(std::uint64_t stream) override {
    in_order = in_order && stream == 0 && forks == joins;
    ++forks;
    return kSide;
  }
  void join(std::uint64_t stream) override {
    ++joins;
    in_order = in_order && stream == 0 && forks == joins;
  }
  void synchronize(std::uint64_t stream) override {
    in_order = in_order && stream == 0 && forks == joins;
    real_->synchronize(stream);
  }
  void abort(const std::string& reason) noexcept override { real_->abort(reason); }

 private:
  static constexpr std::uint64_t kSide = 7;  // the emulated device does each launch before it returns
  std::shared_ptr<Transport> real_;
};

}  // namespace

TEST_CASE("the two runs of a causal rank go beside each other, and come together before an exchange ends") {
  const Whole ragged({150, 3, 0, 70}, kGroupHeadsQ, kGroupHeadsKv, kDepth, 3);
  const auto forks_of = [&](const char* mask, PrefillWay way) {
    std::array<std::shared_ptr<Counting>, 2> counting;
    const auto errors = as_group(2, 60, [&](int rank, const std::shared_ptr<Transport>& transport) {
      auto& own = counting[static_cast<std::size_t>(rank)];
      own = std::make_shared<Counting>(transport);
      CHECK(prefill_of_rank(prefill_config("sm_80", mask), ragged, way, own).error() < 4e-3);
    });
    for (const std::string& error : errors) CHECK(error == "");
    for (const auto& one : counting) CHECK(one->in_order);
    CHECK(counting[0]->forks == counting[1]->forks);
    return counting[0]->forks;
  };
  CHECK(forks_of(R"("mask": "causal", )", PrefillWay::gather) == 1);
  CHECK(forks_of(R"("mask": "causal", )", PrefillWay::ring) == 2);  // a step
  CHECK(forks_of("", PrefillWay::gather) == 0);                     // one run a rank
}

TEST_CASE("runs cover each sequence once, and a zigzag gives every rank the same work") {
  for (const Sharding sharding : {Sharding::contiguous, Sharding::zigzag}) {
    for (const int ranks : {1, 2, 3, 8}) {
      for (const std::int64_t length : {0, 1, 5, 64, 1000, 4097}) {
        for (const std::int64_t granule : {1, 64}) {
          std::vector<int> owners(static_cast<std::size_t>(length), 0);
          for (int rank = 0; rank < ranks; ++rank) {
            for (const Run& run : runs_of(sharding, length, rank, ranks, granule)) {
              CHECK(run.rows >= 0);
              CHECK((run.rows == 0 || run.first % granule == 0));
              for (std::int64_t i = run.first; i < run.end(); ++i) ++owners[static_cast<std::size_t>(i)];
            }
          }
          CHECK(std::all_of(owners.begin(), owners.end(), [](int owner) { return owner == 1; }));
        }
      }
    }
  }
  std::vector<std::int64_t> work;
  for (int rank = 0; rank < 4; ++rank) {
    work.push_back(0);
    for (const Run& run : runs_of(Sharding::zigzag, 4096, rank, 4))
      for (std::int64_t i = run.first; i < run.end(); ++i) work.back() += i + 1;
  }
  CHECK(std::all_of(work.begin(), work.end(), [&](std::int64_t one) { return one == work[0]; }));
}

TEST_CASE("prefill of a group of two is that of the whole") {
  const Whole one({193}, kGroupHeadsQ, kGroupHeadsKv, kDepth, 2);
  for (const PrefillWay way : {PrefillWay::ring, PrefillWay::gather})
    for (const char* target : {"sm_80", "sm_90a", "gfx942"})
      check_prefill(prefill_config(target, R"("mask": "causal", )"), one, 2, way);
}

TEST_CASE("prefill of a group is that of the whole, with every mask, ragged, with empty parts" *
          doctest::test_suite("breadth")) {
  const Whole ragged({150, 3, 0, 70}, kGroupHeadsQ, kGroupHeadsKv, kDepth, 1);
  const Whole one({193}, kGroupHeadsQ, kGroupHeadsKv, kDepth, 2);
  const std::string causal = R"("mask": "causal", )", window = R"("mask": {"sliding_window": 40}, )",
                    chunks = R"("mask": {"chunked": 64}, )";
  for (const PrefillWay way : {PrefillWay::ring, PrefillWay::gather}) {
    for (const std::string& mask : {causal, window, chunks, std::string()})
      check_prefill(prefill_config("sm_80", mask), ragged, 2, way);
    check_prefill(prefill_config("sm_80", causal), ragged, 3, way);
    check_prefill(prefill_config("sm_80", window), ragged, 3, way);
    for (const std::string& mask : {window, chunks, std::string()})
      check_prefill(prefill_config("sm_80", mask), one, 3, way);
    check_prefill(prefill_config("sm_80", causal), one, 8, way);
    check_prefill(prefill_config("sm_90a", causal), one, 2, way);
  }
  check_prefill(prefill_config("gfx942", causal), one, 2, PrefillWay::ring);
  check_prefill(prefill_config("sm_80", causal), one, 1, PrefillWay::ring);
}

TEST_CASE("sinks count once in prefill of a group" * doctest::test_suite("breadth")) {
  const Whole ragged({150, 3, 0, 70}, kGroupHeadsQ, kGroupHeadsKv, kDepth, 6);
  const std::string causal = R"("mask": "causal", "sink": true, )",
                    window = R"("mask": {"sliding_window": 40}, "sink": true, )", none = R"("sink": true, )";
  for (const PrefillWay way : {PrefillWay::ring, PrefillWay::gather}) {
    for (const std::string& keys : {causal, window, none})
      check_prefill(prefill_config("sm_80", keys), ragged, 3, way);
    check_prefill(prefill_config("sm_80", causal), ragged, 8, way);
    check_prefill(prefill_config("sm_90a", causal), ragged, 2, way);
    check_prefill(prefill_config("gfx942", causal), ragged, 2, way);
  }
}

namespace {

struct Decoded {
  std::vector<std::uint16_t> o;
  std::vector<float> lse;
  bool operator==(const Decoded&) const = default;
};

/// Decode of one query a sequence (the last row), of which rank r has the r-th piece of the keys in pages.
Decoded decode_of_rank(const Config& config, const Whole& whole,
                       const std::shared_ptr<Transport>& transport) {
  const auto batch = static_cast<std::int64_t>(whole.lengths.size());
  constexpr std::int64_t kPage = 16, kMaxPages = 12;
  std::vector<std::int32_t> table(static_cast<std::size_t>(batch * kMaxPages), 1 << 20), lengths, offsets{0};
  std::vector<std::uint16_t> k, v, q;
  const auto row = static_cast<std::size_t>(kGroupHeadsKv * kDepth);
  std::int32_t pages = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto at = static_cast<std::size_t>(b);
    const Run run = runs_of(Sharding::contiguous, whole.lengths[at], transport->rank(), transport->size())[0];
    lengths.push_back(static_cast<std::int32_t>(run.rows));
    offsets.push_back(static_cast<std::int32_t>(b + 1));
    for (std::int64_t page = 0; page * kPage < run.rows; ++page)
      table[static_cast<std::size_t>(b * kMaxPages + page)] = pages++;
    const auto copy = [&](const Rows& from, std::vector<std::uint16_t>& to) {
      const auto first =
          from.values.begin() +
          static_cast<std::ptrdiff_t>(static_cast<std::size_t>(whole.starts[at] + run.first) * row);
      to.insert(to.end(), first,
                first + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(run.rows) * row));
      to.resize(static_cast<std::size_t>(pages * kPage) * row,
                0x7fc0);  // rows of a page past the sequence: NaN
    };
    copy(whole.k, k), copy(whole.v, v);
    const auto last =
        static_cast<std::ptrdiff_t>((whole.starts[at] + whole.lengths[at] - 1) * kGroupHeadsQ * kDepth);
    q.insert(q.end(), whole.q.values.begin() + last, whole.q.values.begin() + last + kGroupHeadsQ * kDepth);
  }
  k.resize(std::max<std::size_t>(k.size(), kPage * row)), v.resize(k.size());
  const std::int64_t num_pages = static_cast<std::int64_t>(k.size() / (kPage * row));
  const DeviceBuffer dq = upload(q), dk = upload(k), dv = upload(v), dt = upload(table), dl = upload(lengths),
                     dc = upload(offsets);
  const DeviceBuffer o = upload(std::vector<std::uint16_t>(q.size(), 0x7fc0)),
                     lse = upload(std::vector<float>(static_cast<std::size_t>(batch * kGroupHeadsQ), NAN));
  ContextDecode decode(emulated(), config, transport, kGroupHeadsQ, batch + 3);
  AttentionArgs args;
  args.q = Tensor::dense(dq.address(), DType::bf16, {batch, kGroupHeadsQ, kDepth});
  args.k = Tensor::dense(dk.address(), DType::bf16, {num_pages, kPage, kGroupHeadsKv, kDepth});
  args.v = Tensor::dense(dv.address(), DType::bf16, {num_pages, kPage, kGroupHeadsKv, kDepth});
  args.o = Tensor::dense(o.address(), DType::bf16, {batch, kGroupHeadsQ, kDepth});
  args.lse = Tensor::dense(lse.address(), DType::f32, {kGroupHeadsQ, batch});
  args.page_table = Tensor::dense(dt.address(), DType::i32, {batch, kMaxPages});
  args.seqlens_k = Tensor::dense(dl.address(), DType::i32, {batch});
  args.cu_seqlens_q = Tensor::dense(dc.address(), DType::i32, {batch + 1});
  args.max_seqlen_q = 1;
  decode.launch(args);
  transport->synchronize(0);
  return {download<std::uint16_t>(o), download<float>(lse)};
}

}  // namespace

TEST_CASE("decode over a cache in parts is decode of the whole, the same bits on every rank and every time") {
  // the second one is shorter than the group: some ranks have none of it
  const Whole whole({150, 2, 97}, kGroupHeadsQ, kGroupHeadsKv, kDepth, 4);
  for (const auto& [target, ranks] :
       std::vector<std::pair<std::string, int>>{{"sm_90a", 2}, {"sm_80", 3}, {"sm_80", 8}, {"gfx942", 2}}) {
    CAPTURE(target);
    CAPTURE(ranks);
    const Config config =
        parse_config(R"({"target": ")" + target +
                         R"(", "operation": "decode", "dtype": "bf16", "depth": 64, "mask": "causal",
            "operand": {"kind": "paged", "page_size": 16}})",
                     "test");
    std::vector<Decoded> results(static_cast<std::size_t>(ranks));
    const auto errors = as_group(ranks, 60, [&](int rank, const std::shared_ptr<Transport>& transport) {
      results[static_cast<std::size_t>(rank)] = decode_of_rank(config, whole, transport);
    });
    for (const std::string& error : errors) CHECK(error == "");
    Comparison comparison;
    for (std::size_t b = 0; b < whole.lengths.size(); ++b) {
      for (std::int64_t head = 0; head < kGroupHeadsQ; ++head) {
        std::vector<float> row;
        for (std::int64_t c = 0; c < kDepth; ++c)
          row.push_back(widen(results[0].o.at((b * kGroupHeadsQ + static_cast<std::size_t>(head)) * kDepth +
                                              static_cast<std::size_t>(c))));
        comparison.add(attend(whole, MaskConfig{}, b, whole.lengths[b] - 1, head, 0, whole.lengths[b]),
                       row.data(), results[0].lse.at(static_cast<std::size_t>(head) * 3 + b));
      }
    }
    CHECK(comparison.error() < 4e-3);
    CHECK(comparison.lse < 2e-3);
    for (const Decoded& other : results) CHECK(other == results[0]);
  }
}

TEST_CASE("a rank that fails, or never comes, is an error on all ranks, and nothing hangs") {
  const Whole whole({200}, kGroupHeadsQ, kGroupHeadsKv, kDepth, 5);
  const Config config = prefill_config("sm_80", R"("mask": "causal", )");
  for (const PrefillWay way : {PrefillWay::ring, PrefillWay::gather}) {
    const auto failing = as_group(3, 60, [&](int rank, const std::shared_ptr<Transport>& transport) {
      if (rank == 1) throw std::runtime_error("out of paper");
      prefill_of_rank(config, whole, way, transport);
    });
    for (const std::string& error : failing) CHECK(error.find("out of paper") != std::string::npos);
    CHECK(failing[0].find("rank 0: rank 1 ended the group") != std::string::npos);
    const auto absent = as_group(3, 0.5, [&](int rank, const std::shared_ptr<Transport>& transport) {
      if (rank != 1) prefill_of_rank(config, whole, way, transport);
    });
    CHECK(absent[0].find("within 0.5 s") != std::string::npos);
    CHECK(absent[1] == "");
    CHECK(absent[2].find("within 0.5 s") != std::string::npos);
  }
}

TEST_CASE("messages keep their order and their sizes, and a wrong size is an error") {
  std::vector<std::vector<float>> got(2);
  const auto errors = as_group(2, 30, [&](int rank, const std::shared_ptr<Transport>& transport) {
    const DeviceBuffer from = upload(std::vector<float>{1.0f + static_cast<float>(rank), 5, 9, 13}),
                       to = upload(std::vector<float>(4));
    const Message sends[] = {{from.address(), 4, 1 - rank},
                             {from.address() + 4, 0, 1 - rank},
                             {from.address() + 8, 8, 1 - rank},
                             {from.address() + 4, 4, rank}};
    const Message receives[] = {
        {to.address(), 4, rank}, {to.address() + 12, 4, 1 - rank}, {to.address() + 4, 8, 1 - rank}};
    transport->start(sends, receives, 0);
    transport->finish(0);
    got[static_cast<std::size_t>(rank)] = download<float>(to);
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(got[0] == std::vector<float>{5, 9, 13, 2});
  CHECK(got[1] == std::vector<float>{5, 9, 13, 1});
  const auto wrong = as_group(2, 30, [&](int rank, const std::shared_ptr<Transport>& transport) {
    const DeviceBuffer memory = upload(std::vector<float>(4));
    const Message one[] = {{memory.address(), rank == 0 ? 4u : 8u, 1 - rank}};
    transport->start(one, one, 0);
    transport->finish(0);
  });
  CHECK((wrong[0] + wrong[1]).find("were expected") != std::string::npos);
}

TEST_CASE("NCCL that is not there is one clear line") {
  NcclOptions options;
  options.library = "/nowhere/libnccl.so.2";
  for (const auto& make : {std::function<void()>([&] { make_nccl_transport(options); }),
                           std::function<void()>([&] { make_nccl_id(options.library); })}) {
    try {
      make();
      FAIL_CHECK("it was found");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::environment);
      CHECK(std::string(error.what()).find("/nowhere/libnccl.so.2") != std::string::npos);
    }
  }
}

TEST_CASE("the cost model knows the arithmetic that it is made of") {
  PrefillShape shape;
  shape.lengths = {1 << 20};
  shape.heads_q = 32, shape.heads_kv = 8;
  const PrefillEstimate two = estimate_prefill(shape, 2);
  CHECK(two.compute_us == doctest::Approx(two.one_device_us / 2));
  CHECK(two.gather_bytes == doctest::Approx(4.294967296e9));
  CHECK(two.ring_bytes == doctest::Approx(4.294967296e9));
  CHECK(two.gather_us < two.one_device_us);
  CHECK(estimate_prefill(shape, 1).gather_us == doctest::Approx(two.one_device_us));
  ParallelCosts slow;
  slow.bytes_per_us = 1e3;
  CHECK(estimate_prefill(shape, 2, slow).ring_us < estimate_prefill(shape, 2, slow).gather_us);
  DecodeStep step;
  step.cache_bytes = 4.3e9, step.heads_q = 32;
  CHECK(estimate_decode(step, 1).gather_us == doctest::Approx(4.3e9 / 4e6));
  CHECK(estimate_decode(step, 1).queries_us == doctest::Approx(4.3e9 / 4e6));
  CHECK(estimate_decode(step, 2).gather_us < estimate_decode(step, 1).gather_us / 1.85);
  step.cache_bytes = 1e6;
  CHECK(estimate_decode(step, 2).gather_us > estimate_decode(step, 1).gather_us);  // not worth it
}

TEST_CASE("the cost model gathers the parts of few rows, and shares the merging of many") {
  DecodeStep step;
  step.heads_q = 32;
  ParallelCosts costs;
  costs.memory_bytes_per_us = 1e30;  // what is left is exchanges
  const double part_us = 32 * 129 * 4 / costs.bytes_per_us;
  const DecodeEstimate one = estimate_decode(step, 8, costs);
  CHECK(one.gather_us == doctest::Approx(20 + 7 * part_us));
  CHECK(one.heads_us == doctest::Approx(20 + 7.0 / 8 * part_us));
  CHECK(one.gather_us < one.spread_us);
  step.rows = 512;
  const DecodeEstimate many = estimate_decode(step, 8, costs);
  CHECK(many.gather_us == doctest::Approx(20 + 512 * 7 * part_us));
  // O in FP32 there and in BF16 back, of all but the own rows; log-sum-exps to everyone
  CHECK(many.spread_us == doctest::Approx(40 + 512 * part_us / 129 * (7.0 / 8 * 128 * 1.5 + 7)));
  CHECK(many.spread_us < many.gather_us / 2);
  CHECK(many.heads_us < many.queries_us);
  CHECK(many.heads_us < many.spread_us);
}
