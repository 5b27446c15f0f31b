// Context parallel attention measured: a process for each GPU, prefill of long sequences and decode of long caches
// against one GPU, how much of the communication is hidden, and what happens when a rank is killed.
//
//   kiln_context_parallel [--ranks N] [--quick] [--decode] [--drill] [--emulated] [--nccl PATH]
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <kiln/context_parallel.hpp>
#include <kiln/kiln.hpp>

using namespace kiln;

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Options {
  int ranks = 2;
  bool quick = false, decode = false, drill = false, emulated = false;
  std::string nccl;
  std::vector<std::int64_t> lengths;  ///< empty: 128k to 1M
  std::int64_t heads_q = 8, heads_kv = 2, depth = 128;
  const char* target() const { return emulated ? "sm_80" : "sm_90a"; }
};

/// One rank: what it works with.
struct Rank {
  const Options& options;
  Runtime& runtime;
  std::shared_ptr<Transport> transport;
  bool first() const { return transport->rank() == 0; }

  /// Until every rank is here.
  void meet() {
    DeviceBuffer token = runtime.allocate(static_cast<std::size_t>(16 * (transport->size() + 1)));
    token.fill(std::byte{0});
    std::vector<Message> sends, receives;
    for (int rank = 0; rank < transport->size(); ++rank) {
      sends.push_back({token.address(), 16, rank});
      receives.push_back({token.address() + 16 * (static_cast<std::uint64_t>(rank) + 1), 16, rank});
    }
    transport->start(sends, receives, 0);
    transport->finish(0);
    transport->synchronize(0);
  }
  /// Seconds of one of `count` calls.
  double round(int count, const std::function<void()>& work) {
    meet();
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) work();
    transport->synchronize(0);
    return seconds_since(start) / count;
  }
  /// Seconds of one of the calls in half a second, after half a second of calls by themselves: a GPU at its power limit
  /// has one clock for a first launch and another for those that go on. All ranks make the same number of calls.
  double sustained(const std::function<void()>& work) {
    const double once = longest(round(1, work));
    const int count = options.emulated ? 1 : std::clamp(static_cast<int>(0.5 / once), 1, 100);
    round(count, work);
    return longest(round(count, work));
  }
  /// The median of three rounds, after one that does not count.
  double time(int count, const std::function<void()>& work) {
    std::array<double, 4> rounds{};
    for (double& one : rounds) one = round(count, work);
    std::sort(rounds.begin() + 1, rounds.end());
    return rounds[2];
  }
  /// The longest of all ranks' times.
  double longest(double seconds) {
    const auto own = static_cast<std::uint64_t>(transport->rank());
    DeviceBuffer all = runtime.allocate(16 * static_cast<std::size_t>(transport->size()));
    all.fill(std::byte{0});
    all.write(std::as_bytes(std::span(&seconds, 1)), 16 * own);
    transport->collect(all.address(), 16, 0);
    transport->synchronize(0);
    for (int rank = 0; rank < transport->size(); ++rank) {
      double other = 0;
      all.read(std::as_writable_bytes(std::span(&other, 1)), 16 * static_cast<std::size_t>(rank));
      seconds = std::max(seconds, other);
    }
    return seconds;
  }
};

/// Exchanges that do not happen while it is quiet: what is left is the computing, over what came before.
class Silent final : public Transport {
 public:
  explicit Silent(std::shared_ptr<Transport> real) : real_(std::move(real)) {}
  bool quiet = false;
  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  void start(std::span<const Message> sends, std::span<const Message> receives,
             std::uint64_t stream) override {
    if (!quiet) real_->start(sends, receives, stream);
  }
  void finish(std::uint64_t stream) override {
    if (!quiet) real_->finish(stream);
  }
  void collect(std::uint64_t blocks, std::size_t bytes, std::uint64_t stream) override {
    if (!quiet) real_->collect(blocks, bytes, stream);
  }
  std::uint64_t fork(std::uint64_t stream) override { return real_->fork(stream); }
  void join(std::uint64_t stream) override { real_->join(stream); }
  void synchronize(std::uint64_t stream) override { real_->synchronize(stream); }
  void abort(const std::string& reason) noexcept override { real_->abort(reason); }

