// bench: times configs on the device for one problem.
#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "cli/commands.hpp"
#include "cli/execute/bench_compare.hpp"
#include "cli/execute/problem_options.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/generate/edited_source.hpp"
#include "cli/inspect/edited_changes.hpp"
#include "cli/output.hpp"
#include "workbench/reference/reference.hpp"
#include "workbench/tune/winners.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln::cli {
namespace {

struct BenchOptions {
  std::vector<std::string> configs, compare;
  std::string source;
  int warmup = 5, iterations = 20;
  bool tuned = false;
  ProblemOptions problem;
  DeviceOptions device;
};

// Bytes of K and V, each counted once: not V's columns where they lie in K's rows.
double kv_bytes(const Manifest& m, const ProblemShape& s) {
  const int columns = m.k_columns() + (m.takes("v") ? m.ov_depth : 0);
  const std::size_t rope = m.rope ? static_cast<std::size_t>(m.rope->depth) * size_of(m.rope->dtype) : 0;
  return static_cast<double>(s.total_k() * s.heads_kv) *
         static_cast<double>(
             static_cast<std::size_t>(columns / numbers_of(m.kv_dtype)) * size_of(m.kv_dtype) + rope);
}

// Bytes of Q, K, V and O, each counted once.
double tensor_bytes(const Manifest& m, const ProblemShape& s) {
  const auto q = static_cast<double>(s.total_q() * s.heads_q);
  const auto size = [](DType dtype) { return static_cast<double>(size_of(dtype)); };
  const auto depth = static_cast<double>(s.depth), ov_depth = static_cast<double>(s.ov_depth);
  return q * (depth * size(m.dtype) + ov_depth * size(m.out_dtype)) + kv_bytes(m, s);
}

class Timing {
 public:
  Timing(const BenchOptions& options, Runtime& runtime) : options_(options), runtime_(runtime) {}
  void add(const Config& config);
  void print(bool json) const;

 private:
  RunResult timed(Kernel& kernel, const Workload& work);
  /// A row of the table and what the document has of it.
  Json row(const std::string& label, const Plan& plan, const KernelSource& source, const Workload& work,
           const RunResult& result);

  const BenchOptions& options_;
  Runtime& runtime_;
  Json document_ = Json::array();
  std::vector<std::vector<std::string>> rows_{{"config", "us", "TFLOP/s", "GB/s"}};
  std::string problem_;
};

RunResult Timing::timed(Kernel& kernel, const Workload& work) {
  RunOptions run_options;
  run_options.warmup = options_.warmup;
  run_options.iterations = options_.iterations;
  return run_workload(runtime_, kernel, work, run_options);
}

Json Timing::row(const std::string& label, const Plan& plan, const KernelSource& source, const Workload& work,
                 const RunResult& result) {
  const MaskConfig mask = plan.resolved().mask.value_or(MaskConfig{});
  const double us = result.launch_us;
  // Only what the mask leaves visible counts as work.
  const double tflops = us > 0 ? 2 * reference_cost(work.shape, mask) / us * 1e-6 : 0;
  // Decode is held to the memory: its figure is what peers give, bytes of K and V alone.
  const double bytes = source.manifest.operation == Operation::decode
                           ? kv_bytes(source.manifest, work.shape)
                           : tensor_bytes(source.manifest, work.shape);
  const double gbps = us > 0 ? bytes / us * 1e-3 : 0;
  rows_.push_back(
      {label, fmt::format("{:.1f}", us), fmt::format("{:.1f}", tflops), fmt::format("{:.0f}", gbps)});
  return {{"name", source.manifest.name},
          {"problem", work.shape.text()},
          {"us", us},
          {"samples", result.samples_us},
          {"tflops", tflops},
          {"gbps", gbps}};
}

void Timing::add(const Config& config) {
  Plan plan = make_plan(config);
  const Workload work = options_.problem.workload(plan.resolved());
  if (options_.tuned) plan = make_plan(load_winner(config, runtime_.device(), work.shape));
  problem_ = work.shape.text();
  const KernelSource source = source_of(plan, options_.source);
  const std::shared_ptr<Kernel> kernel = loaded(runtime_, source);
  if (source.file.empty()) {
    document_.push_back(row(source.manifest.name, plan, source, work, timed(*kernel, work)));
    return;
  }
  const KernelSource emitted = generate(plan);
  const std::shared_ptr<Kernel> emitted_kernel = runtime_.load(emitted);
  const RunResult before = timed(*emitted_kernel, work), after = timed(*kernel, work);
  row(source.manifest.name, plan, emitted, work, before);
  Json document = row(source.file, plan, source, work, after);
  document["edited"] = changes_json(source, emitted_kernel->binary(), kernel->binary());
  add_times(document["edited"], before.samples_us, after.samples_us);
  document_.push_back(std::move(document));
}

void Timing::print(bool json) const {
  if (json) return print_json(document_);
  const DeviceInfo& device = runtime_.device();
  fmt::print("{} ({}), {}, median of {}\n{}", bold(device.name), device.selector, problem_,
             options_.iterations, table(rows_));
  for (const Json& each : document_) {
    if (!each.contains("edited")) continue;
    fmt::print("\n");
    print_changes(each["edited"]);
  }
}

/// What is wrong with --source is told before there must be a GPU.
void check_source(const BenchOptions& options) {
  if (options.source.empty()) return;
  if (options.configs.size() > 1)
    throw Error(ErrorCode::bad_input, "--source takes the place of one config's kernel; name one config");
  source_of(make_plan(load_config(options.configs.front())), options.source);
}

int bench(const BenchOptions& options, bool json) {
  if (!options.compare.empty()) return bench_compare(options.compare[0], options.compare[1], json);
  if (options.configs.empty()) throw Error(ErrorCode::bad_input, "bench: CONFIG or --compare is required");
  check_source(options);
  Runtime runtime(options.device.runtime_options(options.problem.seed));
  const DeviceInfo& device = runtime.device();
  if (device.selector == "emulated") {
    throw Error(ErrorCode::environment,
                "bench measures speed and needs a GPU: none was found (`kiln doctor` shows what was); `kiln "
                "run` works on the emulated device");
  }
  Timing timing(options, runtime);
  ProgressCount progress_line(options.configs.size());
  for (std::size_t i = 0; i < options.configs.size(); ++i) {
    const Config config = load_config(options.configs[i]);
    progress_line.show(i, "timing " + config_name(config));
    timing.add(config);
  }
  timing.print(json);
  return 0;
}

}  // namespace

Action add_bench(CLI::App& command, Common& common) {
  auto options = std::make_shared<BenchOptions>();
  command.add_option("CONFIG", options->configs, "Configs to time");
  command
      .add_option(
          "--compare", options->compare,
          "Instead: two files that `kiln bench --json` wrote, OLD NEW; status 1 when something became slower")
      ->expected(2)
      ->type_name("FILE");
  command.add_option(
      "--source", options->source,
      "A file with the edited source of the config's kernel (`kiln generate`), timed beside the emitted one");
  options->problem.declare(command, false);
  options->device.declare(command);
  command.add_option("--warmup", options->warmup, "Launches before the timed ones (default 5)")
      ->check(CLI::Range(0, 100000));
  command.add_option("--iterations", options->iterations, "Timed launches (default 20)")
      ->check(CLI::Range(1, 100000));
  command.add_flag("--tuned", options->tuned, "Take the winner that `kiln tune` stored for this problem");
  return [options, &common] { return bench(*options, common.json); };
}

}  // namespace kiln::cli
