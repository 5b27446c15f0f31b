// Replays the decode phase of a serving trace through one attention layer: paged KV cache, continuous
// batching, prompts that share their prefix, new rows appended by a kernel. Reports tokens per second and the
// bandwidth at which keys and values were read, and checks a sample of outputs against float64.
//
//   kiln_replay_trace TRACE [options]; --help lists them
//
// TRACE: JSON lines with input_length, output_length, hash_ids; or CSV with ContextTokens, GeneratedTokens.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <kiln/kiln.hpp>
#include <kiln/kv_cache.hpp>

#include "tokens.hpp"
#include "trace.hpp"

namespace {

using namespace kiln;

struct Options {
  std::string trace, config, device;
  std::int64_t requests = 64, batch = 32, max_prompt = 32768, max_output = 256, steps = 1000000, pages = 0;
  std::int64_t heads_q = 32, heads_kv = 8, checks = 32;
};

constexpr std::int64_t kMost = std::int64_t{1} << 40;

void declare(CLI::App& app, Options& options) {
  const auto number = [&](const char* name, std::int64_t& value, std::int64_t least, const char* what) {
    app.add_option(name, value, what)->check(CLI::Range(least, kMost))->capture_default_str();
  };
  app.add_option("trace", options.trace,
                 "JSON lines with input_length, output_length, hash_ids; or CSV with ContextTokens, "
                 "GeneratedTokens")
      ->required();
  app.add_option("--config", options.config,
                 "Decode config over pages (default: BF16, depth 128, pages of 64)");
  app.add_option("--device", options.device, "cuda, cuda:N, hip, emulated (default: the first there is)");
  number("--requests", options.requests, 1, "Requests of the trace to replay");
  number("--batch", options.batch, 1, "Sequences that decode together");
  number("--max-prompt", options.max_prompt, 1, "Longer prompts are cut to this many tokens");
  number("--max-output", options.max_output, 1, "Longer answers are cut to this many tokens");
  number("--steps", options.steps, 0, "Most decode steps");
  number("--pages", options.pages, 0, "Pages of the pool (0: as many as the batch can need)");
  number("--heads-q", options.heads_q, 1, "Query heads");
  number("--heads-kv", options.heads_kv, 1, "KV heads");
  number("--checks", options.checks, 0, "Outputs to check against float64");
}

Config config_for(const Options& options, Runtime& runtime) {
  if (options.config.empty()) {
    const std::string target = runtime.device().target == "sm_90a" ? "sm_90a" : "sm_80";
    Config config = parse_config(R"({"target": ")" + target +
                                     R"(", "operation": "decode", "dtype": "bf16", "depth": 128,
                                "operand": {"kind": "paged", "page_size": 64}})",
                                 "the built-in config");
    const std::int64_t group =
        std::max<std::int64_t>(options.heads_q / std::max<std::int64_t>(options.heads_kv, 1), 1);
    if (group <= 128) config.group = static_cast<int>(group);  // query heads that share a tile of keys
    return config;
  }
  std::ifstream in(options.config);
  if (!in) throw Error(ErrorCode::bad_input, "cannot read '" + options.config + "'");
  std::stringstream text;
  text << in.rdbuf();
  return parse_config(text.str(), options.config);
}

struct Active {
  PageAllocator::Sequence sequence = 0;
  std::int64_t request = 0;
  std::int64_t generated = 0;
};