 private:
  std::shared_ptr<Transport> real_;
};

/// `rows` rows of BF16, of a block of random numbers in turns: row i of a tensor has the same values wherever it is.
struct Values {
  static constexpr std::int64_t kBlock = 4093;  // rows; prime, so that blocks do not fall on tiles
  std::int64_t width;
  std::vector<std::uint16_t> block;
  Values(std::int64_t w, std::uint64_t seed) : width(w), block(static_cast<std::size_t>(kBlock * w)) {
    std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (auto& value : block) {
      float sum = 0;
      for (int i = 0; i < 4; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += static_cast<float>(state >> 40) / 16777216.0f - 0.5f;
      }
      const float x = sum * 1.7f;
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, 4);
      value = static_cast<std::uint16_t>(bits >> 16);
    }
  }
  void write(DeviceBuffer& to, std::int64_t at, Run run) const {
    for (std::int64_t row = run.first; row < run.end();) {
      const std::int64_t inside = row % kBlock, count = std::min(run.end() - row, kBlock - inside);
      to.write(std::as_bytes(std::span(block).subspan(static_cast<std::size_t>(inside * width),
                                                      static_cast<std::size_t>(count * width))),
               static_cast<std::size_t>((at + row - run.first) * width * 2));
      row += count;
    }
  }
};

Config prefill_config(const Options& o, const char* operand) {
  return parse_config(fmt::format(R"({{"target": "{}", "operation": "prefill", "dtype": "bf16", "depth": {},
      "mask": "causal", "operand": {{"kind": "{}"}}}})",
                                  o.target(), o.depth, operand),
                      "bench");
}

/// Q, K, V and O of the given rows of one sequence.
struct PrefillTensors {
  DeviceBuffer q, k, v, o;
  std::int64_t rows;
  PrefillTensors(Rank& rank, std::span<const Run> runs) : rows(0) {
    const Options& s = rank.options;
    for (const Run& run : runs) rows += run.rows;
    const auto bytes = [&](std::int64_t heads) {
      return static_cast<std::size_t>(rows * heads * s.depth * 2);
    };
    q = rank.runtime.allocate(bytes(s.heads_q)), o = rank.runtime.allocate(bytes(s.heads_q));
    k = rank.runtime.allocate(bytes(s.heads_kv)), v = rank.runtime.allocate(bytes(s.heads_kv));
    const Values q_values(s.heads_q * s.depth, 1), k_values(s.heads_kv * s.depth, 2),
        v_values(s.heads_kv * s.depth, 3);
    std::int64_t at = 0;
    for (const Run& run : runs) {
      q_values.write(q, at, run), k_values.write(k, at, run), v_values.write(v, at, run);
      at += run.rows;
    }
    o.fill(std::byte{0xff});
  }
  Tensor tensor(const DeviceBuffer& buffer, std::int64_t heads, std::int64_t depth) const {
    return Tensor::dense(buffer.address(), DType::bf16, {rows, heads, depth});
  }
};

/// One GPU, the whole sequence, by the kernel for it alone.
struct Alone {
  Rank& rank;
  std::shared_ptr<Kernel> kernel;
  PrefillTensors tensors;
  AttentionArgs args;
  Alone(Rank& r, std::int64_t length)
      : rank(r),
        kernel(r.runtime.load(generate(make_plan(prefill_config(r.options, "contiguous"))))),
        tensors(r, std::array{Run{0, length}}) {
    const Options& s = r.options;
    const auto batched = [&](const DeviceBuffer& buffer, std::int64_t heads) {
      return Tensor::dense(buffer.address(), DType::bf16, {1, length, heads, s.depth});
    };
    args.q = batched(tensors.q, s.heads_q), args.o = batched(tensors.o, s.heads_q);
    args.k = batched(tensors.k, s.heads_kv), args.v = batched(tensors.v, s.heads_kv);
  }
  void launch() { kernel->launch(args); }
};

