// Work items of ragged batches as a block's warp finds them (templates/ragged_items.cuh): each once, in an order that
// keeps all multiprocessors busy to the end.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <queue>

#include <fmt/format.h>

#include "generator/emit/prelude.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr int kBM = 128, kBN = 64;

struct Item {
  int sequence = 0, tile = 0, head = 0;
  auto operator<=>(const Item&) const = default;
};

/// One warp that writes all items of a batch to O, two int4 each; the one behind the last begins with -1.
KernelSource walk_source(int section_tiles) {
  Prelude prelude("sm90.cuh");
  prelude.use("ragged_items"), prelude.use("sequence_of_offsets");
  std::string text = prelude.lines().text();
  text += fmt::format(R"(
extern "C" __global__ void kernel(int4* o, const int* cu_seqlens_q, const int* cu_seqlens_k, int batch, int heads_q,
                                  int heads_kv) {{
  if (blockIdx.x + blockIdx.y + blockIdx.z != 0) return;
  const RaggedBatch lengths{{cu_seqlens_q, cu_seqlens_k, batch, 0}};
  RaggedItems items = first_items(lengths, threadIdx.x, heads_q, {0}, {1});
  for (int number = 0; number <= items.total; ++number)
    write_item(o + 2 * number, items, lengths, number, threadIdx.x, heads_q, heads_kv, {0}, {1}, {2});
}}
)",
                      kBM, kBN, section_tiles);
  KernelSource source = make_source("walk", text);
  Manifest& m = source.manifest;
  m.target = "sm_80";
  m.num_threads = 32;
  m.grid = {GridRule::Kind::tiles, kBM, 1};
  m.depth = m.ov_depth = 64;
  m.scale = 1;
  m.operand = OperandKind::ragged;
  for (const char* role : {"o", "cu_seqlens_q", "cu_seqlens_k"})
    m.params.push_back({ParamKind::pointer, role, {}});
  for (const char* role : {"batch", "heads_q", "heads_kv"}) m.params.push_back({ParamKind::i32, role, {}});
  return source;
}

struct Batch {
  std::vector<int> queries, keys;
  int heads_q = 1, heads_kv = 1, section_tiles = 512;
};

std::vector<Item> items_of(const Batch& b) {
  RuntimeOptions options = quiet();
  options.device = "emulated";
  Runtime runtime(options);
  const auto offsets = [&](const std::vector<int>& lengths) {
    std::vector<std::int32_t> out{0};
    for (const int length : lengths) out.push_back(out.back() + length);
    return out;
  };
  const auto cu_q = offsets(b.queries), cu_k = offsets(b.keys);
  const auto memory = [&](const std::vector<std::int32_t>& values) {
    DeviceBuffer buffer = runtime.allocate(values.size() * 4);
    buffer.write(std::as_bytes(std::span(values)));
    return buffer;
  };
  const DeviceBuffer q_table = memory(cu_q), k_table = memory(cu_k);
  const std::int64_t rows = std::max(cu_q.back(), 1), key_rows = std::max(cu_k.back(), 1);
  const DeviceBuffer o = runtime.allocate(static_cast<std::size_t>((rows + 128) * b.heads_q * 128));
  const DeviceBuffer kv = runtime.allocate(static_cast<std::size_t>(key_rows * b.heads_kv * 128));
  AttentionArgs args;
  args.q = args.o = Tensor::dense(o.address(), DType::bf16, {rows, b.heads_q, 64});
  args.k = args.v = Tensor::dense(kv.address(), DType::bf16, {key_rows, b.heads_kv, 64});
  const auto count = static_cast<std::int64_t>(cu_q.size());
  args.cu_seqlens_q = Tensor::dense(q_table.address(), DType::i32, {count});
  args.cu_seqlens_k = Tensor::dense(k_table.address(), DType::i32, {count});
  args.max_seqlen_q = *std::max_element(b.queries.begin(), b.queries.end());
  args.max_seqlen_k = *std::max_element(b.keys.begin(), b.keys.end());
  const auto report = runtime.load(walk_source(b.section_tiles))->launch(args);
  REQUIRE((report && report->completed && report->findings.empty()));
  std::vector<std::int32_t> words(o.size() / 4);
  o.read(std::as_writable_bytes(std::span(words)));
  std::vector<Item> items;
  for (std::size_t at = 0; at + 8 <= words.size() && words[at] >= 0; at += 8) {
    CHECK(words[at] % kBM == 0);
    items.push_back({words[at + 2], words[at] / kBM, words[at + 1]});
    const auto s = static_cast<std::size_t>(words[at + 2]);
    CHECK((words[at + 4] == cu_q[s] && words[at + 5] == b.queries[s]));
    CHECK((words[at + 6] == cu_k[s] && words[at + 7] == b.keys[s]));
  }
  return items;
}

