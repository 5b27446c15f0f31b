// bench: times configs on the device for one problem.
#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "cli/commands.hpp"
#include "cli/execute/bench_compare.hpp"
#include "cli/execute/problem_options.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "workbench/reference/reference.hpp"
#include "workbench/tune/winners.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln::cli {
namespace {

struct Options {
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
         static_cast<double>(static_cast<std::size_t>(columns) * size_of(m.kv_dtype) + rope);
}

// Bytes of Q, K, V and O, each counted once.
double tensor_bytes(const Manifest& m, const ProblemShape& s) {
  const auto q = static_cast<double>(s.total_q() * s.heads_q);
  const auto size = [](DType dtype) { return static_cast<double>(size_of(dtype)); };
  const auto depth = static_cast<double>(s.depth), ov_depth = static_cast<double>(s.ov_depth);
  return q * (depth * size(m.dtype) + ov_depth * size(m.out_dtype)) + kv_bytes(m, s);
}

int bench(const Options& options, bool json) {
  if (!options.compare.empty()) return bench_compare(options.compare[0], options.compare[1], json);
  if (options.configs.empty()) throw Error(ErrorCode::bad_input, "bench: CONFIG or --compare is required");
  Runtime runtime(options.device.runtime_options(options.problem.seed));
  const DeviceInfo& device = runtime.device();
  if (device.selector == "emulated") {
    throw Error(ErrorCode::environment,
                "bench measures speed and needs a GPU: none was found (`kiln doctor` shows what was); `kiln "
                "run` works on the emulated device");
  }
  Json document = Json::array();
  std::vector<std::vector<std::string>> rows{{"config", "us", "TFLOP/s", "GB/s"}};
  std::string problem;
  if (!options.source.empty() && options.configs.size() > 1)
    throw Error(ErrorCode::bad_input, "--source takes the place of one config's kernel; name one config");
  ProgressCount progress_line(options.configs.size());
  for (const std::string& argument : options.configs) {
    const Config config = load_config(argument);
    Plan plan = make_plan(config);
    const Workload work = options.problem.workload(plan.resolved());
    if (options.tuned) plan = make_plan(load_winner(config, device, work.shape));
    const KernelSource source = source_of(plan, options.source);
    progress_line.show(document.size(), "timing " + source.manifest.name);
    const std::shared_ptr<Kernel> kernel = runtime.load(source);
    RunOptions run_options;
    run_options.warmup = options.warmup;
    run_options.iterations = options.iterations;
    const RunResult result = run_workload(runtime, *kernel, work, run_options);
    const MaskConfig mask = plan.resolved().mask.value_or(MaskConfig{});
    const double us = result.launch_us;
    // Only what the mask leaves visible counts as work.
    const double tflops = us > 0 ? 2 * reference_cost(work.shape, mask) / us * 1e-6 : 0;
    // Decode is held to the memory: its figure is what peers give, bytes of K and V alone.
    const double bytes = source.manifest.operation == Operation::decode
                             ? kv_bytes(source.manifest, work.shape)
                             : tensor_bytes(source.manifest, work.shape);
    const double gbps = us > 0 ? bytes / us * 1e-3 : 0;
    problem = work.shape.text();
    document.push_back({{"name", source.manifest.name},
                        {"problem", problem},
                        {"us", us},
                        {"samples", result.samples_us},
                        {"tflops", tflops},
                        {"gbps", gbps}});
    rows.push_back({source.manifest.name, fmt::format("{:.1f}", us), fmt::format("{:.1f}", tflops),
                    fmt::format("{:.0f}", gbps)});
  }
  if (json) {
    print_json(document);
  } else {
    fmt::print("{} ({}), {}, median of {}\n{}", bold(device.name), device.selector, problem,
               options.iterations, table(rows));
  }
  return 0;
}

}  // namespace

Action add_bench(CLI::App& command, Common& common) {
  auto options = std::make_shared<Options>();
  command.add_option("CONFIG", options->configs, "Configs to time");
  command
      .add_option(
          "--compare", options->compare,
          "Instead: two files that `kiln bench --json` wrote, OLD NEW; status 1 when something became slower")
      ->expected(2)
      ->type_name("FILE");
  command.add_option(
      "--source", options->source,
      "A file with the edited source of the config's kernel (`kiln generate`) to take in its place");
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