float widen(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float x = 0;
  std::memcpy(&x, &word, 4);
  return x;
}

/// A rank's prefill of one sequence.
struct Shared {
  ContextPrefill prefill;
  std::unique_ptr<PrefillTensors> tensors;
  ContextPrefill::Args args;
  Shared(Rank& rank, std::int64_t length, PrefillWay way, std::shared_ptr<Transport> transport)
      : prefill(rank.runtime, prefill_config(rank.options, "ragged"), std::move(transport),
                options_of(rank, way)) {
    const std::int64_t lengths[] = {length};
    prefill.set_batch(lengths);
    const std::array runs{prefill.run(0, 0), prefill.run(0, 1)};
    tensors = std::make_unique<PrefillTensors>(rank, runs);
    const Options& s = rank.options;
    args.q = tensors->tensor(tensors->q, s.heads_q, s.depth),
    args.o = tensors->tensor(tensors->o, s.heads_q, s.depth);
    args.k = tensors->tensor(tensors->k, s.heads_kv, s.depth),
    args.v = tensors->tensor(tensors->v, s.heads_kv, s.depth);
  }
  static ContextParallelOptions options_of(const Rank& rank, PrefillWay way) {
    ContextParallelOptions options;
    options.heads_q = rank.options.heads_q, options.heads_kv = rank.options.heads_kv, options.way = way;
    return options;
  }
};

const char* name_of(PrefillWay way) {
  return way == PrefillWay::ring ? "ring" : "gather";
}

/// Relative Frobenius distance of a rank's rows from those that its device computes alone.
void check_prefill(Rank& rank, std::int64_t length) {
  Alone alone(rank, length);
  alone.launch();
  rank.runtime.synchronize();
  const auto row = static_cast<std::size_t>(rank.options.heads_q * rank.options.depth);
  std::vector<std::uint16_t> want(static_cast<std::size_t>(length) * row);
  alone.tensors.o.read(std::as_writable_bytes(std::span(want)));
  for (const PrefillWay way : {PrefillWay::ring, PrefillWay::gather}) {
    Shared shared(rank, length, way, rank.transport);
    shared.prefill.launch(shared.args);
    rank.transport->synchronize(0);
    std::vector<std::uint16_t> got(static_cast<std::size_t>(shared.tensors->rows) * row);
    shared.tensors->o.read(std::as_writable_bytes(std::span(got)));
    double wrong = 0, exact = 0;
    std::size_t at = 0;
    for (const int which : {0, 1}) {
      const Run run = shared.prefill.run(0, which);
      for (std::size_t i = 0; i < static_cast<std::size_t>(run.rows) * row; ++i, ++at) {
        const double x = widen(want[static_cast<std::size_t>(run.first) * row + i]), y = widen(got[at]);
        wrong += (x - y) * (x - y), exact += x * x;
      }
    }
    std::printf("check rank %d %s: %ld of %ld rows, relative distance from one device %.2e\n",
                rank.transport->rank(), name_of(way), static_cast<long>(shared.tensors->rows),
                static_cast<long>(length), std::sqrt(wrong / exact));
    std::fflush(stdout);
    if (!(std::sqrt(wrong / exact) < 4e-3)) throw std::runtime_error("prefill of the group is wrong");
  }
}

/// Bytes to the next rank and from the one before, as a ring step has them.
double exchange_seconds(Rank& rank, std::int64_t rows) {
  const auto bytes = static_cast<std::size_t>(rows * rank.options.heads_kv * rank.options.depth * 2);
  const int ranks = rank.transport->size(), own = rank.transport->rank();
  const DeviceBuffer from = rank.runtime.allocate(2 * bytes), to = rank.runtime.allocate(2 * bytes);
  return rank.time(1, [&] {
    for (int step = 1; step < ranks; ++step) {
      const Message sends[] = {{from.address(), 2 * bytes, (own + 1) % ranks}};
      const Message receives[] = {{to.address(), 2 * bytes, (own + ranks - 1) % ranks}};
      rank.transport->start(sends, receives, 0);
      rank.transport->finish(0);
    }
  });
}

