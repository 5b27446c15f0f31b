// tune: searches the keys a config leaves open for the fastest right kernel of one problem, and stores the
// winner.
#include <fmt/format.h>

#include <algorithm>
#include <kiln/kiln.hpp>

#include "cli/above_zero.hpp"
#include "cli/commands.hpp"
#include "cli/execute/problem_options.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "generator/config/json_text.hpp"
#include "runtime/support/files.hpp"
#include "workbench/reference/reference.hpp"
#include "workbench/tune/search.hpp"
#include "workbench/tune/winners.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln::cli {
namespace {

// Multiply-adds of the reference, computed once: beyond this a sample of rows is checked.
constexpr double kTuneReferenceBudget = 2e9;

struct TuneOptions {
  std::string config, out;
  int warmup = 5, iterations = 20;
  std::size_t limit = 64;
  double minutes = 0;
  bool no_store = false;
  ProblemOptions problem;
  DeviceOptions device;
};

/// One problem, posed once; kernels are checked and timed on it.
class Bench {
 public:
  Bench(const TuneOptions& options, const Config& resolved)
      : options_(options),
        work_(options.problem.workload(resolved)),
        runtime_(options.device.runtime_options(options.problem.seed)),
        device_(runtime_.device()),
        tolerance_(tolerance_of(resolved)),
        count_(options.limit, true, options.minutes * 60) {
    const ProgressClock clock("computing the float64 reference");
    const Semantics semantics = semantics_of(resolved, work_);
    reference_ = reference_attention(
        work_, semantics,
        choose_rows(work_.shape, semantics.mask, kTuneReferenceBudget, options.problem.seed));
  }

  const Workload& work() const { return work_; }
  const DeviceInfo& device() const { return device_; }
  bool emulated() const { return device_.selector == "emulated"; }
  /// What a score counts. The emulated device has no clock: fewer instructions are the best guess there is.
  const char* unit() const { return emulated() ? "warp instructions and bank conflicts" : "us"; }
  double minutes() const { return watch_.ms() / 60e3; }

  Measurement measure(const Plan& plan, const std::string& keys) {
    ++measured_;
    const bool first = measured_ == 1;
    count_.show(measured_ - 1, first ? "the planner's choice" : keys);
    try {
      return judge(generate(plan));
    } catch (const Error& error) {
      // What is wrong with the first is wrong with the question, not with a candidate.
      if (first || error.code() == ErrorCode::environment) throw;
      const std::string text = error.what();
      return {{}, text.substr(0, text.find('\n'))};
    }
  }

 private:
  Measurement judge(const KernelSource& source) {
    const std::shared_ptr<Kernel> kernel = runtime_.load(source);
    const std::vector<std::string>& warnings = kernel->binary().warnings;
    if (!warnings.empty()) return {{}, "compiler: " + warnings.front()};
    RunOptions run;
    run.warmup = options_.warmup;
    run.iterations = emulated() ? 0 : options_.iterations;
    const RunResult result = run_workload(runtime_, *kernel, work_, run);
    if (!result.findings.empty())
      return {{}, "finding: " + result.findings.front().kind + ": " + result.findings.front().message};
    const CheckReport check = check_output(work_, result.output, reference_, tolerance_);
    if (!check.passed()) return {{}, "wrong: " + check.failures.front()};
    if (!emulated()) return {result.launch_us, ""};
    double score = 0;
    for (const auto& [name, count] : result.counters) {
      if (name == "instructions" || name == "bank_conflicts") score += static_cast<double>(count);
    }
    return {score, ""};
  }

