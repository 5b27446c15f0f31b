// Decode of sequences that begin with the same pages: a cascade, which reads those once for all, beside one
// launch that reads them for each sequence. Compares the results and times both over the caches of several
// layers.
//
//   kiln_shared_prefix [options]; --help lists them
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include <CLI/CLI.hpp>
#include <kiln/cascade.hpp>
#include <kiln/kiln.hpp>
#include <kiln/kv_cache.hpp>

namespace {

using namespace kiln;

struct Options {
  std::string config, device;
  std::int64_t batch = 64, prefix = 8192, own = 4096, heads_q = 32, heads_kv = 8, layers = 0, rounds = 20;
};

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::bad_input, what);
}

void declare(CLI::App& app, Options& options) {
  const auto number = [&](const char* name, std::int64_t& value, std::int64_t least, const char* what) {
    app.add_option(name, value, what)->check(CLI::Range(least, std::int64_t{1} << 24))->capture_default_str();
  };
  app.add_option("--config", options.config,
                 "Decode config over pages (default: BF16, depth 128, pages of 64)");
  app.add_option("--device", options.device, "cuda, cuda:N, hip, emulated (default: the first there is)");
  number("--batch", options.batch, 1, "Sequences");
  number("--prefix", options.prefix, 0, "Keys that all sequences share");
  number("--own", options.own, 1, "Keys of each sequence alone");
  number("--heads-q", options.heads_q, 1, "Query heads");
  number("--heads-kv", options.heads_kv, 1, "KV heads");
  number("--layers", options.layers, 0, "Caches in turns (0: as many as it takes to leave L2)");
  number("--rounds", options.rounds, 1, "Timed rounds");
}

Config config_for(const Options& options, Runtime& runtime) {
  if (options.config.empty()) {
    const std::string target = runtime.device().target == "sm_90a" ? "sm_90a" : "sm_80";
    Config config = parse_config(R"({"target": ")" + target +
                                     R"(", "operation": "decode", "dtype": "bf16", "depth": 128, "lse": true,
                                "operand": {"kind": "paged", "page_size": 64}})",
                                 "the built-in config");
    const std::int64_t group =
        std::max<std::int64_t>(options.heads_q / std::max<std::int64_t>(options.heads_kv, 1), 1);
    if (group <= 128) config.group = static_cast<int>(group);  // query heads that share a tile of keys
    return config;
  }
  std::ifstream in(options.config);
  if (!in) fail("cannot read '" + options.config + "'");
  std::stringstream text;
  text << in.rdbuf();
  Config config = parse_config(text.str(), options.config);
  config.lse = true;
  return config;
}

/// Memory full of random BF16 numbers: a block of them again and again, each time from another place on.
DeviceBuffer random_numbers(Runtime& runtime, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> block((1u << 20) + 4099);
  for (std::uint16_t& bits : block) {
    const float value = normal(random);
    std::uint32_t word = 0;
    std::memcpy(&word, &value, 4);
    bits = static_cast<std::uint16_t>((word + 0x8000u) >> 16);
  }
  DeviceBuffer buffer = runtime.allocate(2 * count, "random numbers");
  const auto bytes = std::as_bytes(std::span(block));
  for (std::size_t at = 0, turn = 0; at < 2 * count; ++turn) {
    const std::size_t size = std::min<std::size_t>(2u << 20, 2 * count - at);
    buffer.write(bytes.subspan(2 * (turn % 4099), size), at);
    at += size;
  }
  return buffer;
}

float widen(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &word, 4);
  return value;
}

class Comparison {
 public:
  Comparison(const Options& options, Runtime& runtime)
      : options_(options),
        runtime_(runtime),
        config_(config_for(options, runtime)),
        plain_(runtime.load(generate(make_plan(config_)))),
        page_(plain_->manifest().page_size),
        depth_(plain_->manifest().depth),
        pages_(pages_of(options.prefix) + options.batch * pages_of(options.own + page()), page()),
        batch_(runtime, options.batch, max_pages()),
        cascade_(runtime, config_, options.batch, max_pages(), options.batch, options.heads_q) {
    const Manifest& m = plain_->manifest();
    if (m.operation != Operation::decode || m.operand != OperandKind::paged || m.dtype != DType::bf16 ||
        m.kv_dtype != DType::bf16 || m.depth != m.ov_depth)
      fail("the comparison wants a paged BF16 decode config with rows of one depth");
    fill_batch();
    const auto values = static_cast<std::size_t>(options.batch * options.heads_q * depth_);
    q_ = random_numbers(runtime, values, 1);
    for (DeviceBuffer* o : {&o_, &plain_o_}) *o = runtime.allocate(2 * values, "O");
    plain_lse_ =
        runtime.allocate(static_cast<std::size_t>(options.batch * options.heads_q) * 4, "log-sum-exps");
    const auto pool = static_cast<std::size_t>(pages_.num_pages() * page_ * options.heads_kv * depth_);
    const auto enough = static_cast<std::int64_t>((std::size_t{512} << 20) / (4 * pool) + 1);
    const bool hardware = runtime.device().selector != "emulated";
    const std::int64_t layers = options.layers > 0 ? options.layers : hardware ? enough : 1;
    for (std::int64_t i = 0; i < 2 * layers; ++i)
      pools_.push_back(random_numbers(runtime, pool, static_cast<unsigned>(2 + i)));
  }