/// One GPU, the group, and the group without exchanges, each sustained, in turns: medians of three after one that
/// compiles and warms up.
void time_prefill(Rank& rank, std::int64_t length) {
  const int ranks = rank.transport->size();
  const double exchange_s = rank.longest(exchange_seconds(rank, length / ranks));
  const double flops = 2.0 * static_cast<double>(length) * static_cast<double>(length) *
                       static_cast<double>(rank.options.heads_q * rank.options.depth);
  for (const PrefillWay way : {PrefillWay::ring, PrefillWay::gather}) {
    Alone alone(rank, length);
    const auto silent = std::make_shared<Silent>(rank.transport);
    Shared shared(rank, length, way, silent);
    std::array<std::array<double, 4>, 3> times{};
    for (std::size_t round = 0; round < 4; ++round) {
      times[0][round] = rank.sustained([&] { alone.launch(); });
      silent->quiet = false;
      times[1][round] = rank.sustained([&] { shared.prefill.launch(shared.args); });
      silent->quiet = true;
      times[2][round] = rank.sustained([&] { shared.prefill.launch(shared.args); });
    }
    for (auto& one : times) std::sort(one.begin() + 1, one.end());
    const double alone_s = times[0][2], shared_s = times[1][2], silent_s = times[2][2];
    if (!rank.first()) continue;
    PrefillShape shape;
    shape.lengths = {length};
    shape.heads_q = rank.options.heads_q, shape.heads_kv = rank.options.heads_kv;
    shape.depth = shape.ov_depth = rank.options.depth;
    ParallelCosts costs;
    costs.flops_per_us = flops / alone_s / 1e6;
    const PrefillEstimate estimate = estimate_prefill(shape, ranks, costs);
    const double hidden = 1 - (shared_s - silent_s) / exchange_s;
    std::printf(
        "prefill %ld %s: one %.3f ms (%.0f TFLOP/s), %d ranks %.3f ms, speed-up %.3f, model %.3f ms; exchange alone "
        "%.3f ms, computing alone %.3f ms, hidden %.0f %%\n",
        static_cast<long>(length), name_of(way), alone_s * 1e3, flops / alone_s / 1e12, ranks, shared_s * 1e3,
        alone_s / shared_s, (way == PrefillWay::ring ? estimate.ring_us : estimate.gather_us) / 1e3,
        exchange_s * 1e3, silent_s * 1e3, 100 * std::clamp(hidden, 0.0, 1.0));
    std::fflush(stdout);
  }
}

/// A step over a batch of caches of `keys` keys each: the last `queries` rows of each, causal where there are several,
/// which see `window` keys each (0: all).
struct DecodeCase {
  std::int64_t batch, keys;
  int count;  ///< steps timed one after another
  std::int64_t queries = 1, window = 0;
  bool by_place() const { return queries > 1 || window > 0; }
};

Config decode_config(const Options& o, const DecodeCase& c) {
  const std::string mask = c.window > 0    ? fmt::format(R"({{"sliding_window": {}}})", c.window)
                           : c.queries > 1 ? R"("causal")"
                                           : R"("none")";
  return parse_config(fmt::format(R"({{"target": "{}", "operation": "decode", "dtype": "bf16", "depth": {},
      "mask": {}, "operand": {{"kind": "paged", "page_size": 64}}}})",
                                  o.target(), o.depth, mask),
                      "bench");
}