class Replay {
 public:
  Replay(const Options& options, Runtime& runtime)
      : options_(options),
        runtime_(runtime),
        requests_(
            replay::read_requests(options.trace, options.requests, options.max_prompt, options.max_output)),
        plan_(make_plan(config_for(options, runtime))),
        source_(generate(plan_)),
        kernel_(runtime.load(source_)),
        append_(runtime.load(make_append_kernel(plan_.resolved()))),
        page_size_(plan_.resolved().operand->page_size.value_or(64)),
        depth_(plan_.resolved().depth),
        rows_(options.heads_kv, depth_),
        pages_(pool_pages(), page_size_),
        batch_(runtime, options.batch, (options.max_prompt + options.max_output) / page_size_ + 2) {
    const Manifest& m = source_.manifest;
    const bool fits = m.operation == Operation::decode && m.operand == OperandKind::paged &&
                      m.dtype == DType::bf16 && m.kv_dtype == DType::bf16 && m.depth == m.ov_depth &&
                      !m.writes_lse;
    if (!fits) throw Error(ErrorCode::bad_input, "the replay wants a paged BF16 decode config without lse");
    const auto bytes =
        static_cast<std::size_t>(pages_.num_pages() * page_size_ * options.heads_kv * depth_) * 2;
    k_ = runtime.allocate(bytes, "K pages");
    v_ = runtime.allocate(bytes, "V pages");
    k_.fill(std::byte{0xff});  // NaN: nothing may be read that was not written
    v_.fill(std::byte{0xff});
    const auto out = static_cast<std::size_t>(options.batch * options.heads_q * depth_) * 2;
    q_ = runtime.allocate(out, "Q");
    o_ = runtime.allocate(out, "O");
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      admit();
      if (active_.empty()) break;
      decode(step);
      retire();
    }
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report(wall);
  }
  bool passed() const { return worst_ < 4e-3 && findings_ == 0; }

 private:
  std::int64_t pool_pages() const {
    if (options_.pages > 0) return options_.pages;
    // Room for a full batch of the longest requests.
    std::int64_t longest = 0;
    for (const auto& request : requests_) longest = std::max(longest, request.prompt + request.output);
    return std::min(options_.batch, options_.requests) * ((longest + page_size_ - 1) / page_size_ + 1);
  }

  // Requests enter in order while there is a place in the batch and room for all their tokens; what others
  // have of their prompt is shared.
  void admit() {
    while (next_ < static_cast<std::int64_t>(requests_.size()) &&
           static_cast<std::int64_t>(active_.size()) < options_.batch) {
      const replay::Request& request = requests_[static_cast<std::size_t>(next_)];
      const auto sequence = pages_.create_with_prefix(request.hashes, replay::kHashTokens);
      const std::int64_t shared = pages_.length(sequence);
      const std::int64_t to_come = pages_.pages_needed(sequence, request.prompt - shared + request.output);
      if (to_come + reserved() > pages_.free_pages()) {
        pages_.release(sequence);
        if (!active_.empty()) return;
        throw Error(ErrorCode::bad_input, "request " + std::to_string(next_) + " alone needs " +
                                              std::to_string(to_come) + " pages, the pool has " +
                                              std::to_string(pages_.num_pages()));
      }
      active_.push_back({sequence, next_++, 0});
      shared_tokens_ += shared;
      prompt_tokens_ += request.prompt;
      if (request.prompt > shared) append(std::span(&active_.back(), 1), request.prompt - shared);
      pages_.publish(sequence, request.hashes, replay::kHashTokens);
    }
  }

  // Pages that running requests may still take.
  std::int64_t reserved() const {
    std::int64_t pages = 0;
    for (const Active& active : active_) {
      const auto& request = requests_[static_cast<std::size_t>(active.request)];
      pages += pages_.pages_needed(active.sequence, request.output - active.generated);
    }
    return pages;
  }

  std::uint64_t token_of(const Active& active, std::int64_t position) const {
    const auto& hashes = requests_[static_cast<std::size_t>(active.request)].hashes;
    const auto block = static_cast<std::size_t>(position / replay::kHashTokens);
    return block < hashes.size() ? replay::prompt_token(hashes[block], position)
                                 : replay::own_token(active.request, position);
  }

  // `count` more tokens of each sequence: pages, rows, and the kernel that stores them.
  void append(std::span<const Active> sequences, std::int64_t count) {
    std::vector<std::uint16_t> k, v;
    std::vector<PageAllocator::Sequence> names;
    const std::vector<std::int64_t> queries(sequences.size(), count);
    for (const Active& active : sequences) {
      const std::int64_t first = pages_.length(active.sequence);
      // Only whole blocks are shared, so nothing is ever copied.
      if (!pages_.append(active.sequence, count).empty())
        throw Error(ErrorCode::internal, "a shared page was written");
      names.push_back(active.sequence);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t token = token_of(active, first + i);
        const auto key = rows_.row(token, 0), value = rows_.row(token, 1);
        k.insert(k.end(), key.begin(), key.end());
        v.insert(v.end(), value.begin(), value.end());
      }
    }
    batch_.update(pages_, names, queries);
    const auto total = static_cast<std::int64_t>(sequences.size()) * count;
    DeviceBuffer new_k = upload(k), new_v = upload(v);
    AttentionArgs tables;
    batch_.apply(tables);
    AppendArgs args;
    args.new_k = Tensor::dense(new_k.address(), DType::bf16, {total, options_.heads_kv, depth_});
    args.new_v = Tensor::dense(new_v.address(), DType::bf16, {total, options_.heads_kv, depth_});
    args.k = pool(k_);
    args.v = pool(v_);
    args.page_table = tables.page_table;
    args.seqlens_k = tables.seqlens_k;
    args.cu_seqlens_q = tables.cu_seqlens_q;
    args.max_rows = count;
    note(append_kv(*append_, args));
    runtime_.synchronize();  // the new rows' memory goes away
  }

  DeviceBuffer upload(const std::vector<std::uint16_t>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    DeviceBuffer buffer = runtime_.allocate(bytes.size(), "rows");
    buffer.write(bytes);
    return buffer;
  }
  Tensor pool(const DeviceBuffer& buffer) const {
    return Tensor::dense(buffer.address(), DType::bf16,
                         {pages_.num_pages(), page_size_, options_.heads_kv, depth_});
  }

  std::uint16_t query_bits(std::int64_t step, std::int64_t row, std::int64_t element) const {
    const std::int64_t at = element % rows_.row_elements();
    const auto number =
        static_cast<std::uint64_t>(step * 7919 + row * 104729 + element / rows_.row_elements());
    return rows_.row(number, 0)[static_cast<std::size_t>(at)];
  }

  void decode(std::int64_t step) {
    append(active_, 1);
    const auto batch = static_cast<std::int64_t>(active_.size()), row = options_.heads_q * depth_;
    std::vector<std::uint16_t> q(static_cast<std::size_t>(batch * row));
    for (std::int64_t i = 0; i < batch * row; ++i)
      q[static_cast<std::size_t>(i)] = query_bits(step, i / row, i % row);
    q_.write(std::as_bytes(std::span(q)));
    AttentionArgs args;
    batch_.apply(args);
    args.q = Tensor::dense(q_.address(), DType::bf16, {batch, options_.heads_q, depth_});
    args.o = Tensor::dense(o_.address(), DType::bf16, {batch, options_.heads_q, depth_});
    args.k = pool(k_);
    args.v = pool(v_);
    const Timing timing = kernel_->time(args, 0, 1);
    note(timing.report);
    kernel_us_ += timing.us.front();
    ++steps_;
    tokens_ += batch;
    for (Active& active : active_) {
      ++active.generated;
      kv_rows_ += pages_.length(active.sequence);
    }
    // A few heads of a few steps, spread over the run.
    if (checked_ < options_.checks) check(q, step);
  }

  void check(const std::vector<std::uint16_t>& q, std::int64_t step) {
    const auto i = static_cast<std::size_t>(step) % active_.size();
    const std::int64_t head = step * 5 % options_.heads_q,
                       kv_head = head / (options_.heads_q / options_.heads_kv);
    const Active& active = active_[i];
    const std::int64_t keys = pages_.length(active.sequence);
    const std::size_t at = (i * static_cast<std::size_t>(options_.heads_q) + static_cast<std::size_t>(head)) *
                           static_cast<std::size_t>(depth_);
    std::vector<std::uint16_t> got(static_cast<std::size_t>(depth_));
    o_.read(std::as_writable_bytes(std::span(got)), at * 2);
    std::vector<double> scores(static_cast<std::size_t>(keys)), out(static_cast<std::size_t>(depth_), 0.0);
    double highest = -INFINITY, sum = 0, error = 0, norm = 0;
    for (std::int64_t t = 0; t < keys; ++t) {
      const auto key = rows_.row(token_of(active, t), 0).subspan(static_cast<std::size_t>(kv_head * depth_));
      double score = 0;
      for (std::int64_t d = 0; d < depth_; ++d) {
        const auto x = static_cast<std::size_t>(d);
        score += static_cast<double>(replay::from_bf16(q[at + x])) * replay::from_bf16(key[x]);
      }
      scores[static_cast<std::size_t>(t)] = score * source_.manifest.scale;
      highest = std::max(highest, scores[static_cast<std::size_t>(t)]);
    }
    for (std::int64_t t = 0; t < keys; ++t) {
      const double p = std::exp(scores[static_cast<std::size_t>(t)] - highest);
      sum += p;
      const auto value =
          rows_.row(token_of(active, t), 1).subspan(static_cast<std::size_t>(kv_head * depth_));
      for (std::size_t d = 0; d < out.size(); ++d) out[d] += p * replay::from_bf16(value[d]);
    }
    for (std::size_t d = 0; d < out.size(); ++d) {
      const double wanted = out[d] / sum, off = replay::from_bf16(got[d]) - wanted;
      error += off * off;
      norm += wanted * wanted;
    }
    const double relative = std::sqrt(error / norm);
    worst_ = std::isnan(relative) ? INFINITY : std::max(worst_, relative);
    ++checked_;
  }

  void note(const std::shared_ptr<const EmulationReport>& report) {
    if (!report) return;
    for (const auto& finding : report->findings)
      std::printf("finding %s: %s\n", finding.kind.c_str(), finding.message.c_str());
    findings_ += static_cast<std::int64_t>(report->findings.size());
  }

  void retire() {
    std::vector<Active> left;
    for (const Active& active : active_) {
      if (active.generated < requests_[static_cast<std::size_t>(active.request)].output) {
        left.push_back(active);
      } else {
        pages_.release(active.sequence);
        ++finished_;
      }
    }
    active_ = std::move(left);
  }

  void report(double wall) const {
    const double bytes = static_cast<double>(kv_rows_) * static_cast<double>(options_.heads_kv * depth_) * 4;
    std::printf("%s on %s\n", source_.manifest.name.c_str(), runtime_.device().name.c_str());
    std::printf("requests   %lld finished of %zu; %lld prompt tokens, %lld of them shared (%.1f %%)\n",
                static_cast<long long>(finished_), requests_.size(), static_cast<long long>(prompt_tokens_),
                static_cast<long long>(shared_tokens_),
                100.0 * static_cast<double>(shared_tokens_) /
                    static_cast<double>(std::max<std::int64_t>(prompt_tokens_, 1)));
    std::printf("decode     %lld steps, %lld tokens, %.1f sequences a step\n", static_cast<long long>(steps_),
                static_cast<long long>(tokens_),
                static_cast<double>(tokens_) / static_cast<double>(std::max<std::int64_t>(steps_, 1)));
    std::printf("attention  %.1f us a step, %.0f tokens/s, %.0f GB/s of keys and values\n",
                kernel_us_ / static_cast<double>(std::max<std::int64_t>(steps_, 1)),
                static_cast<double>(tokens_) / kernel_us_ * 1e6, bytes / kernel_us_ * 1e-3);
    std::printf("wall       %.2f s, host work and uploads included\n", wall);
    std::printf("check      %s: %lld rows against float64, largest relative error %.2e (limit 4e-03)\n",
                passed() ? "passed" : "FAILED", static_cast<long long>(checked_), worst_);
  }

  const Options& options_;
  Runtime& runtime_;
  std::vector<replay::Request> requests_;
  Plan plan_;
  KernelSource source_;
  std::shared_ptr<Kernel> kernel_, append_;
  std::int64_t page_size_, depth_;
  replay::TokenRows rows_;
  PageAllocator pages_;
  PagedBatch batch_;
  DeviceBuffer k_, v_, q_, o_;
  std::vector<Active> active_;
  std::int64_t next_ = 0, finished_ = 0, steps_ = 0, tokens_ = 0, kv_rows_ = 0, shared_tokens_ = 0,
               prompt_tokens_ = 0;
  std::int64_t checked_ = 0, findings_ = 0;
  double kernel_us_ = 0, worst_ = 0;
};

}  // namespace

int main(int count, char** values) {
  Options options;
  CLI::App app("Replays the decode phase of a serving trace through one attention layer.");
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
    Replay replay(options, runtime);
    replay.run();
    return replay.passed() ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "kiln_replay_trace: %s\n", error.what());
    return error.code() == ErrorCode::environment ? 3 : error.code() == ErrorCode::bad_input ? 2 : 1;
  }
}