  bool run() {
    const double error = difference();
    const bool passed = error < 8e-3 && findings_ == 0;
    std::printf("%s on %s\n", plain_->manifest().name.c_str(), runtime_.device().name.c_str());
    std::printf("batch    %lld sequences, %lld keys shared, %lld of their own; %lld query heads over %lld\n",
                static_cast<long long>(options_.batch), static_cast<long long>(options_.prefix),
                static_cast<long long>(options_.own), static_cast<long long>(options_.heads_q),
                static_cast<long long>(options_.heads_kv));
    if (runtime_.device().selector != "emulated") {
      const double once = time([&](const AttentionArgs& args) { plain_->launch(whole(args)); });
      const double parts = time([&](const AttentionArgs& args) { cascade_.launch(args); });
      const double bytes = static_cast<double>((options_.prefix + options_.batch * options_.own) *
                                               options_.heads_kv * depth_ * 4);
      std::printf("cascade  %.1f us, %.0f GB/s of keys and values read once\n", parts, bytes / parts * 1e-3);
      std::printf("plain    %.1f us, every sequence reads the prefix: %.2f of it\n", once, once / parts);
    }
    std::printf("check    %s: relative difference of the two %.2e (limit 8e-03)\n",
                passed ? "passed" : "FAILED", error);
    return passed;
  }

 private:
  std::int64_t page() const { return plain_->manifest().page_size; }
  std::int64_t pages_of(std::int64_t tokens) const { return (tokens + page() - 1) / page(); }
  std::int64_t max_pages() const { return pages_of(options_.prefix) + pages_of(options_.own) + 1; }

  // Whole pages of the first sequence are the others' beginning, too.
  void fill_batch() {
    const std::int64_t shared = options_.prefix / page_ * page_;
    std::vector<PageAllocator::Sequence> names{pages_.create()};
    pages_.append(names[0], shared);
    for (std::int64_t b = 1; b < options_.batch; ++b) names.push_back(pages_.fork(names[0], shared));
    std::vector<std::int64_t> queries(names.size(), 1), lengths;
    for (const auto name : names) {
      pages_.append(name, options_.own);
      lengths.push_back(pages_.length(name));
    }
    batch_.update(pages_, names, queries);
    const PagedShape shape{batch_.table(), max_pages(), page_, queries, lengths};
    cascade_.update(shape, find_prefix_groups(shape, std::min<std::int64_t>(shared, 1024)));
  }

  AttentionArgs args_of(std::size_t layer) const {
    const auto cache = [&](const DeviceBuffer& pool) {
      return Tensor::dense(pool.address(), DType::bf16,
                           {pages_.num_pages(), page_, options_.heads_kv, depth_});
    };
    AttentionArgs args;
    args.q = Tensor::dense(q_.address(), DType::bf16, {options_.batch, options_.heads_q, depth_});
    args.o = Tensor::dense(o_.address(), DType::bf16, {options_.batch, options_.heads_q, depth_});
    args.k = cache(pools_[2 * layer]);
    args.v = cache(pools_[2 * layer + 1]);
    return args;
  }
  AttentionArgs whole(AttentionArgs args) const {
    batch_.apply(args);
    args.o.address = plain_o_.address();
    args.lse = Tensor::dense(plain_lse_.address(), DType::f32, {options_.heads_q, options_.batch});
    return args;
  }

  double difference() {
    note(plain_->launch(whole(args_of(0))));
    for (const auto& report : cascade_.launch(args_of(0))) note(report);
    runtime_.synchronize();
    std::vector<std::uint16_t> got(o_.size() / 2), wanted(got.size());
    o_.read(std::as_writable_bytes(std::span(got)));
    plain_o_.read(std::as_writable_bytes(std::span(wanted)));
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double a = widen(got[i]), b = widen(wanted[i]);
      error += (a - b) * (a - b);
      norm += b * b;
    }
    const double relative = std::sqrt(error / norm);
    return std::isnan(relative) ? INFINITY : relative;
  }

  // Microseconds of a call, the layers' caches in turn; launches queue up, so the host is not in it.
  template <class Launch>
  double time(const Launch& launch) {
    const std::size_t layers = pools_.size() / 2;
    std::vector<AttentionArgs> args;
    for (std::size_t i = 0; i < layers; ++i) args.push_back(args_of(i));
    std::vector<double> rounds;
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      const std::size_t calls = layers * ((32 + layers - 1) / layers);
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < calls; ++i) launch(args[i % layers]);
      runtime_.synchronize();
      const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
      rounds.push_back(taken.count() / static_cast<double>(calls));
    }
    std::nth_element(rounds.begin(), rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2),
                     rounds.end());
    return rounds[rounds.size() / 2];
  }

  void note(const std::shared_ptr<const EmulationReport>& report) {
    if (!report) return;
    for (const auto& finding : report->findings)
      std::printf("finding %s: %s\n", finding.kind.c_str(), finding.message.c_str());
    findings_ += static_cast<std::int64_t>(report->findings.size());
  }

  const Options& options_;
  Runtime& runtime_;
  Config config_;
  std::shared_ptr<Kernel> plain_;
  std::int64_t page_, depth_, findings_ = 0;
  PageAllocator pages_;
  PagedBatch batch_;
  Cascade cascade_;
  DeviceBuffer q_, o_, plain_o_, plain_lse_;
  std::vector<DeviceBuffer> pools_;  ///< K and V of each layer
};

}  // namespace

int main(int count, char** values) {
  Options options;
  CLI::App app("Decode of sequences that begin with the same pages: a cascade beside one launch.");
  declare(app, options);
  try {
    app.parse(count, values);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    RuntimeOptions runtime_options;
    runtime_options.device = options.device;
    Runtime runtime(runtime_options);
    return Comparison(options, runtime).run() ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "kiln_shared_prefix: %s\n", error.what());
    return error.code() == ErrorCode::environment ? 3 : error.code() == ErrorCode::bad_input ? 2 : 1;
  }
}