/// The caches of a step, or the part of them that this rank has: keys from `first` to `end` of each.
struct Caches {
  DeviceBuffer q, k, v, o, table, lengths, offsets, ends;
  AttentionArgs args;
  Caches(Rank& rank, const DecodeCase& step, std::int64_t first, std::int64_t end, std::int64_t heads_q,
         std::int64_t heads_kv) {
    const std::int64_t batch = step.batch, rows = batch * step.queries, keys = end - first;
    constexpr std::int64_t kPage = 64;
    const std::int64_t depth = rank.options.depth, pages = (keys + kPage - 1) / kPage;
    const auto take = [&](std::int64_t elements, std::int64_t bytes) {
      return rank.runtime.allocate(static_cast<std::size_t>(elements * bytes));
    };
    q = take(rows * heads_q * depth, 2), o = take(rows * heads_q * depth, 2);
    k = take(batch * pages * kPage * heads_kv * depth, 2),
    v = take(batch * pages * kPage * heads_kv * depth, 2);
    const Values cached(heads_kv * depth, 5), queries(heads_q * depth, 6);
    cached.write(k, 0, {0, batch * pages * kPage}), cached.write(v, 0, {7, batch * pages * kPage});
    queries.write(q, 0, {0, rows});
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(batch * pages));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i);
    const auto send = [&](const std::vector<std::int32_t>& values) {
      DeviceBuffer buffer = take(static_cast<std::int64_t>(values.size()), 4);
      buffer.write(std::as_bytes(std::span(values)));
      return buffer;
    };
    table = send(numbers);
    lengths =
        send(std::vector<std::int32_t>(static_cast<std::size_t>(batch), static_cast<std::int32_t>(keys)));
    std::vector<std::int32_t> starts;
    for (std::int64_t b = 0; b <= batch; ++b) starts.push_back(static_cast<std::int32_t>(b * step.queries));
    offsets = send(starts);
    ends = send(std::vector<std::int32_t>(static_cast<std::size_t>(batch),
                                          static_cast<std::int32_t>(step.keys - first)));
    args.q = Tensor::dense(q.address(), DType::bf16, {rows, heads_q, depth});
    args.o = Tensor::dense(o.address(), DType::bf16, {rows, heads_q, depth});
    args.k = Tensor::dense(k.address(), DType::bf16, {batch * pages, kPage, heads_kv, depth});
    args.v = Tensor::dense(v.address(), DType::bf16, {batch * pages, kPage, heads_kv, depth});
    args.page_table = Tensor::dense(table.address(), DType::i32, {batch, pages});
    args.seqlens_k = Tensor::dense(lengths.address(), DType::i32, {batch});
    args.cu_seqlens_q = Tensor::dense(offsets.address(), DType::i32, {batch + 1});
    args.max_seqlen_q = step.queries, args.max_seqlen_k = keys;
    if (step.by_place()) args.query_ends = Tensor::dense(ends.address(), DType::i32, {batch});
  }
};

/// The driver's graphs, for which kiln has no use of its own.
struct Graphs {
  int (*retain)(void**, int) = nullptr;
  int (*use)(void*) = nullptr;
  int (*create)(void**, unsigned) = nullptr;
  int (*begin)(void*, int) = nullptr;
  int (*end)(void*, void**) = nullptr;
  int (*instantiate)(void**, void*, unsigned long long) = nullptr;
  int (*launch)(void*, void*) = nullptr;
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(driver, name));
    if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  }
  /// Makes the device's context, which kiln has for each of its calls, the thread's own.
  explicit Graphs(int device) {
    find(retain, "cuDevicePrimaryCtxRetain"), find(use, "cuCtxSetCurrent");
    find(create, "cuStreamCreate"), find(begin, "cuStreamBeginCapture_v2"), find(end, "cuStreamEndCapture");
    find(instantiate, "cuGraphInstantiateWithFlags"), find(launch, "cuGraphLaunch");
    void* context = nullptr;
    if (retain(&context, device) != 0 || use(context) != 0)
      throw std::runtime_error("the device has no context");
  }
};