std::vector<Item> all_items(const Batch& b) {
  std::vector<Item> items;
  for (std::size_t s = 0; s < b.queries.size(); ++s)
    for (int tile = 0; tile * kBM < b.queries[s]; ++tile)
      for (int head = 0; head < b.heads_q; ++head) items.push_back({static_cast<int>(s), tile, head});
  return items;
}

/// KV tiles that a causal item reads.
int work_of(const Batch& b, const Item& item) {
  const auto s = static_cast<std::size_t>(item.sequence);
  const int end = std::min(b.keys[s], (item.tile + 1) * kBM + b.keys[s] - b.queries[s]);
  return (std::max(end, 0) + kBN - 1) / kBN;
}

/// When the last block is done, over the least possible: blocks take the next item when they begin one.
double imbalance(const Batch& b, const std::vector<Item>& items, int blocks) {
  std::size_t next = 0;
  const auto take = [&] { return next < items.size() ? work_of(b, items[next++]) : 0; };
  using Block = std::pair<int, int>;  // when it is done, what it does then
  std::priority_queue<Block, std::vector<Block>, std::greater<>> queue;
  std::vector<int> first(static_cast<std::size_t>(blocks));
  for (int& work : first) work = take();
  for (const int work : first) queue.push({work, take()});
  int end = 0, sum = 0, longest = 1;
  for (const Item& item : items) sum += work_of(b, item), longest = std::max(longest, work_of(b, item));
  while (!queue.empty()) {
    const auto [done, work] = queue.top();
    queue.pop();
    end = std::max(end, done);
    if (work > 0) queue.push({done + work, take()});
  }
  return end / std::max(static_cast<double>(sum) / blocks, static_cast<double>(longest));
}

}  // namespace

TEST_CASE("every item of a ragged batch is found once") {
  std::vector<int> many;
  for (int i = 0; i < 70; ++i) many.push_back(i * 37 % 900);
  for (const Batch& b :
       {Batch{{0, 1, 127, 128, 129, 1000}, {0, 1, 127, 128, 129, 1000}, 4, 2, 16},
        Batch{{64, 512}, {4096, 70}, 3, 1, 8}, Batch{many, many, 2, 2, 4}, Batch{many, many, 4, 1, 512},
        Batch{{0, 7}, {5, 0}, 2, 1, 16}, Batch{{2048, 2048}, {2048, 2048}, 8, 8, 64}}) {
    auto items = items_of(b);
    CHECK(items.size() == all_items(b).size());
    std::sort(items.begin(), items.end());
    CHECK(items == all_items(b));
  }
}

TEST_CASE("the order of items leaves few blocks idle at the end, also where lengths are powers of two") {
  const auto equal = [](int sequences, int length, int heads_q, int heads_kv) {
    const std::vector<int> lengths(static_cast<std::size_t>(sequences), length);
    return Batch{lengths, lengths, heads_q, heads_kv, 512};
  };
  for (const auto& [b, most] : {std::pair{equal(2, 4096, 16, 16), 1.03},
                                {equal(4, 2048, 16, 16), 1.06},
                                {equal(16, 1024, 8, 8), 1.06},
                                {equal(1, 8192, 32, 8), 1.02}}) {
    CAPTURE(b.queries.size());
    CHECK(imbalance(b, items_of(b), 132) < most);
  }
}