  const TuneOptions& options_;
  const Workload work_;
  Runtime runtime_;
  const DeviceInfo device_;
  const Tolerance tolerance_;
  Reference reference_;
  Stopwatch watch_;
  ProgressCount count_;
  std::size_t measured_ = 0;
};

std::string keys_of(const Trial& trial) {
  return trial.keys.empty() ? "the planner's choice" : trial.keys;
}

Json trial_json(const Trial& trial) {
  return {{"keys", trial.keys},
          {"score", trial.result.score ? Json(*trial.result.score) : Json()},
          {"problem", trial.result.problem},
          {"config", json_of(to_json(trial.config))}};
}

void print(const Bench& bench, const Search& search, const std::string& stored) {
  const Trial& best = search.trials[*search.best];
  const double planner = search.trials.front().result.score.value_or(0);
  std::vector<const Trial*> order;
  for (const Trial& trial : search.trials) order.push_back(&trial);
  // Those that do not count stand last.
  const auto rank = [](const Trial* t) { return t->result.score.value_or(1e300); };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Trial* a, const Trial* b) { return rank(a) < rank(b); });
  std::vector<std::vector<std::string>> rows{{"keys", bench.emulated() ? "score" : "us", "of planner's", ""}};
  for (const Trial* trial : order) {
    const auto& score = trial->result.score;
    rows.push_back({keys_of(*trial), score ? fmt::format("{:.{}f}", *score, bench.emulated() ? 0 : 1) : "-",
                    score && planner > 0 ? fmt::format("{:.3f}", *score / planner) : "-",
                    trial->result.problem});
  }
  fmt::print("{} ({}), {}: {} kernels tried{}\n", bold(bench.device().name), bench.device().selector,
             bench.work().shape.text(), search.trials.size(),
             search.finished ? "" : ", then a limit ended the search");
  if (bench.emulated())
    fmt::print("the emulated device has no clock: the score is {}, not a speed\n", bench.unit());
  fmt::print("{}best: {}\n", table(rows), bold(keys_of(best)));
  if (!stored.empty()) fmt::print("stored in {}; `--tuned` of run and bench takes it\n", stored);
}

int tune(const TuneOptions& options, bool json) {
  const Config config = load_config(options.config);
  if (!options.no_store) prepare_winners();
  Bench bench(options, make_plan(config).resolved());
  const Search search = search_kernels(
      config, options.limit,
      [&](const Plan& plan, const std::string& keys) { return bench.measure(plan, keys); },
      [&] { return options.minutes > 0 && bench.minutes() >= options.minutes; });
  progress("");
  if (!search.best) {
    throw Error(ErrorCode::device, fmt::format("none of {} kernels is right: {}", search.trials.size(),
                                               search.trials.front().result.problem));
  }
  const Trial& best = search.trials[*search.best];
  std::string stored;
  if (!options.no_store) stored = store_winner(config, bench.device(), bench.work().shape, best.config);
  if (!options.out.empty()) write_atomically(options.out, to_json(best.config) + "\n");
  if (json) {
    Json rows = Json::array();
    for (const Trial& trial : search.trials) rows.push_back(trial_json(trial));
    print_json({{"best", trial_json(best)},
                {"tried", search.trials.size()},
                {"table", rows},
                {"finished", search.finished},
                {"device", bench.device().selector},
                {"problem", bench.work().shape.text()},
                {"unit", bench.unit()},
                {"stored", stored.empty() ? Json() : Json(stored)}});
  } else {
    print(bench, search, stored);
  }
  return 0;
}

}  // namespace

Action add_tune(CLI::App& command, Common& common) {
  auto options = std::make_shared<TuneOptions>();
  command.add_option("CONFIG", options->config, "Config whose open keys are searched")->required();
  options->problem.declare(command, false);
  options->device.declare(command);
  command.add_option("--limit", options->limit, "Kernels to try at most (default 64)")
      ->check(CLI::Range(1, 100000));
  command.add_option("--minutes", options->minutes, "Try nothing new after this time")->check(above_zero());
  command.add_option("--warmup", options->warmup, "Launches before the timed ones (default 5)")
      ->check(CLI::Range(0, 100000));
  command.add_option("--iterations", options->iterations, "Timed launches (default 20)")
      ->check(CLI::Range(1, 100000));
  command.add_option("--out", options->out, "Write the winner's config to this file too");
  command.add_flag("--no-store", options->no_store, "Do not store the winner beside the kernel cache");
  return [options, &common] { return tune(*options, common.json); };
}

}  // namespace kiln::cli