void must(int result, const char* what) {
  if (result != 0) throw std::runtime_error(fmt::format("{}: error {}", what, result));
}

/// Seconds of one of `count` replays of a captured decode step, whose results are those of the step itself.
double time_graph(Rank& rank, int count, ContextDecode& decode, const AttentionArgs& args) {
  const auto results = [&] {
    std::vector<std::uint16_t> values(
        static_cast<std::size_t>(args.q.shape[0] * args.q.shape[1] * args.q.shape[2]));
    DeviceBuffer copy = rank.runtime.allocate(values.size() * 2);
    const Message one[] = {{args.o.address, values.size() * 2, rank.transport->rank()}};
    const Message other[] = {{copy.address(), values.size() * 2, rank.transport->rank()}};
    rank.transport->start(one, other, 0);
    rank.transport->finish(0);
    rank.transport->synchronize(0);
    copy.read(std::as_writable_bytes(std::span(values)));
    return values;
  };
  const auto want = results();
  DeviceBuffer poison = rank.runtime.allocate(want.size() * 2);
  poison.fill(std::byte{0xff});
  Graphs graphs(rank.transport->rank());
  void *stream = nullptr, *graph = nullptr, *ready = nullptr;
  must(graphs.create(&stream, 1), "cuStreamCreate");
  LaunchOptions options;
  options.stream = reinterpret_cast<std::uint64_t>(stream);
  decode.launch(args, options);  // memory that a stream needs is taken before the capture
  rank.transport->synchronize(options.stream);
  must(graphs.begin(stream, 2), "cuStreamBeginCapture");
  decode.launch(args, options);
  must(graphs.end(stream, &graph), "cuStreamEndCapture");
  must(graphs.instantiate(&ready, graph, 0), "cuGraphInstantiate");
  const Message bad[] = {{poison.address(), want.size() * 2, rank.transport->rank()}};
  const Message over[] = {{args.o.address, want.size() * 2, rank.transport->rank()}};
  rank.transport->start(bad, over, 0);
  rank.transport->finish(0);
  rank.transport->synchronize(0);
  std::array<double, 4> rounds{};
  for (double& seconds : rounds) {
    rank.meet();
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) must(graphs.launch(ready, stream), "cuGraphLaunch");
    rank.transport->synchronize(options.stream);
    seconds = seconds_since(start) / count;
  }
  if (results() != want) throw std::runtime_error("a replayed step gives other results");
  std::sort(rounds.begin() + 1, rounds.end());
  return rounds[2];
}

/// A step by one result and way, timed.
double time_result(Rank& rank, const DecodeCase& step, const Caches& part, std::int64_t heads_q,
                   const ContextDecodeOptions& options) {
  const std::int64_t rows = part.args.q.shape[0], ranks = rank.transport->size(), depth = rank.options.depth;
  AttentionArgs args = part.args;
  if (options.result == DecodeResult::heads)
    args.o = Tensor::dense(args.o.address, args.o.dtype, {rows, heads_q / ranks, depth});
  if (options.result == DecodeResult::queries)
    for (Tensor* tensor : {&args.q, &args.o})
      *tensor = Tensor::dense(tensor->address, tensor->dtype, {rows / ranks, heads_q, depth});
  ContextDecode decode(rank.runtime, decode_config(rank.options, step), rank.transport, heads_q, rows,
                       options);
  return rank.time(step.count, [&] { decode.launch(args); });
}

/// What the ways of merging take, beside the model.
void time_results(Rank& rank, const DecodeCase& step, const Caches& part, const DecodeStep& shape,
                  const ParallelCosts& costs) {
  const int ranks = rank.transport->size();
  const DecodeEstimate model = estimate_decode(shape, ranks, costs);
  const auto print = [&](const char* name, const ContextDecodeOptions& options, double model_us) {
    const double seconds = time_result(rank, step, part, shape.heads_q, options);
    if (rank.first()) std::printf("  %s %.1f us, model %.1f us\n", name, seconds * 1e6, model_us);
  };
  print("gather", {.way = DecodeWay::gather}, model.gather_us);
  print("spread", {.way = DecodeWay::spread}, model.spread_us);
  if (shape.heads_q % ranks == 0) print("heads", {.result = DecodeResult::heads}, model.heads_us);
  if (shape.rows % ranks == 0) print("queries", {.result = DecodeResult::queries}, model.queries_us);
  std::fflush(stdout);
}

