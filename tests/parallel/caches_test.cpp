// Decode over caches of other kinds in parts: latent rows (MLA) and 8-bit ones with scales, beside one launch over the
// whole cache.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include <kiln/context_parallel.hpp>

#include "tests/parallel/whole.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::int64_t kCachePage = 64, kCacheHeadsQ = 4, kCacheMaxPages = 4;

struct Kind {
  const char* name;
  std::string config;
  std::int64_t heads_kv, depth, ov_depth, bytes;  ///< bytes of an element of the cache
  std::int64_t queries = 1;                       ///< of a sequence
};

/// The queries of sequences over a pool of pages; sequences of a rank have the pages from `first` to `end`.
struct Pool {
  const Kind& kind;
  std::vector<std::int64_t> lengths;
  DeviceBuffer q, k, v, scales, offsets;

  Pool(const Kind& of, std::vector<std::int64_t> keys) : kind(of), lengths(std::move(keys)) {
    std::mt19937 random(12);
    std::normal_distribution<float> normal;
    const auto batch = lengths.size();
    const auto elements = static_cast<std::size_t>(static_cast<std::int64_t>(batch) * kCacheMaxPages *
                                                   kCachePage * kind.heads_kv * kind.depth);
    const auto pool = [&] {
      if (kind.bytes == 1) {
        std::vector<std::uint8_t> bytes(elements);
        for (auto& byte : bytes)
          byte = static_cast<std::uint8_t>((random() & 0x80) | (0x20 + random() % 0x1c));  // finite
        return upload(bytes);
      }
      std::vector<std::uint16_t> values(elements);
      for (auto& value : values) value = round_bf16(normal(random));
      return upload(values);
    };
    k = pool(), v = pool();
    std::vector<std::uint16_t> queries(batch *
                                       static_cast<std::size_t>(kind.queries * kCacheHeadsQ * kind.depth));
    for (auto& value : queries) value = round_bf16(normal(random));
    q = upload(queries);
    scales = upload(std::vector<float>{0.5f, 0.7f});
    std::vector<std::int32_t> starts;
    for (std::size_t b = 0; b <= batch; ++b)
      starts.push_back(static_cast<std::int32_t>(b) * static_cast<std::int32_t>(kind.queries));
    offsets = upload(starts);
  }

  std::int64_t batch() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t rows() const { return batch() * kind.queries; }

  /// What a launch over the pages [first, end) of every sequence takes, but for o and lse.
  struct Part {
    DeviceBuffer table, keys;
    AttentionArgs args;
  };
  Part part(std::int64_t first, std::int64_t end) const {
    std::vector<std::int32_t> table(static_cast<std::size_t>(batch() * kCacheMaxPages), 1 << 20), keys;
    for (std::int64_t b = 0; b < batch(); ++b) {
      for (std::int64_t page = first; page < end; ++page)
        table[static_cast<std::size_t>(b * kCacheMaxPages + page - first)] =
            static_cast<std::int32_t>(b * kCacheMaxPages + page);
      const std::int64_t length = lengths[static_cast<std::size_t>(b)];
      keys.push_back(static_cast<std::int32_t>(
          std::clamp<std::int64_t>(length - first * kCachePage, 0, (end - first) * kCachePage)));
    }
    Part out{upload(table), upload(keys), {}};
    AttentionArgs& args = out.args;
    const DType type = kind.bytes == 1 ? DType::fp8_e4m3 : DType::bf16;
    args.q = Tensor::dense(q.address(), DType::bf16, {rows(), kCacheHeadsQ, kind.depth});
    args.k =
        Tensor::dense(k.address(), type, {batch() * kCacheMaxPages, kCachePage, kind.heads_kv, kind.depth});
    if (kind.depth == kind.ov_depth) args.v = Tensor::dense(v.address(), type, args.k.shape);
    if (kind.bytes == 1)
      args.k_scale = args.v_scale = Tensor::dense(scales.address(), DType::f32, {kind.heads_kv});
    args.page_table = Tensor::dense(out.table.address(), DType::i32, {batch(), kCacheMaxPages});
    args.seqlens_k = Tensor::dense(out.keys.address(), DType::i32, {batch()});
    args.cu_seqlens_q = Tensor::dense(offsets.address(), DType::i32, {batch() + 1});
    args.max_seqlen_q = kind.queries;
    return out;
  }
  DeviceBuffer results() const {
    return upload(
        std::vector<std::uint16_t>(static_cast<std::size_t>(rows() * kCacheHeadsQ * kind.ov_depth), 0x7fc0));
  }
  Tensor o_of(const DeviceBuffer& buffer) const {
    return Tensor::dense(buffer.address(), DType::bf16, {rows(), kCacheHeadsQ, kind.ov_depth});
  }
};

}  // namespace

TEST_CASE("parts of latent and 8-bit caches give what one launch over the whole gives" *
          doctest::test_suite("breadth")) {
  const std::string head = R"({"target": "sm_80", "operation": "decode", "dtype": "bf16", )";
  const Kind kinds[] = {
      {"latent",
       head +
           R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "paged", "page_size": 64}})",
       1, 576, 512, 2},
      {"8 bits", head + R"("depth": 64, "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 64,
           "quantization": {"granularity": "per_head"}}})",
       2, 64, 64, 1},
      {"latent, three queries", head + R"("depth": 576, "ov_depth": 512, "v_from_k": true, "mask": "causal",
           "operand": {"kind": "paged", "page_size": 64}})",
       1, 576, 512, 2, 3},
      {"latent, three queries of sm_90a",
       R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 576,
           "ov_depth": 512, "v_from_k": true, "mask": "causal", "operand": {"kind": "paged", "page_size": 64}})",
       1, 576, 512, 2, 3},
      {"8 bits, a window", head + R"("depth": 64, "kv_dtype": "fp8_e4m3", "mask": {"sliding_window": 60},
           "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_head"}}})",
       2, 64, 64, 1, 2}};
  for (const Kind& kind : kinds) {
    CAPTURE(kind.name);
    const Config config = parse_config(kind.config, "test");
    const Pool cache(kind, {230, 50});  // the second sequence has no keys on rank 1
    const DeviceBuffer alone = cache.results();
    const Pool::Part whole = cache.part(0, kCacheMaxPages);
    AttentionArgs args = whole.args;
    args.o = cache.o_of(alone);
    const auto report = emulated().load(generate(make_plan(config)))->launch(args);
    REQUIRE(report->findings.empty());
    const DeviceBuffer shared[] = {cache.results(), cache.results()};
    LoopbackGroup group(2);
    std::string errors[2];
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const std::shared_ptr<Transport> transport = group.join(rank, emulated());
        try {
          ContextDecode decode(emulated(), config, transport, kCacheHeadsQ, cache.rows());
          Pool::Part part = cache.part(rank == 0 ? 0 : 2, rank == 0 ? 2 : kCacheMaxPages);
          part.args.o = cache.o_of(shared[rank]);
          decode.launch(part.args);
        } catch (const std::exception& error) {
          errors[rank] = error.what();
          transport->abort(error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(errors[0] == "");
    CHECK(errors[1] == "");
    const auto want = download<std::uint16_t>(alone), got = download<std::uint16_t>(shared[0]);
    double wrong = 0, exact = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double x = widen(want[i]), difference = widen(got[i]) - x;
      wrong += difference * difference, exact += x * x;
    }
    CHECK(exact > 0);
    CHECK(std::sqrt(wrong / exact) < 4e-3);
    CHECK(got == download<std::uint16_t>(shared[1]));
  }
}