void time_decode(Rank& rank, const DecodeCase& step) {
  const auto [batch, keys, count, queries, window] = step;
  const std::int64_t heads_q = 4 * rank.options.heads_q, heads_kv = 4 * rank.options.heads_kv;
  const int ranks = rank.transport->size();
  double alone_s = 0;
  {
    Caches whole(rank, step, 0, keys, heads_q, heads_kv);
    whole.args.query_ends.reset();
    const auto kernel = rank.runtime.load(generate(make_plan(decode_config(rank.options, step))));
    alone_s = rank.time(count, [&] { kernel->launch(whole.args); });
  }
  const std::int64_t own = rank.transport->rank();
  Caches part(rank, step, keys * own / ranks, keys * (own + 1) / ranks, heads_q, heads_kv);
  const Config config = decode_config(rank.options, step);
  ContextDecode decode(rank.runtime, config, rank.transport, heads_q, batch * queries);
  const double shared_s = rank.time(count, [&] { decode.launch(part.args); });
  const double graph_s = rank.options.emulated ? 0 : time_graph(rank, count, decode, part.args);
  const auto quiet = std::make_shared<Silent>(rank.transport);
  ContextDecode silent(rank.runtime, config, quiet, heads_q, batch * queries);
  silent.launch(part.args);
  quiet->quiet = true;
  const double silent_s = rank.time(count, [&] { silent.launch(part.args); });
  DecodeStep shape;
  const std::int64_t read = window > 0 ? std::min(window + queries - 1, keys) : keys;
  shape.cache_bytes = static_cast<double>(batch * read * heads_kv * rank.options.depth) * 4;
  shape.rows = batch * queries, shape.heads_q = heads_q, shape.depth = shape.ov_depth = rank.options.depth;
  ParallelCosts costs;
  costs.memory_bytes_per_us = shape.cache_bytes / alone_s / 1e6;
  const DecodeEstimate model = estimate_decode(shape, ranks, costs);
  if (rank.first())
    std::printf(
        "decode %ld x %ld, %ld queries, window %ld (%.1f GB): one %.1f us (%.2f TB/s), %d ranks %.1f us, speed-up "
        "%.3f, model %.1f us; as a graph %.1f us, without the exchange %.1f us\n",
        static_cast<long>(batch), static_cast<long>(keys), static_cast<long>(queries),
        static_cast<long>(window), shape.cache_bytes / 1e9, alone_s * 1e6, costs.memory_bytes_per_us / 1e6,
        ranks, shared_s * 1e6, alone_s / shared_s, std::min(model.gather_us, model.spread_us), graph_s * 1e6,
        silent_s * 1e6);
  time_results(rank, step, part, shape, costs);
}

/// The last rank dies in the middle; the others get an error within the timeout.
void drill(Rank& rank, std::int64_t length) {
  Shared shared(rank, length, PrefillWay::ring, rank.transport);
  shared.prefill.launch(shared.args);
  rank.transport->synchronize(0);
  const auto start = Clock::now();
  try {
    for (int i = 0; i < 1000; ++i) {
      if (i == 3 && rank.transport->rank() == rank.transport->size() - 1) ::kill(::getpid(), SIGKILL);
      shared.prefill.launch(shared.args);
      rank.transport->synchronize(0);
    }
  } catch (const Error& error) {
    std::printf("drill rank %d: error after %.2f s: %s\n", rank.transport->rank(), seconds_since(start),
                error.what());
    std::fflush(stdout);
    return;
  }
  throw std::runtime_error("a rank was killed and nobody noticed");
}

std::vector<DecodeCase> decode_cases(const Options& o) {
  if (o.emulated) return {{1, 512, 1}, {4, 128, 1}, {2, 256, 1, 4}, {2, 256, 1, 2, 150}};
  std::vector<DecodeCase> cases{{1, 1048576, 50}, {16, 131072, 30}};
  if (o.quick) return cases;
  cases.insert(cases.end(), {{1, 131072, 100}, {64, 8192, 50}});
  cases.push_back({1024, 1024, 50});  // where the exchange counts
  cases.insert(cases.end(), {{1, 1048576, 50, 4}, {16, 131072, 30, 4}, {16, 131072, 30, 1, 98304}});
  return cases;
}

void work(Rank rank) {
  const Options& o = rank.options;
  if (o.drill) return drill(rank, o.emulated ? 256 : 65536);
  if (!o.decode) check_prefill(rank, o.emulated ? 200 : 16384);
  std::vector<std::int64_t> lengths = o.lengths;
  if (lengths.empty()) lengths = {131072, 262144, 524288, 1048576};
  if (o.quick && o.lengths.empty()) lengths = {131072};
  if (o.emulated) lengths = {256};
  for (const DecodeCase& step : decode_cases(o)) time_decode(rank, step);
  if (o.decode) return;
  for (const std::int64_t length : lengths) time_prefill(rank, length);
}

/// What the processes share before there is a communicator.
struct Board {
  std::atomic<int> ready{0};
  NcclId id{};
};

int run_rank(const Options& options, Board& board, int rank) {
  try {
    RuntimeOptions runtime_options;
    runtime_options.device = fmt::format("cuda:{}", rank);
    Runtime runtime(runtime_options);
    runtime.device();
    NcclOptions nccl;
    nccl.rank = rank, nccl.size = options.ranks, nccl.device = rank, nccl.library = options.nccl;
    nccl.timeout_seconds = options.drill ? 5 : 90;
    if (rank == 0) board.id = make_nccl_id(options.nccl), board.ready = 1;
    while (board.ready == 0) std::this_thread::yield();
    if (board.ready < 0) return 1;
    nccl.id = board.id;
    work({options, runtime, make_nccl_transport(nccl)});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    if (board.ready == 0) board.ready = -1;
    return 1;
  }
}

int run_processes(const Options& options) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Board& board = *new (memory) Board;
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(run_rank(options, board, rank));
    children.push_back(child);
  }
  int failed = 0;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    const bool killed = options.drill && rank + 1 == children.size() && WIFSIGNALED(status);
    if (!killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) failed = 1;
  }
  return failed;
}

int run_threads(const Options& options) {
  RuntimeOptions runtime_options;
  runtime_options.device = "emulated";
  Runtime runtime(runtime_options);
  LoopbackGroup group(options.ranks);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work({options, runtime, group.join(rank, runtime)});
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        failed = 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Context parallel prefill and decode against one GPU");
  app.add_option("--ranks", options.ranks, "GPUs, a process each")->check(CLI::Range(1, 64));
  app.add_flag("--quick", options.quick, "one length, unless --lengths names them");
  app.add_option("--lengths", options.lengths, "of prefill; default 128k to 1M")->delimiter(',');
  app.add_flag("--decode", options.decode, "decode alone");
  app.add_flag("--drill", options.drill, "kill the last rank in the middle, and see what the others get");
  app.add_flag("--emulated", options.emulated,
               "tiny, threads on the emulated device: whether the program works");
  app.add_option("--nccl", options.nccl, "path of libnccl.so.2");
  CLI11_PARSE(app, argc, argv);
  if (options.emulated && options.drill)
    return std::fputs("--drill kills a process; --emulated has threads\n", stderr), 2;
  if (options.emulated) options.depth = 64, options.heads_q = 2, options.heads_kv = 1;
  return options.emulated ? run_threads(options) : run_processes(options);
}
